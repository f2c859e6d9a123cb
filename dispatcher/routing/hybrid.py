"""Routing in stages: by rule where that is sure, else by meaning, else by a model.

A stage that is not sure passes the request on. That rules and meaning hesitate over the same agent is no choice: it
keeps fewer requests than it lets in of those that are nobody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, Router, RoutingResult
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.records import RoutingStage

__all__ = ["RULE_THRESHOLD", "HybridRouter"]

RULE_THRESHOLD = 80.0


@dataclass(frozen=True)
class HybridRouter:
    """Asks one router after the other. ``model`` None: there is no model to ask."""

    rule: Router
    semantic: Router
    model: Router | None = None
    rule_threshold: float = RULE_THRESHOLD

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """Return the first sure choice, with what every stage before it found."""
        by_rule = self._judged(await self.rule.route(prompt, catalog))
        if by_rule.route is not None:
            return by_rule
        so_far = _joined([by_rule, await self.semantic.route(prompt, catalog)])
        if so_far.route is not None or self.model is None:
            return so_far
        return _joined([so_far, await self.model.route(prompt, catalog, context)])

    def _judged(self, result: RoutingResult) -> RoutingResult:
        """Take the choice away from rules that are not sure enough."""
        stages = tuple(self._against_threshold(stage) for stage in result.stages)
        is_sure = result.route is not None and result.route.confidence >= self.rule_threshold
        return result.model_copy(update={"stages": stages, "route": result.route if is_sure else None})

    def _against_threshold(self, stage: RoutingStage) -> RoutingStage:
        is_sure = stage.agent is not None and stage.confidence >= self.rule_threshold
        note = stage.note or ("" if is_sure else "too unsure to decide alone")
        return stage.model_copy(update={"threshold": self.rule_threshold, "decided": is_sure, "note": note})


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
