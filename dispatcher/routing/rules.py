"""Routing by the keywords and patterns of the agent files.

Ten points for a keyword that occurs, twenty for a pattern that matches, times priority/100, rounded. The best score
wins, whatever its height; ties go to the higher priority, then to the name. Patterns run in RE2, so that no request can
make routing slow.
"""

from dataclasses import dataclass

from dispatcher.routing.base import Route, RoutingResult
from shared.definitions.catalog import Catalog
from shared.definitions.model import AgentDefinition
from shared.definitions.patterns import Pattern, compile_pattern

__all__ = ["RuleRouter"]

_KEYWORD_POINTS = 10
_PATTERN_POINTS = 20


class RuleRouter:
    """Scores every agent of the catalog; compiles a catalog's rules once."""

    def __init__(self) -> None:
        self._digest = ""
        self._rules: tuple[_Rules, ...] = ()

    async def route(self, prompt: str, catalog: Catalog) -> RoutingResult:
        """Choose the agent with the best score above zero."""
        if catalog.digest != self._digest:
            self._rules = tuple(map(_compiled, catalog.agents.values()))
            self._digest = catalog.digest
        text = prompt.encode("utf-8", "replace")
        folded = _folded(prompt)
        scored = [(rules.priority, rules.scored(text, folded)) for rules in self._rules]
        ranked = sorted(
            ((priority, route) for priority, route in scored if route.score > 0),
            key=lambda pair: (-pair[1].score, -pair[0], pair[1].agent),
        )
        candidates = tuple(route for _, route in ranked)
        return RoutingResult(route=candidates[0] if candidates else None, candidates=candidates)


@dataclass(frozen=True)
class _Rules:
    agent: str
    priority: int
    keywords: tuple[str, ...]
    patterns: tuple[tuple[str, Pattern], ...]

    def scored(self, text: bytes, folded: str) -> Route:
        keywords = tuple(keyword for keyword in self.keywords if _occurs(keyword, folded))
        patterns = tuple(name for name, pattern in self.patterns if pattern.search(text))
        points = _KEYWORD_POINTS * len(keywords) + _PATTERN_POINTS * len(patterns)
        score = (points * self.priority + 50) // 100  # rounds half up, as the formula's source does
        return Route(
            agent=self.agent,
            stage="rule",
            score=score,
            confidence=min(100, score),
            matched_keywords=keywords,
            matched_patterns=patterns,
        )


def _compiled(agent: AgentDefinition) -> _Rules:
    triggers = agent.triggers
    return _Rules(
        agent.name,
        triggers.priority,
        tuple(dict.fromkeys(filter(None, map(_folded, triggers.keywords)))),
        tuple((text, compile_pattern(text)) for text in dict.fromkeys(triggers.patterns)),
    )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _occurs(keyword: str, text: str) -> bool:
    """Find ``keyword`` as whole words; both are folded."""
    start = text.find(keyword)
    while start >= 0:
        end = start + len(keyword)
        if not _joined(text[start - 1 : start], keyword[0]) and not _joined(keyword[-1], text[end : end + 1]):
            return True
        start = text.find(keyword, start + 1)
    return False


def _joined(left: str, right: str) -> bool:
    return _ends_at_boundaries(left) and _ends_at_boundaries(right)


def _ends_at_boundaries(character: str) -> bool:
    """Tell whether words of such characters are set apart by others.

    Letters without case (Han, kana, Thai, ...) are written without spaces, or particles join the word (Hangul, Arabic).
    """
    return character.islower() or character.isdecimal() or character == "_"
