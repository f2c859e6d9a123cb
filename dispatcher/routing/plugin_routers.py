"""Routers of other packages: what goes wrong in one, or what it chooses that is not there, is no choice."""

import asyncio
import time
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Router, RoutingResult, routable
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.records import RoutingStage
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line

__all__ = ["ForeignRouter"]

MAX_WAIT_S = 30.0
"""How long a router of a plug-in may take."""
_MOST_SAID = 200

log = LateLogger(__name__)


@dataclass(frozen=True)
class ForeignRouter:
    """Asks the router of a plug-in under the name of its strategy."""

    name: str
    router: Router

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """See ``Router``; only agents that requests may go to are chosen, whatever the plug-in says."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                result = await self.router.route(prompt, catalog, context)
            if not isinstance(result, RoutingResult):
                raise TypeError(f"a router answers with a RoutingResult, not with {type(result).__name__}")
        except BaseException as error:  # a SystemExit, or a cancellation that nobody asked for, too
            if is_interruption_of_task(error):
                raise
            log.exception("router_failed", router=self.name)
            said = one_line(redact(said_by(error)), _MOST_SAID)
            return self._nobody(f"the router failed: {type(error).__name__}: {said}", began)
        if result.route is not None and result.route.agent not in {agent.name for agent in routable(catalog)}:
            return self._nobody(f"it chose {result.route.agent!r}, which no request goes to here", began)
        return result

    def _nobody(self, note: str, began: float) -> RoutingResult:
        took_ms = round((time.perf_counter() - began) * 1000, 2)
        return RoutingResult(stages=(RoutingStage(stage=self.name, note=note, duration_ms=took_ms),))
