"""Routing by the keywords and patterns of the agent files.

``score``: ten points for a keyword that occurs, twenty for a pattern that matches, times priority/100, rounded. The
best score wins; ties go to the higher priority, then to the name. ``confidence``: how often such a choice is right, of
100, from what the terms have proved on the agents' examples and from the lead over the next agent; priority proves
nothing. See ``evidence.py``.
"""

import asyncio
import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.base import NO_CONTEXT, SHOWN, RequestContext, Route, RoutingResult, routable
from ekiden.dispatcher.routing.catalog_cache import CatalogCache
from ekiden.dispatcher.routing.evidence import Evidence, words_said
from ekiden.dispatcher.routing.lexicon import Lexicon
from ekiden.dispatcher.routing.word_index import Floats
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.records import RoutingStage

__all__ = ["RuleRouter"]

_READ = 20_000
"""Characters of a request whose words are held against the examples."""


class RuleRouter:
    """Scores the agents of a catalog whose terms occur; compiles a catalog's rules once, in the background."""

    def __init__(self, max_wait_s: float | None = None) -> None:
        """Make a router. ``max_wait_s``: how long a request waits for rules that are still being compiled."""
        self._rules: CatalogCache[_Rules] = CatalogCache(max_wait_s)

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """Choose the agent with the best score above zero."""
        rules = await self.prepare(catalog)
        began = time.perf_counter()
        candidates = tuple(await asyncio.to_thread(rules.candidates, prompt))
        best = candidates[0] if candidates else None
        stage = RoutingStage(
            stage="rule",
            agent=best and best.agent,
            score=best.score if best else 0.0,
            confidence=best.confidence if best else 0.0,
            decided=best is not None,
            note="" if best else "no keyword or pattern occurs",
            duration_ms=round((time.perf_counter() - began) * 1000, 3),
        )
        return RoutingResult(
            route=best, candidates=candidates, stages=(stage,), belonging=best.confidence if best else 0.0
        )

    async def prepare(self, catalog: Catalog) -> "_Rules":
        """Return the rules of ``catalog``, compiled first if it is new."""
        return await self._rules.get(catalog.digest, lambda: asyncio.to_thread(_Rules, routable(catalog)))


class _Rules:
    """The rules of one catalog."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        self._names = [agent.name for agent in agents]
        self._priorities = np.array([agent.triggers.priority for agent in agents], dtype=np.int64)
        self._lexicon = Lexicon(agents)
        self._evidence = Evidence(agents, self._lexicon)
        points = np.array([term.points for term in self._lexicon.terms], dtype=np.int64)
        self._points = np.repeat(points, np.diff(self._lexicon.starts))

    def candidates(self, prompt: str) -> list[Route]:
        """Return the agents whose terms occur, best first, with what speaks for them."""
        found = self._lexicon.find(prompt)
        places = self._lexicon.places(found)
        agents = self._lexicon.agents[places]
        points = np.bincount(agents, self._points[places], len(self._names)).astype(np.int64)
        scores = (points * self._priorities + 50) // 100  # rounds half up, as the formula's source does
        best = self._best(scores)
        if not best:
            return []
        evidence = np.bincount(agents, self._evidence.weights[places], len(self._names)).astype(np.float64)
        evidence[scores <= 0] = -np.inf  # priority 0 takes an agent out
        leads = _leads(evidence, best)
        said = words_said(prompt[:_READ]) if self._evidence.has_examples else set()
        return [
            self._route(
                number, float(scores[number]), lead - self._evidence.strangeness(number, said), places[agents == number]
            )
            for number, lead in zip(best, leads, strict=True)
        ]

    def _best(self, scores: NDArray[np.int64]) -> list[int]:
        found = np.flatnonzero(scores > 0)
        if len(found) > SHOWN:
            least = np.partition(scores[found], -SHOWN)[-SHOWN]
            found = found[scores[found] >= least]
        order = np.lexsort((found, -self._priorities[found], -scores[found]))
        return [int(number) for number in found[order[:SHOWN]]]

    def _route(self, number: int, score: float, odds: float, places: NDArray[np.int64]) -> Route:
        numbers = np.searchsorted(self._lexicon.starts, places, side="right") - 1
        terms = [self._lexicon.terms[term] for term in numbers]
        return Route(
            agent=self._names[number],
            stage="rule",
            score=score,
            confidence=round(100 / (1 + math.exp(-odds))),
            matched_keywords=tuple(term.text for term in terms if not term.is_pattern),
            matched_patterns=tuple(term.text for term in terms if term.is_pattern),
        )


def _leads(evidence: Floats, agents: Sequence[int]) -> list[float]:
    """Return for each agent what its evidence is above that of the next best, or above none."""
    first = int(evidence.argmax())
    second = max(float(np.delete(evidence, first).max(initial=0.0)), 0.0)
    top = max(float(evidence[first]), 0.0)
    return [float(evidence[number]) - (second if number == first else top) for number in agents]
