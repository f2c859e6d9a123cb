"""Whose request it is: what the agents' examples teach, and what their files say as long as there are few.

Kernel ridge regression over descriptions and examples, by meaning and by words, and beside it each agent's *prior*,
which fades as its examples come. *Margin*: how far the best agent is ahead of the requests that are hardly anybody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.agent_texts import AgentVectors, texts_of
from ekiden.dispatcher.routing.kernels import Head, NearestHead, RidgeHead, closeness, fit_nearest, fit_ridge
from ekiden.dispatcher.routing.own_words import OwnWords
from ekiden.dispatcher.routing.prior import Prior, mean_of_best, prior_of
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.embedding.postings import Postings
from ekiden.shared.embedding.word_index import Floats, WordIndex

__all__ = ["KINDS", "Choice", "choice_of"]

_MOST_ROWS = 3_000
"""Texts above which no matrix of all pairs is made."""
_RIDGE = 0.1
_ENOUGH = 11
"""Texts of an agent, in the mean, above which the mixture is chosen by them."""
_SHARPNESSES = (1.0, 3.0)
_SHARES_OF_WORDS = (0.3, 0.6)
"""The mixtures to choose from."""
_CERTAINTY = 12.0
"""Turns a head's values into odds, to compare mixtures by."""
_PRIOR = 1.5
"""What the prior weighs for an agent without examples."""
_FADING = 3.0
"""Examples by which it weighs half of that."""
_OWN_WORDS = 0.2
_OF_PRIOR, _OF_HEAD = 0.7, 0.5
"""How much the nearest requests that are hardly anybody's take off, for what the prior weighs and for the head."""


@dataclass(frozen=True)
class Mixture:
    """How two texts are compared: close in meaning (falling off the faster the sharper), alike in words."""

    sharpness: float = 3.0
    words: float = 0.3

    def meant(self, vectors: Vectors, others: Vectors) -> Floats:
        """Return what meaning has to say of each pair."""
        return (1 - self.words) * closeness(vectors, others, self.sharpness)


@dataclass(frozen=True, eq=False)
class Choice:
    """All that tells agents apart. Make one with ``choice_of``."""

    texts: tuple[str, ...]
    """Of all agents, each agent's description before its examples."""
    vectors: Vectors
    owners: NDArray[np.int64]
    background: Vectors
    """Of requests that are hardly anybody's."""
    words: WordIndex
    own_words: OwnWords
    mixture: Mixture
    head: Head
    prior: Prior
    fading: Floats
    """For each agent what its prior weighs."""

    @property
    def is_example(self) -> NDArray[np.bool_]:
        """Tell of each text whether it is an example."""
        return np.asarray(np.diff(self.owners, prepend=-1) == 0)

    def judge(self, text: str, vector: Vectors) -> tuple[Floats, float]:
        """Return what each agent gets for ``text``, and the margin of the best."""
        alike, known = self.words.similarities(text)
        meant = self.mixture.meant(vector, self.vectors)[0]
        said = self.mixture.words * alike
        near = self._near(vector)[0]
        scores = self.head.scores(meant + said) + near + self._own(text)
        heard = self.head.scores(meant + known * said) + near  # unknown words speak against everybody
        return scores, float(self._margins(heard[None], vector @ self.background.T)[0])

    def outside(self, texts: Sequence[str]) -> Floats:
        """Return the margin of each of the background's ``texts``, judged without it."""
        scores = self._near(self.background)
        for row, (text, meant) in enumerate(zip(texts, self.mixture.meant(self.background, self.vectors), strict=True)):
            alike, known = self.words.similarities(text)
            scores[row] += self.head.scores(meant + self.mixture.words * known * alike)
        near = self.background @ self.background.T
        np.fill_diagonal(near, -1.0)
        return self._margins(scores, near)

    def inside(self) -> tuple[Floats, Floats]:
        """Return what each agent gets for each example, and its margin, judged without it: no rows for many texts."""
        if not len(self.head.left_out):
            return np.zeros((0, len(self.fading))), np.zeros(0)
        vectors = self.vectors[self.is_example]
        heard = self.head.left_out[self.is_example] + self._near(vectors)
        own = [self._own(text) for text, is_one in zip(self.texts, self.is_example, strict=True) if is_one]
        return heard + np.reshape(own, heard.shape), self._margins(heard, vectors @ self.background.T)

    def strange(self, agent: int) -> Floats:
        """Return the margin of each of an agent's own texts among the other agents."""
        vectors = self.prior.own(agent)
        scores = self.head.scores(self.mixture.meant(vectors, self.vectors)) + self._near(vectors)
        return self._margins(np.delete(scores, agent, axis=1), vectors @ self.background.T)

    def _near(self, vectors: Vectors) -> Floats:
        return self.fading * self.prior.scores(vectors)

    def _own(self, text: str) -> Floats:
        return self.fading * _OWN_WORDS * self.own_words.scores(text)

    def _margins(self, scores: Floats, near: NDArray[np.floating]) -> Floats:
        taken_off = _OF_PRIOR * float(self.fading.mean()) + _OF_HEAD
        return np.asarray(scores.max(axis=1) - taken_off * mean_of_best(near))


KINDS = (Choice, WordIndex, OwnWords, Postings, Mixture, RidgeHead, NearestHead, Prior)
"""What a choice is made of."""


def choice_of(agents: Sequence[AgentDefinition], own: Sequence[AgentVectors], background: Vectors) -> Choice:
    """Fit the choice on the agents' texts, whose vectors are ``own``."""
    texts = tuple(text for agent in agents for text in texts_of(agent))
    vectors = np.concatenate([one.texts for one in own])
    owners = np.repeat(np.arange(len(agents)), [len(one.texts) for one in own])
    words = WordIndex(texts)
    mixture, head = _fitted(vectors, words, owners)
    fading = _PRIOR / (1 + (np.bincount(owners) - 1) / _FADING)
    prior = prior_of(own, background)
    return Choice(texts, vectors, owners, background, words, OwnWords(agents), mixture, head, prior, fading)


def _fitted(vectors: Vectors, words: WordIndex, owners: NDArray[np.int64]) -> tuple[Mixture, Head]:
    """Fit the head, in the mixture that tells the catalog's own examples apart best, each while it is left out."""
    if len(owners) > _MOST_ROWS:
        return Mixture(), fit_nearest(owners)
    agents = int(owners[-1]) + 1
    grid = product(_SHARPNESSES, _SHARES_OF_WORDS) if len(owners) > _ENOUGH * agents else ()
    mixtures = [Mixture(*both) for both in grid] or [Mixture()]
    alike = words.kernel()
    is_example = np.diff(owners, prepend=-1) == 0
    fitted = [
        (one, fit_ridge(one.meant(vectors, vectors) + one.words * alike, np.eye(agents)[owners], _RIDGE))
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
