"""How a request is held against texts whose agent is known: kernel ridge regression, and the nearest text.

Ridge regression has a closed form for what it would say of each of its own texts had that text been left out: with
``A = (K + rI)^-1`` and ``a = A Y``, it is ``Y - a / diag(A)``. So the calibration of a catalog costs one matrix.
See Rifkin and Lippert, "Notes on Regularized Least Squares", MIT-CSAIL-TR-2007-025.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.word_index import Floats

__all__ = ["Head", "NearestHead", "RidgeHead", "closeness", "fit_nearest", "fit_ridge"]


class Head(Protocol):
    """Says for each class how much a text with these similarities to the known ones looks like it."""

    @property
    def left_out(self) -> Floats:
        """What it would say of each known text without knowing it: a row for each text, a column for each class."""
        ...

    def scores(self, similarities: Floats) -> Floats:
        """Return a value for each class."""
        ...


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """Weighs all known texts against each other."""

    weights: Floats
    left_out: Floats

    def scores(self, similarities: Floats) -> Floats:
        """See ``Head``."""
        return np.asarray(similarities @ self.weights)


@dataclass(frozen=True, eq=False)
class NearestHead:
    """Looks for each class's nearest text: for sets that are too large for a matrix of all pairs."""

    starts: NDArray[np.int64]
    """Where each class's texts begin; they are sorted by class."""
    left_out: Floats

    def scores(self, similarities: Floats) -> Floats:
        """See ``Head``."""
        return np.asarray(np.maximum.reduceat(similarities, self.starts))


def fit_ridge(kernel: Floats, targets: Floats, ridge: float) -> RidgeHead:
    """Fit the weights that give each text its row of ``targets``."""
    inverse = np.linalg.inv(kernel + ridge * np.eye(len(kernel)))
    weights = inverse @ targets
    return RidgeHead(weights, targets - weights / np.diag(inverse)[:, None])


def fit_nearest(owners: NDArray[np.int64]) -> NearestHead:
    """Make the head of texts whose ``owners`` are sorted and begin with 0; nothing is known of texts left out."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return NearestHead(starts, np.zeros((0, len(starts))))


def closeness(vectors: NDArray[np.float32], others: NDArray[np.float32], sharpness: float) -> Floats:
    """Return for each pair how close they are: 1 where they are alike, falling off the faster the sharper."""
    return np.asarray(np.exp(sharpness * (vectors @ others.T - 1.0)), dtype=np.float64)
