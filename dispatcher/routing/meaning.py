"""What the agents of one catalog are about, learned from their descriptions and examples.

Two heads. The *choice* says whose request it is: half by meaning, half by words. The *scope* says whether it is
anybody's: the agents' texts against requests that are hardly anybody's. A request belongs here when both together are
no lower than what the catalog's own examples get, each while it is left out: nineteen of twenty are to be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatcher.routing.background import BACKGROUND
from dispatcher.routing.calibration import Calibration, calibrated
from dispatcher.routing.encoder import Encoder, Vectors
from dispatcher.routing.kernels import Head, closeness, fit_nearest, fit_ridge
from dispatcher.routing.words import Floats, WordIndex
from shared.definitions.model import AgentDefinition

__all__ = ["Judgement", "Meaning", "learn"]

LONGEST = 2_000
"""Characters of a request that are looked at."""
_MOST_ROWS = 3_000
"""Texts above which no matrix of all pairs is made."""
_MEANING_SHARE = 0.5
_SHARPNESS = 3.0
_SCOPE_SHARPNESS = 4.0
_RIDGE = 0.05
_SCOPE_RIDGE = 0.1


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
class Meaning:
    """A catalog's texts and the heads that were fitted on them. Make one with ``learn``."""

    names: tuple[str, ...]
    vectors: Vectors
    scope_vectors: Vectors
    words: WordIndex
    choice: Head
    scope: Head
    calibration: Calibration

    def judge(self, text: str, encoder: Encoder) -> Judgement:
        """Hold ``text`` against all agents."""
        text = text[:LONGEST]
        vector = encoder.encode([text])
        alike, known = self.words.similarities(text)
        meant = _MEANING_SHARE * closeness(vector, self.vectors, _SHARPNESS)[0]
        said = (1 - _MEANING_SHARE) * alike
        scores = self.choice.scores(meant + said)
        best = float(self.choice.scores(meant + known * said).max())  # unknown words speak against everybody
        inside = float(self.scope.scores(closeness(vector, self.scope_vectors, _SCOPE_SHARPNESS)[0])[0])
        order = np.argsort(-scores, kind="stable")
        lead = float(scores[order[0]] - scores[order[1]]) if len(order) > 1 else 1.0
        belonging = self.calibration.belonging(best, inside)
        return Judgement(
            order, scores, belonging, self.calibration.share(belonging), self.calibration.confidence(belonging, lead)
        )


def learn(agents: Sequence[AgentDefinition], encoder: Encoder, vectors: "Vectors | None" = None) -> Meaning:
    """Fit the heads on the agents' texts. ``vectors``: those of ``texts_of`` all agents, where they are known."""
    texts = [text for agent in agents for text in texts_of(agent)]
    owners = np.repeat(np.arange(len(agents)), [len(texts_of(agent)) for agent in agents])
    is_example = np.diff(owners, prepend=-1) == 0
    if vectors is None:
        vectors = encoder.encode(texts)
    background = encoder.encode(BACKGROUND)
    words = WordIndex(texts)
    choice = _choice(vectors, words, owners)
    kept = _sample(len(texts))
    scope_vectors = np.concatenate([vectors[kept], background])
    scope = _scope(scope_vectors, len(kept))
    calibration = calibrated(
        choice.left_out[is_example] if len(choice.left_out) else choice.left_out,
        owners[is_example],
        scope.left_out[: len(kept)][is_example[kept], 0],
        _background_belonging(words, choice, vectors, background, scope, len(kept)),
        len(agents),
    )
    names = tuple(agent.name for agent in agents)
    return Meaning(names, vectors, scope_vectors, words, choice, scope, calibration)


def texts_of(agent: AgentDefinition) -> list[str]:
    """Return what tells an agent's work: its name with its description, then its examples."""
    name = " ".join(agent.name.replace("_", " ").replace("-", " ").split())
    about = f"{name}. {agent.description}"
    return [text[:LONGEST] for text in (about, *dict.fromkeys(agent.triggers.examples))]
