"""Texts as weighted words: what two requests have literally in common, in any script.

Words and pairs of words, and runs of two to four characters (so that scripts without spaces, inflection and typing
errors are met), each weighted by TF-IDF and each of the two groups brought to length one.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ekiden.shared.embedding.postings import Floats, postings_of

__all__ = ["Floats", "WordIndex", "is_unspaced", "words_of"]

_SHARES = {"w": 0.7, "r": 0.3}
"""What of the similarity comes from words, and what from runs of characters: the first letters of features."""
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_ALL_UNSPACED = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(rf"[{_UNSPACED}]|(?:[^\W{_UNSPACED}]|')+")


def words_of(text: str) -> list[str]:
    """Return the words, folded; in scripts without spaces every character is one."""
    return _WORD.findall(text.casefold())


def is_unspaced(text: str) -> bool:
    """Tell whether ``text`` is of characters that are written without spaces between words."""
    return _ALL_UNSPACED.fullmatch(text) is not None


class WordIndex:
    """A set of texts, and how similar any text is to each of them: 0 to 1."""

    def __init__(self, texts: Sequence[str]) -> None:
        counted = [_features(text) for text in texts]
        frequency = Counter(feature for counts in counted for feature in counts)
        self._size = len(texts)
        self._number = {feature: number for number, feature in enumerate(frequency)}
        self._rarity = np.array([self._rarity_of(count) for count in frequency.values()])
        self._unknown = self._rarity_of(0)
        self._postings = postings_of([self._weighted(counts)[:2] for counts in counted], len(self._number))

    def similarities(self, text: str) -> tuple[Floats, float]:
        """Return the similarity to each text, and what share of ``text`` any of them knows."""
        numbers, weights, known = self._weighted(_features(text))
        return self._products(numbers, weights), known

    def kernel(self) -> Floats:
        """Return the similarity of every text to every other."""
        return np.array([self._products(*row) for row in self._postings.by_text(self._size)]).reshape(-1, self._size)

    def _products(self, numbers: Sequence[int], weights: Sequence[float]) -> Floats:
        rows, products = self._postings.of_all(numbers, weights)
        return np.bincount(rows, products, self._size).astype(np.float64)

    def _rarity_of(self, count: int) -> float:
        return math.log((1 + self._size) / (1 + count)) + 1

    def _weighted(self, counts: Counter[str]) -> tuple[list[int], list[float], float]:
        known: list[tuple[str, int, float]] = []
        squares = dict.fromkeys(_SHARES, 0.0)
        unknown = dict.fromkeys(_SHARES, 0.0)
        number_of, rarity_of = self._number.get, self._rarity.item
        for feature, count in counts.items():
            number, kind = number_of(feature), feature[0]
            weight = (1 + math.log(count)) * (self._unknown if number is None else rarity_of(number))
            if number is None:
                unknown[kind] += weight * weight
                continue
            squares[kind] += weight * weight
            known.append((kind, number, weight))
        lengths = {kind: math.sqrt(share / square) for kind, share in _SHARES.items() if (square := squares[kind])}
        numbers = [number for _, number, _ in known]
        scaled = [weight * lengths[kind] for kind, _, weight in known]
        return numbers, scaled, _known_share(squares, unknown)


def _known_share(squares: dict[str, float], unknown: dict[str, float]) -> float:
    """How long the known part of the text is, against the whole: the mean over the groups."""
    shares = 0.0
    for kind, share in _SHARES.items():
        whole = squares[kind] + unknown[kind]
        shares += share * math.sqrt(squares[kind] / whole) if whole else 0.0
    return shares


def _features(text: str) -> Counter[str]:
    words = words_of(text)
    spaced = f" {' '.join(text.casefold().split())} "
    return Counter(
        [
            *(f"w{word}" for word in words),
            *(f"w{first} {second}" for first, second in pairwise(words)),
            *[f"r{spaced[at : at + size]}" for size in (2, 3, 4) for at in range(len(spaced) - size + 1)],
        ]
    )
