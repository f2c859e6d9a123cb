"""What the agents of one catalog are about, learned from their files.

Whose request it is, is the *choice* (``choice.py``). Whether it is anybody's: the margin of the best agent and, where
there are examples, the *scope*, which holds all texts of the catalog against requests that are hardly anybody's. From
which value on it is somebody's, the catalog's own texts tell (``calibration.py``): those of a user's agents for them,
those of the agents that come with Ekiden for these. How many examples these have says nothing of what users ask for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.agent_texts import LONGEST, AgentVectors, encoded
from ekiden.dispatcher.routing.calibration import Calibration, Scales, calibrated, scales_of
from ekiden.dispatcher.routing.choice import KINDS as OF_CHOICE
from ekiden.dispatcher.routing.choice import Choice, choice_of
from ekiden.dispatcher.routing.kernels import Head, closeness, fit_ridge
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.shared.definitions.loader import SHIPPED
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Encoder, Vectors
from ekiden.shared.embedding.single_thread import single_threaded
from ekiden.shared.embedding.word_index import Floats

__all__ = ["KINDS", "Judgement", "SemanticModel", "learn"]

_MOST_SCOPED = 3_000
_SHARPNESS = 4.0
_RIDGE = 0.1
_MOST_STRANGERS = 300
"""Agents whose own texts are held against the others'."""


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
class Scope:
    """Holds all texts of a catalog against requests that are hardly anybody's."""

    vectors: Vectors
    head: Head
    rows: NDArray[np.int64]
    """Which of the catalog's texts come first among ``vectors``."""

    def scores(self, vector: Vectors) -> Floats:
        """Return how much it looks like the catalog: about 0 to 1."""
        return self.head.scores(closeness(vector, self.vectors, _SHARPNESS)[0])

    def left_out(self, texts: NDArray[np.int64]) -> Floats:
        """Return it for some of the catalog's texts, each judged without it."""
        return np.asarray(np.interp(texts, self.rows, self.head.left_out[: len(self.rows), 0]))

    @property
    def outside(self) -> Floats:
        """Return it for the requests that are hardly anybody's, each judged without it."""
        return np.asarray(self.head.left_out[len(self.rows) :, 0])


@dataclass(frozen=True, eq=False)
class Reading:
    """How much the best agent's margin and the scope are, for the agents of one origin."""

    scales: Scales
    calibration: Calibration


@dataclass(frozen=True, eq=False)
class SemanticModel:
    """A catalog's texts and what was fitted on them. Make one with ``learn``."""

    names: tuple[str, ...]
    choice: Choice
    scope: Scope
    readings: tuple[Reading, ...]
    origins: NDArray[np.int64]
    """For each agent which of ``readings`` holds."""

    @single_threaded()
    def judge(self, text: str, encoder: Encoder) -> Judgement:
        """Hold ``text`` against all agents."""
        text = text[:LONGEST]
        vector = encoder.encode([text])
        scores, margin = self.choice.judge(text, vector)
        order = np.argsort(-scores, kind="stable")
        lead = float(scores[order[0]] - scores[order[1]]) if len(order) > 1 else 1.0
        reading = self.readings[self.origins[order[0]]]
        belonging = float(reading.scales.belonging(np.array([margin]), self.scope.scores(vector))[0])
        calibration = reading.calibration
        return Judgement(
            order, scores, belonging, calibration.share(belonging), calibration.confidence(belonging, lead)
        )


KINDS = (SemanticModel, Reading, Scope, Scales, Calibration, *OF_CHOICE)
"""What a model is made of."""


@single_threaded()
def learn(agents: Sequence[AgentDefinition], encoder: Encoder, known: Sequence[AgentVectors] = ()) -> SemanticModel:
    """Fit the heads on the agents' texts. ``known``: the vectors of all ``agents``, where they are known."""
    own = known or list(encoded(agents, encoder, {}).values())
    choice = choice_of(agents, own, encoder.encode(OUT_OF_SCOPE))
    scope = _scope_of(choice)
    _, origins = np.unique([agent.scope == SHIPPED for agent in agents], return_inverse=True)
    readings = tuple(_readings(choice, scope, origins))
    return SemanticModel(tuple(agent.name for agent in agents), choice, scope, readings, origins)


def _readings(choice: Choice, scope: Scope, origins: NDArray[np.int64]) -> Iterator[Reading]:
    examples = np.bincount(choice.owners) - 1
    scores, margins = choice.inside()
    outside = choice.outside(OUT_OF_SCOPE)
    rows = np.flatnonzero(choice.is_example)[: len(margins)]
    owners = choice.owners[rows]
    for origin in range(origins.max() + 1):
        agents, ours = origins == origin, origins[owners] == origin
        exemplified = float((examples[agents] > 0).mean()) if len(margins) else 0.0
        scales = scales_of(outside, scope.outside, exemplified)
        inside = scales.belonging(margins[ours], scope.left_out(rows[ours]))
        strangers = _strangers(choice, scope, scales, np.flatnonzero(agents & (examples == 0)))
        yield Reading(scales, calibrated(inside, strangers, exemplified, scores, owners))


def _scope_of(choice: Choice) -> Scope:
    rows = _sample(len(choice.vectors), _MOST_SCOPED)
    vectors = np.concatenate([choice.vectors[rows], choice.background])
    targets = (np.arange(len(vectors)) < len(rows)).astype(np.float64)[:, None]
    return Scope(vectors, fit_ridge(closeness(vectors, vectors, _SHARPNESS), targets, _RIDGE), rows)


def _strangers(choice: Choice, scope: Scope, scales: Scales, agents: NDArray[np.int64]) -> Floats:
    """Return the belonging of the own texts of ``agents``, each judged as if its agent were none of the catalog."""
    if len(choice.fading) < 2 or not len(agents):
        return np.zeros(0)
    some = agents[_sample(len(agents), _MOST_STRANGERS)]
    abouts = scope.left_out(np.flatnonzero(~choice.is_example)[some])
    found = [(choice.strange(int(agent)), about) for agent, about in zip(some, abouts, strict=True)]
    return np.concatenate([scales.belonging(margins, np.full(len(margins), about)) for margins, about in found])


def _sample(rows: int, most: int) -> NDArray[np.int64]:
    """Return all row numbers, or as many as ``most``, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))
