"""What the agents of one catalog are about, learned from their descriptions and examples.

Two heads. The *choice* says whose request it is, by meaning and by words, mixed as suits the catalog. The *scope* says
whether it is anybody's: the agents' texts against requests that are hardly anybody's. A request belongs here when both
together are no lower than what the catalog's own examples get, each while it is left out: nineteen of twenty are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.calibration import Calibration, calibrated
from ekiden.dispatcher.routing.encoder import Encoder, Vectors
from ekiden.dispatcher.routing.kernels import Head, closeness, fit_nearest, fit_ridge
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.dispatcher.routing.word_index import Floats, WordIndex
from ekiden.shared.definitions.model import AgentDefinition

__all__ = ["Judgement", "SemanticModel", "learn"]

LONGEST = 2_000
"""Characters of a request that are looked at."""
_MOST_ROWS = 3_000
"""Texts above which no matrix of all pairs is made."""
_RIDGE = 0.05
_SCOPE_SHARPNESS = 4.0
_SCOPE_RIDGE = 0.1
_ENOUGH = 10
"""Texts of an agent, in the mean, from which on the mixture is chosen by them."""
_SHARPNESSES = (1.0, 3.0)
_SHARES_OF_WORDS = (0.3, 0.6)
"""The mixtures to choose from."""
_CERTAINTY = 12.0
"""Turns a head's values into odds, to compare mixtures by."""


@dataclass(frozen=True)
class Mixture:
    """How the choice sees two texts: close in meaning (falling off the faster the sharper), alike in words."""

    sharpness: float = 3.0
    words: float = 0.5

    def meant(self, vectors: Vectors, others: Vectors) -> Floats:
        """Return what meaning has to say of each pair."""
        return (1 - self.words) * closeness(vectors, others, self.sharpness)


@dataclass(frozen=True)
class Judgement:
    """How a request looks to a catalog. ``order`` has the agents' numbers, best first."""

    order: NDArray[np.int64]
    scores: Floats
    belonging: float
    share: float
    """Of 100: how surely it belongs to anybody; from 50 on it does."""
    confidence: float


@dataclass(frozen=True, eq=False)
class SemanticModel:
    """A catalog's texts and the heads that were fitted on them. Make one with ``learn``."""

    names: tuple[str, ...]
    vectors: Vectors
    scope_vectors: Vectors
    words: WordIndex
    mixture: Mixture
    choice: Head
    scope: Head
    calibration: Calibration

    def judge(self, text: str, encoder: Encoder) -> Judgement:
        """Hold ``text`` against all agents."""
        text = text[:LONGEST]
        vector = encoder.encode([text])
        alike, known = self.words.similarities(text)
        meant = self.mixture.meant(vector, self.vectors)[0]
        said = self.mixture.words * alike
        scores = self.choice.scores(meant + said)
        best = float(self.choice.scores(meant + known * said).max())  # unknown words speak against everybody
        inside = float(self.scope.scores(closeness(vector, self.scope_vectors, _SCOPE_SHARPNESS)[0])[0])
        order = np.argsort(-scores, kind="stable")
        lead = float(scores[order[0]] - scores[order[1]]) if len(order) > 1 else 1.0
        belonging = self.calibration.belonging(best, inside)
        return Judgement(
            order, scores, belonging, self.calibration.share(belonging), self.calibration.confidence(belonging, lead)
        )


def learn(agents: Sequence[AgentDefinition], encoder: Encoder, vectors: Vectors | None = None) -> SemanticModel:
    """Fit the heads on the agents' texts. ``vectors``: those of ``texts_of`` all agents, where they are known."""
    several = [texts_of(agent) for agent in agents]
    texts = [text for own in several for text in own]
    owners = np.repeat(np.arange(len(agents)), [len(own) for own in several])
    is_example = np.diff(owners, prepend=-1) == 0
    vectors = encoder.encode(texts) if vectors is None else vectors
    words = WordIndex(texts)
    mixture, choice = _choice(vectors, words, owners, is_example)
    background = encoder.encode(OUT_OF_SCOPE)
    kept = _sample(len(texts))
    scope_vectors = np.concatenate([vectors[kept], background])
    scope = _scope(scope_vectors, len(kept))
    calibration = calibrated(
        choice.left_out[is_example] if len(choice.left_out) else choice.left_out,
        owners[is_example],
        scope.left_out[: len(kept)][is_example[kept], 0],
        np.column_stack([_best(words, mixture, choice, vectors, background), scope.left_out[len(kept) :, 0]]),
        len(agents),
    )
    names = tuple(agent.name for agent in agents)
    return SemanticModel(names, vectors, scope_vectors, words, mixture, choice, scope, calibration)


def texts_of(agent: AgentDefinition) -> list[str]:
    """Return what tells an agent's work: its name with its description, then its examples."""
    name = " ".join(agent.name.replace("_", " ").replace("-", " ").split())
    about = f"{name}. {agent.description}"
    return [text[:LONGEST] for text in (about, *dict.fromkeys(agent.triggers.examples))]


def _choice(
    vectors: Vectors, words: WordIndex, owners: NDArray[np.int64], is_example: NDArray[np.bool_]
) -> tuple[Mixture, Head]:
    """Fit the choice, in the mixture that tells the catalog's own examples apart best, each while it is left out."""
    if len(owners) > _MOST_ROWS:
        return Mixture(), fit_nearest(owners)
    agents = int(owners[-1]) + 1
    each = len(owners) / agents
    grid = product(_SHARPNESSES, _SHARES_OF_WORDS) if each > _ENOUGH else ()
    mixtures = [Mixture(*both) for both in grid] or [Mixture()]
    alike = words.kernel()
    ridge = _RIDGE + 1 / each**2  # with a text each, it is simply the nearest
    fitted = [
        (one, fit_ridge(one.meant(vectors, vectors) + one.words * alike, np.eye(agents)[owners], ridge))
        for one in mixtures
    ]
    return min(fitted, key=lambda pair: _surprise(pair[1].left_out[is_example], owners[is_example]))


def _surprise(scores: Floats, owners: NDArray[np.int64]) -> float:
    """Return the mean logarithmic loss."""
    if not len(scores):
        return 0.0
    odds = _CERTAINTY * (scores - scores.max(axis=1, keepdims=True))
    right = odds[np.arange(len(owners)), owners]
    return float((np.log(np.exp(odds).sum(axis=1)) - right).mean())


def _scope(vectors: Vectors, inside: int) -> Head:
    targets = (np.arange(len(vectors)) < inside).astype(np.float64)[:, None]
    return fit_ridge(closeness(vectors, vectors, _SCOPE_SHARPNESS), targets, _SCOPE_RIDGE)


def _sample(rows: int) -> NDArray[np.int64]:
    """Return all row numbers, or as many as can be compared with each other, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(rows, _MOST_ROWS)).astype(np.int64))


def _best(words: WordIndex, mixture: Mixture, choice: Head, vectors: Vectors, background: Vectors) -> list[float]:
    """Return for each background request what the best agent gets."""
    best = []
    for text, meant in zip(OUT_OF_SCOPE, mixture.meant(background, vectors), strict=True):
        alike, known = words.similarities(text)
        best.append(float(choice.scores(meant + mixture.words * known * alike).max()))
    return best
