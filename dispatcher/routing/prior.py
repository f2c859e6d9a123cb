"""What is known of agents before any example: how near a request is to what their files say.

Half of it is the nearness to the description, half to the best of the requests made from it. What an agent gets from
requests that are hardly anybody's is taken off by half: some descriptions are near to everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.agent_texts import AgentVectors
from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.embedding.word_index import Floats

__all__ = ["NEAREST", "Prior", "mean_of_best", "prior_of"]

NEAREST = 3
"""Texts that nearness to a set of texts is the mean of."""


@dataclass(frozen=True, eq=False)
class Prior:
    """The files' vectors. Make one with ``prior_of``."""

    about: Vectors
    """A row for each agent."""
    made: Vectors
    """For each agent the same number of rows, perhaps none: agents x rows x dimensions."""
    common: Floats
    """For each agent what is taken off."""

    def scores(self, vectors: Vectors) -> Floats:
        """Return for each of ``vectors`` (a row each) the nearness of each agent (a column each)."""
        return self._nearness(vectors) - self.common

    def own(self, agent: int) -> Vectors:
        """Return the vectors of an agent's own texts."""
        return np.concatenate([self.about[agent : agent + 1], self.made[agent]])

    def _nearness(self, vectors: Vectors) -> Floats:
        near = (vectors @ self.about.T).astype(np.float64)
        if not self.made.shape[1]:
            return near
        made = vectors @ self.made.reshape(-1, self.made.shape[2]).T
        return 0.5 * near + 0.5 * mean_of_best(made.reshape(len(vectors), *self.made.shape[:2]))


def prior_of(agents: Sequence[AgentVectors], background: Vectors) -> Prior:
    """Make the prior of agents, and of requests that are hardly anybody's."""
    about = np.array([agent.texts[0] for agent in agents])
    most = max(len(agent.made) for agent in agents)
    made = np.array([_filled(agent, most) for agent in agents]).reshape(len(agents), most, about.shape[1])
    plain = Prior(about, made, np.zeros(len(agents)))
    common = 0.5 * plain.scores(background).mean(axis=0)
    return Prior(about, made, common - common.mean())


def mean_of_best(values: NDArray[np.floating]) -> Floats:
    """Return the mean of the ``NEAREST`` largest along the last axis."""
    count = min(NEAREST, values.shape[-1])
    best = np.partition(values, -count, axis=-1)[..., -count:]
    return np.asarray(best.mean(axis=-1), dtype=np.float64)


def _filled(agent: AgentVectors, rows: int) -> Vectors:
    """Return ``rows`` of the agent's made requests, repeated as often as it takes."""
    own = agent.made if len(agent.made) else agent.texts[:1]
    return own[np.arange(rows) % len(own)]
