"""Routing by the keywords and patterns of the agent files.

``score``: ten points for a keyword that occurs, twenty for a pattern that matches, times priority/100, rounded.
``confidence``: how often such a choice is right, of 100, from what the terms have proved on the agents' examples and
from the lead over the next agent; priority proves nothing. See ``evidence.py``. The surest wins; among those that are
as sure the better score, then the higher priority, then the name.

On the keywords of a user's own agents, those that come with Ekiden never win: what speaks for them counts only where it
is there in the rest of the request, too.
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.base import NO_CONTEXT, OUT, SHOWN, RequestContext, Route, RoutingResult, routable
from ekiden.dispatcher.routing.catalog_cache import CatalogCache
from ekiden.dispatcher.routing.evidence import Evidence, evidence_of, words_said
from ekiden.dispatcher.routing.kept_model import kept_model
from ekiden.dispatcher.routing.lexicon import Lexicon
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.loader import SHIPPED
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.word_index import Floats
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
        """Choose the agent that is surest, of those with a score above zero."""
        rules = await self.prepare(catalog)
        began = time.perf_counter()
        found = await asyncio.to_thread(rules.find, prompt)
        candidates = found.candidates
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
            route=best,
            candidates=candidates,
            stages=(stage,),
            belonging=best.confidence if best else 0.0,
            evidence=found.evidence,
        )

    async def prepare(self, catalog: Catalog) -> "_Rules":
        """Return the rules of ``catalog``, compiled first if it is new."""
        return await self._rules.get(catalog.digest, lambda: asyncio.to_thread(_Rules, routable(catalog)))


@dataclass(frozen=True)
class Found:
    """What the rules of a catalog find in a request."""

    candidates: tuple[Route, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Of each candidate, in logarithms of odds."""


class _Rules:
    """The rules of one catalog."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        self._names = [agent.name for agent in agents]
        self._priorities = np.array([agent.triggers.priority for agent in agents], dtype=np.int64)
        self._is_shipped = np.array([agent.scope == SHIPPED for agent in agents], dtype=bool)
        self._is_users = ~self._is_shipped & (self._priorities > 0)
        self._lexicon = Lexicon(agents)
        self._evidence = kept_model("evidence", agents, "", (Evidence,), lambda: evidence_of(agents, self._lexicon))
        points = np.array([term.points for term in self._lexicon.terms], dtype=np.int64)
        self._points = np.repeat(points, np.diff(self._lexicon.starts))

    def find(self, prompt: str) -> Found:
        """Return the agents whose terms occur, the surest first, with what speaks for them."""
        places, beaten = self._places(prompt)
        agents = self._lexicon.agents[places]
        points = np.bincount(agents, self._points[places], len(self._names)).astype(np.int64)
        scores = (points * self._priorities + 50) // 100  # rounds half up, as the formula's source does
        best = self._best(scores)
        if not best:
            return Found()
        evidence = np.bincount(agents, self._evidence.weights[places], len(self._names)).astype(np.float64)
        evidence[scores <= 0] = OUT  # priority 0 takes an agent out
        said = words_said(prompt[:_READ]) if self._evidence.has_examples else set()
        routes = (
            self._route(
                number, float(scores[number]), lead - self._evidence.strangeness(number, said), places[agents == number]
            )
            for number, lead in zip(best, _leads(evidence, best), strict=True)
        )
        return Found(
            tuple(sorted(routes, key=lambda route: -route.confidence)),  # of equals, the first stays the first
            dict.fromkeys(beaten, OUT) | {self._names[number]: float(evidence[number]) for number in best},
        )

    def _places(self, prompt: str) -> tuple[NDArray[np.int64], list[str]]:
        """Return where in the lexicon's agents those are for whom something speaks, and who is beaten by a user's."""
        found = self._lexicon.places(self._lexicon.find(prompt))
        if not self._is_shipped.any():
            return found, []
        agents = self._lexicon.agents[found]
        terms = self._lexicon.terms_at(found[self._is_users[agents]])
        if not (users := [term for term in terms if self._lexicon.is_keyword(term)]):
            return found, []
        left = self._lexicon.places(self._lexicon.find(self._lexicon.without(prompt, users)))
        found = found[~self._is_shipped[agents] | np.isin(found, left)]
        stand = set(self._lexicon.agents[found])
        return found, [self._names[one] for one in np.flatnonzero(self._is_shipped) if one not in stand]

    def _best(self, scores: NDArray[np.int64]) -> list[int]:
        found = np.flatnonzero(scores > 0)
        if len(found) > SHOWN:
            least = np.partition(scores[found], -SHOWN)[-SHOWN]
            found = found[scores[found] >= least]
        order = np.lexsort((found, -self._priorities[found], -scores[found]))
        return [int(number) for number in found[order[:SHOWN]]]

    def _route(self, number: int, score: float, odds: float, places: NDArray[np.int64]) -> Route:
        terms = [self._lexicon.terms[number] for number in self._lexicon.terms_at(places)]
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
