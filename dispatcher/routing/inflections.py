"""Texts with the English inflection of their words cut off, and where in the text each part of that stands.

A keyword is found in all its forms: ``debug`` in ``debugging``, ``invoices`` in ``invoice``. Cutting alone would also
join words that only look alike (``news`` and ``new``): ``is_same`` holds the stems of what was found against each
other. Stems alone would join too many: ``performance`` and ``perform`` have the same.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from ekiden.shared.embedding.stems import stem

__all__ = ["Uninflected", "folded", "is_same", "uninflected"]

_WORD = re.compile(r"[a-z]+")
_LONG = re.compile(r"[a-z]{4,}")
"""Shorter words have no ending that could be told."""
_ENDINGS = tuple(
    (re.compile(f"(?<=[a-z]{{{least}}}){ending}$"), left)
    for least, ending, left in (
        (2, "(?:ies|ied)", "y"),  # queries
        (3, "(?:(?<!e)ed|ing|es|(?<!s)s)", ""),  # charged, charging, charges, tests
        (3, "[ey]", ""),  # charge, query
        (3, "(?<!s)s", ""),  # statuses are a status
    )
)
_SHORT = 200
"""Characters of a text that is remembered: the rules of each catalog are held against the same general requests."""
_DOUBLED = re.compile(r"([a-z])\1$")


@dataclass(frozen=True)
class Uninflected:
    """A folded text with its words cut."""

    text: str
    folded: str
    _starts: tuple[int, ...]
    """Of the parts of ``text``, beginning with 0."""
    _origins: tuple[int, ...]
    """Where the same parts begin in ``folded``."""

    def origin(self, first: int, end: int) -> tuple[int, int]:
        """Return the span of ``folded`` that a span of ``text`` stands for; both begin and end with whole words."""
        return self._origin(first), self._origin(end) if end < len(self.text) else len(self.folded)

    def _origin(self, place: int) -> int:
        part = bisect_right(self._starts, place) - 1
        return self._origins[part] + place - self._starts[part]


def folded(text: str) -> str:
    """Return ``text`` as keywords are compared: case-folded, every gap one space."""
    return " ".join(text.casefold().split())


def uninflected(text: str) -> Uninflected:
    """Fold ``text`` and cut its words."""
    return _known(text) if len(text) <= _SHORT else _uninflected(text)


def _uninflected(text: str) -> Uninflected:
    whole = folded(text)
    parts, starts, origins, length, last = list[str](), [0], [0], 0, 0
    for word in _LONG.finditer(whole):
        if (cut := _cut(word[0])) == word[0]:
            continue
        parts += [whole[last : word.start()], cut]
        length += word.start() - last + len(cut)
        last = word.end()
        starts.append(length)
        origins.append(last)
    parts.append(whole[last:])
    return Uninflected("".join(parts), whole, tuple(starts), tuple(origins))


_known = lru_cache(1024)(_uninflected)


def is_same(keyword: str, found: str) -> bool:
    """Tell whether two folded texts whose uninflected forms are equal are of the same words."""
    if keyword == found:
        return True
    pairs = zip(_WORD.findall(keyword), _WORD.findall(found), strict=False)
    return all(one == other or stem(one) == stem(other) for one, other in pairs)


@lru_cache(65_536)
def _cut(word: str) -> str:
    for ending, left in _ENDINGS:
        word = ending.sub(left, word)
    return _DOUBLED.sub(r"\1", word)
