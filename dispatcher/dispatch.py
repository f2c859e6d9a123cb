"""The handler of leg 0: choose the first agent. The same claim, journal, fence and commit as any leg."""

from dataclasses import dataclass

from dispatcher.routing.base import Route, Router
from shared.definitions.catalog import Catalog
from shared.errors import UnknownAgent
from shared.handoff import History
from shared.outcomes import Failed, Outcome, Transfer
from shared.records import Routed
from shared.relay.leg import Leg

__all__ = ["DispatchHandler"]


@dataclass(frozen=True)
class DispatchHandler:
    """Routes new jobs over one catalog, which every job that it routes is pinned to."""

    catalog: Catalog
    router: Router
    fallback: str

    async def run(self, leg: Leg) -> Outcome:
        """Route the job; a route that was recorded before a crash stands."""
        routed = next((record for record in leg.records if isinstance(record, Routed)), None)
        if routed is None or routed.agent not in self.catalog:
            try:
                route = await self._route(leg)
            except UnknownAgent as error:
                return Failed("NO_ROUTE", str(error))
            if route is None:
                return Failed("NO_ROUTE", self._nobody())
            routed = Routed(leg=leg.number, **route.model_dump())
            await leg.record(routed, is_progress=True)
        context = leg.context.advance(
            routed.agent, f"routed by {routed.stage}", is_route=True, history=History(upto=len(leg.entries))
        )
        return Transfer(context, catalog=self.catalog.digest)

    async def _route(self, leg: Leg) -> Route | None:
        """Return the agent that the user named, else the router's choice."""
        if (named := leg.request.agent) is not None:
            return Route(agent=self.catalog.definition(named).name, stage="agent", score=0, confidence=100)
        return (await self.router.route(leg.request.prompt, self.catalog)).route

    def _nobody(self) -> str:
        if not len(self.catalog):
            return "no agents are loaded: put agent files into .gemini/agents/ and start the dispatcher again"
        if self.fallback == "none":
            return "no agent matches the request"
        lines = [f"  {name} - {agent.description}" for name, agent in self.catalog.agents.items()]
        return "\n".join(["no agent matches the request. Name one with --agent NAME:", *lines])
