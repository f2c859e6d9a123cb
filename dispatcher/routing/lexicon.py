"""The keywords and patterns of all agents, found in one pass over a request however many there are.

Keywords are one Aho-Corasick automaton: whole words in scripts that set words apart, anywhere in those that do not;
English ones also in their other forms (``inflections.py``).
Patterns are RE2 sets. A set that runs out of memory says that nothing matched; each therefore holds a pattern that
always matches, and where that one is missing the patterns are tried one by one.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import ahocorasick
import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.inflections import folded, is_same, uninflected
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.patterns import Pattern, PatternSet, compile_pattern, pattern_set

__all__ = ["KEYWORD_POINTS", "PATTERN_POINTS", "Lexicon"]

KEYWORD_POINTS = 10
PATTERN_POINTS = 20
_IN_A_SET = 200
_FEW = 16
"""Patterns that are tried one by one sooner than a set of them is run."""
_LARGE = 20_000
"""Instructions of patterns that are tried one by one, too: nothing could end a set of them in between."""
_READ = 20_000
"""Characters of a text that are looked at."""
_MOST_S = 2.0
"""Seconds after which no further pattern is tried."""

log = LateLogger(__name__)


@dataclass(frozen=True)
class Term:
    """A keyword, folded, or a pattern."""

    text: str
    is_pattern: bool

    @property
    def points(self) -> int:
        """What an agent gets when it occurs."""
        return PATTERN_POINTS if self.is_pattern else KEYWORD_POINTS


class Lexicon:
    """The terms of a list of agents. ``terms[i]`` belongs to the agents ``agents[starts[i]:starts[i + 1]]``."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        owners: dict[Term, list[int]] = {}
        for number, agent in enumerate(agents):
            for term in _terms_of(agent):
                owners.setdefault(term, []).append(number)
        self.terms = tuple(owners)
        self.starts: NDArray[np.int64] = np.cumsum([0, *map(len, owners.values())])
        self.agents: NDArray[np.int64] = np.array([number for own in owners.values() for number in own], dtype=np.int64)
        self._keywords = _automaton(self.terms)
        self._sets = [_PatternSet(list(some)) for some in _batches(self.terms)]

    def find(self, text: str) -> list[int]:
        """Return the numbers of the terms that occur, ascending; in a thread, for this may take seconds."""
        text = text[:_READ]
        encoded = text.encode("utf-8", "replace")
        until = time.monotonic() + _MOST_S
        found = {number for patterns in self._sets for number in patterns.find(encoded, until)}
        found.update(number for number, _, _ in self._keywords_in(text))
        return sorted(found)

    def without(self, text: str, terms: Collection[int]) -> str:
        """Return ``text``, folded, with a gap in every place where one of these keywords occurs."""
        characters = list(folded(text[:_READ]))
        for number, first, end in self._keywords_in(text[:_READ]):
            if number in terms:
                characters[first:end] = " " * (end - first)
        return "".join(characters)

    def _keywords_in(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yield the number of each keyword with where it begins and ends in the folded text."""
        if self._keywords is None:
            return
        said = uninflected(text)
        for last, (numbers, length) in self._keywords.iter(said.text):
            if not _stands_alone(said.text, last - length + 1, last):
                continue
            first, end = said.origin(last - length + 1, last + 1)
            for number in numbers:
                if is_same(self.terms[number].text, said.folded[first:end]):
                    yield number, first, end

    def places(self, terms: Sequence[int]) -> NDArray[np.int64]:
        """Return where in ``agents`` the agents of these terms are."""
        numbers = np.asarray(terms, dtype=np.int64)
        first = self.starts[numbers]
        counts = self.starts[numbers + 1] - first
        ends = np.cumsum(counts)
        return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)

    def is_keyword(self, term: int) -> bool:
        """Tell whether the term of this number is a keyword."""
        return not self.terms[term].is_pattern

    def terms_at(self, places: NDArray[np.int64]) -> list[int]:
        """Return the number of the term that each of ``places`` belongs to."""
        return [int(number) for number in np.searchsorted(self.starts, places, side="right") - 1]


def _terms_of(agent: AgentDefinition) -> Iterable[Term]:
    patterns = (Term(text, True) for text in agent.triggers.patterns)
    return dict.fromkeys((*(Term(text, False) for text in _keywords_of(agent)), *patterns))


def _keywords_of(agent: AgentDefinition) -> Iterator[str]:
    """Yield the keywords, of several forms of the same words the first: it is found in all of them."""
    spelled: dict[str, list[str]] = {}
    for text in filter(None, map(folded, agent.triggers.keywords)):
        others = spelled.setdefault(uninflected(text).text, [])
        if not any(is_same(text, other) for other in others):
            others.append(text)
            yield text


def _automaton(terms: Sequence[Term]) -> Any:
    spelled: dict[str, list[int]] = {}
    for number, term in enumerate(terms):
        if not term.is_pattern:
            spelled.setdefault(uninflected(term.text).text, []).append(number)
    if not spelled:
        return None
    automaton = ahocorasick.Automaton()
    for text, numbers in spelled.items():
        automaton.add_word(text, (numbers, len(text)))
    automaton.make_automaton()
    return automaton


def _stands_alone(text: str, first: int, last: int) -> bool:
    before, behind = text[first - 1 : first] if first else "", text[last + 1 : last + 2]
    return not _joined(before, text[first]) and not _joined(text[last], behind)


def _joined(left: str, right: str) -> bool:
    return _ends_at_boundaries(left) and _ends_at_boundaries(right)


@lru_cache(4096)
def _ends_at_boundaries(character: str) -> bool:
    """Tell whether words of such characters are set apart by others.

    Letters without case (Han, kana, Thai, ...) are written without spaces, or particles join the word (Hangul, Arabic).
    """
    return character.islower() or character.isdecimal() or character == "_"


@dataclass
class _PatternSet:
    """Some patterns, with their numbers in the lexicon."""

    patterns: list[tuple[int, str]]
    compiled: list[Pattern] = field(init=False)
    together: PatternSet | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.compiled = [compile_pattern(text, ignore_case=True) for _, text in self.patterns]
        if len(self.patterns) > _FEW and sum(pattern.programsize for pattern in self.compiled) <= _LARGE:
            # One that always matches: no match at all is the set having given up.
            self.together = pattern_set(["", *(text for _, text in self.patterns)], ignore_case=True)

    def find(self, text: bytes, until: float) -> list[int]:
        if time.monotonic() > until:
            return []
        matched = None if self.together is None else self.together.Match(text)
        if matched:  # the first is the one that always matches
            return [self.patterns[place - 1][0] for place in matched if place]
        found = []
        for (number, pattern), compiled in zip(self.patterns, self.compiled, strict=True):
            if time.monotonic() > until:
                log.warning("patterns_not_tried", first=pattern, seconds=_MOST_S)
                break
            found += [number] if compiled.search(text) else []
        return found


def _batches(terms: Sequence[Term]) -> Iterable[Sequence[tuple[int, str]]]:
    patterns = [(number, term.text) for number, term in enumerate(terms) if term.is_pattern]
    return (patterns[start:end] for start, end in pairwise([*range(0, len(patterns), _IN_A_SET), len(patterns)]))
