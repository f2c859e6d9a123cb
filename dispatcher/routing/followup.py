"""Follow-ups: a request that tells too little by itself is read with what the user said before it.

``and now the tests`` may tell enough; ``do it`` does not. Then the messages before it are put behind it, the latest
first, one after the other until they tell together. Where they tell the same without the request, it only goes on
with the matter: that is left to the agent that spoke last, who may have got it by a handoff.
"""

import time
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, Router, RoutingResult
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.records import RoutingStage

__all__ = ["SESSION", "FollowUpRouter"]

SESSION = "session"
"""The stage of what the conversation decides."""
_LIKELY = 50.0
"""How sure a router must be of an agent here: there is another answer, the agent that spoke last."""
_LONGEST = 1_000
"""Characters of an earlier message that are looked at."""


@dataclass(frozen=True)
class FollowUpRouter:
    """Lets ``router`` judge the request alone; where it chooses nobody, the request with what was said before."""

    router: Router

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """See ``Router``."""
        alone = await self.router.route(prompt, catalog, context)
        if alone.route is not None or not context.earlier:
            return alone
        began = time.perf_counter()
        route, stage = await self._together(prompt, catalog, context.earlier)
        stage = stage.model_copy(update={"duration_ms": round((time.perf_counter() - began) * 1000, 2)})
        return alone.model_copy(update={"route": route, "stages": (*alone.stages, stage)})

    async def _together(
        self, prompt: str, catalog: Catalog, earlier: tuple[str, ...]
    ) -> tuple[Route | None, RoutingStage]:
        before = ""
        for message in reversed(earlier):
            before += f"\n{message[:_LONGEST]}"
            found = (await self.router.route(prompt + before, catalog)).route
            if found is None or found.confidence < _LIKELY:
                continue
            already = (await self.router.route(before, catalog)).route
            if already is not None and already.agent == found.agent:
                return None, _stage(found, "it goes on with what was said before", decided=False)
            route = found.model_copy(update={"stage": SESSION})
            return route, _stage(found, f"with what was said before, by {found.stage}", decided=True)
        return None, RoutingStage(stage=SESSION, note="not even with what was said before")


def _stage(found: Route, note: str, *, decided: bool) -> RoutingStage:
    return RoutingStage(
        stage=SESSION,
        agent=found.agent,
        score=found.score,
        confidence=found.confidence,
        decided=decided,
        note=note,
    )
