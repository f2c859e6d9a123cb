"""Which texts a feature occurs in, and how much it weighs there: a list for each feature, all in three arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Postings", "postings_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Postings:
    """The features' lists, one behind the other. Make one with ``postings_of``."""

    starts: NDArray[np.int64]
    """Where each feature's list begins, and where the last one ends."""
    texts: NDArray[np.int64]
    weights: Floats

    def of(self, feature: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the texts of a feature, ascending, and what it weighs in each."""
        part = slice(self.starts[feature], self.starts[feature + 1])
        return self.texts[part], self.weights[part]

    def of_all(self, features: Sequence[int], weights: Sequence[float]) -> tuple[NDArray[np.int64], Floats]:
        """Return the texts of each feature, one list behind the other, and what it weighs there, times its weight."""
        numbers = np.asarray(features, np.int64)
        starts = self.starts[numbers]
        lengths = self.starts[numbers + 1] - starts
        begins = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)
        return self.texts[places], self.weights[places] * np.repeat(weights, lengths)

    def by_text(self, texts: int) -> Iterator[tuple[list[int], list[float]]]:
        """Yield for each of as many ``texts`` the features that it has, ascending, and their weights."""
        features = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.argsort(self.texts, kind="stable")
        ends = np.cumsum(np.bincount(self.texts, minlength=texts))[:-1]
        for places in np.split(order, ends):
            yield features[places].tolist(), self.weights[places].tolist()


def postings_of(rows: Sequence[tuple[Sequence[int], Sequence[float]]], features: int) -> Postings:
    """Turn round what each text has: its features' numbers (less than ``features``) and their weights."""
    numbers = np.fromiter((number for own, _ in rows for number in own), np.int64)
    weights = np.fromiter((weight for _, own in rows for weight in own), np.float64)
    texts = np.repeat(np.arange(len(rows)), [len(own) for own, _ in rows])
    order = np.argsort(numbers, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=features))]).astype(np.int64)
    return Postings(starts, texts[order], weights[order])
