"""The handler of leg 0: choose the first agent. The same claim, journal, fence and commit as any leg."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from dispatcher.routing.base import Route, Router, RoutingResult, routable
from shared.definitions.catalog import Catalog
from shared.errors import UnknownAgent
from shared.handoff import History
from shared.outcomes import Failed, Outcome, Transfer
from shared.records import Routed, RoutingStage
from shared.relay.leg import Leg

__all__ = ["DispatchHandler", "nobody", "with_default"]

_LISTED = 30

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class DispatchHandler:
    """Routes new jobs over one catalog, which every job that it routes is pinned to."""

    catalog: Catalog
    router: Router
    fallback: str
    strategies: Mapping[str, Router] = field(default_factory=dict)
    """By name, for requests that ask for one."""
    default_agent: str | None = None
    enabled: bool = True

    async def run(self, leg: Leg) -> Outcome:
        """Route the job; a route that was recorded before a crash stands."""
        routed = next((record for record in leg.records if isinstance(record, Routed)), None)
        if routed is None or routed.agent not in self.catalog:
            try:
                result = await self._route(leg)
            except UnknownAgent as error:
                return Failed("NO_ROUTE", str(error))
            if (route := result.route) is None:
                return Failed("NO_ROUTE", self._nobody(result))
            routed = Routed(leg=leg.number, **route.model_dump(), stages=result.stages)
            await leg.record(routed, is_progress=True)
        context = leg.context.advance(
            routed.agent, f"routed by {routed.stage}", is_route=True, history=History(upto=len(leg.entries))
        )
        return Transfer(context, catalog=self.catalog.digest)

    async def _route(self, leg: Leg) -> RoutingResult:
        """Return the agent that the user named, else the router's choice, else the default agent."""
        if (named := leg.request.agent) is not None:
            agent = self.catalog.definition(named).name
            return RoutingResult(route=Route(agent=agent, stage="agent", score=0, confidence=100))
        strategy = leg.request.strategy
        if not self.enabled and strategy is None:
            return RoutingResult(stages=(RoutingStage(stage="none", note="Routing is disabled in the settings"),))
        router = self.router if strategy is None else self.strategies.get(strategy)
        if router is None:
            note = f"the strategy {strategy!r} is not to be had here: no model is set up"
            return self._fallen_back(RoutingResult(stages=(RoutingStage(stage=str(strategy), note=note),)), leg)
        return self._fallen_back(await router.route(leg.request.prompt, self.catalog), leg)

    def _fallen_back(self, result: RoutingResult, leg: Leg) -> RoutingResult:
        """Who goes on where nobody was chosen: in a conversation the agent that spoke last, else the default agent."""
        last = next((said.agent for said in reversed(leg.earlier) if said.agent in self.catalog), None)
        if result.route is None and last is not None:
            route = Route(agent=last, stage="session", score=0, confidence=0)
            return result.model_copy(update={"route": route})
        return with_default(result, self.catalog, self.default_agent if self.fallback == "default_agent" else None)

    def _nobody(self, result: RoutingResult) -> str:
        return nobody(self.catalog, result, is_brief=self.fallback == "none")


def with_default(result: RoutingResult, catalog: Catalog, default: str | None) -> RoutingResult:
    """Return ``result``, or the ``default`` agent where nobody was chosen and there is one."""
    if result.route is not None or default is None:
        return result
    if default not in catalog:
        log.error("no_default_agent", agent=default, hint="no agent has the name in agents.routing.default_agent")
        return result
    route = Route(agent=default, stage="fallback", score=0, confidence=0)
    stage = RoutingStage(stage="fallback", agent=default, decided=True, note="nobody matched: the default agent")
    return result.model_copy(update={"route": route, "stages": (*result.stages, stage)})


def nobody(catalog: Catalog, result: RoutingResult, *, is_brief: bool = False) -> str:
    """Say that no agent was chosen, why, and, unless ``is_brief``, which there are."""
    if not len(catalog):
        return "no agents are loaded: put agent files into .gemini/agents/ and start the dispatcher again"
    found = [f"{stage.stage}: {stage.note}" for stage in result.stages if stage.note and stage.stage != "none"]
    disabled = next((stage.note for stage in result.stages if stage.stage == "none"), "")
    text = disabled or "no agent matches the request" + (f" ({'; '.join(found)})" if found else "")
    if is_brief:
        return text
    near = [route.agent for route in result.candidates]
    agents = sorted(routable(catalog), key=lambda agent: near.index(agent.name) if agent.name in near else len(near))
    lines = [f"  {agent.name} - {agent.description}" for agent in agents[:_LISTED]]
    if len(agents) > _LISTED:
        lines.append(f"  and {len(agents) - _LISTED} others: `ekiden agents list`")
    return "\n".join([f"{text}. Name one with --agent NAME:", *lines])
