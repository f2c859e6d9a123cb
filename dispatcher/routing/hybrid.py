"""Routing in stages: by rule where that is sure, else by meaning and what the rules found.

A stage that is not sure passes the request on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, Router, RoutingResult, routable
from ekiden.dispatcher.routing.posterior import posterior
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.loader import SHIPPED
from ekiden.shared.records import RoutingStage

__all__ = ["RULE_THRESHOLD", "HybridRouter"]

RULE_THRESHOLD = 80.0
_NOT_ALONE = "its terms may be those of your own agents' work, too"


@dataclass(frozen=True)
class HybridRouter:
    """Asks one router after the other."""

    rule: Router
    semantic: Router
    rule_threshold: float = RULE_THRESHOLD

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """Return the first sure choice, with what every stage before it found."""
        broad = _broad(catalog)
        by_rule = self._judged(await self.rule.route(prompt, catalog), broad)
        if by_rule.route is not None:
            return by_rule
        return _joined([by_rule, posterior(by_rule, await self.semantic.route(prompt, catalog), broad)])

    def _judged(self, result: RoutingResult, broad: frozenset[str]) -> RoutingResult:
        """Take the choice away from rules that are not sure enough."""
        stages = tuple(self._against_threshold(stage, broad) for stage in result.stages)
        is_sure = any(stage.decided for stage in stages)
        return result.model_copy(update={"stages": stages, "route": result.route if is_sure else None})

    def _against_threshold(self, stage: RoutingStage, broad: frozenset[str]) -> RoutingStage:
        is_sure = stage.agent is not None and stage.confidence >= self.rule_threshold
        decided = is_sure and stage.agent not in broad
        why_not = _NOT_ALONE if is_sure else "too unsure to decide alone"
        note = stage.note or ("" if decided else why_not)
        return stage.model_copy(update={"threshold": self.rule_threshold, "decided": decided, "note": note})


def _broad(catalog: Catalog) -> frozenset[str]:
    """Return the agents that come with Ekiden, where there are a user's own, whose work may have the same words.

    A parcel is slow, too, and a payment fails.
    """
    shipped = frozenset(agent.name for agent in routable(catalog) if agent.scope == SHIPPED)
    return shipped if len(shipped) < len(routable(catalog)) else frozenset()


def _joined(results: Sequence[RoutingResult]) -> RoutingResult:
    """Return the last result with the stages of all, and each agent's best candidacy."""
    last = results[-1]
    candidates: dict[str, Route] = {}
    for route in (route for result in reversed(results) for route in result.candidates):
        candidates.setdefault(route.agent, route)
    return last.model_copy(
        update={
            "stages": tuple(stage for result in results for stage in result.stages),
            "candidates": tuple(candidates.values()),
        }
    )
