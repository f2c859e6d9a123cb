"""The handler of leg 0: choose the first agent. The same claim, journal, fence and commit as any leg."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ekiden.dispatcher.playable import PLAYED, as_it_is, played, why_not_all
from ekiden.dispatcher.routing.base import RequestContext, Route, Router, RoutingResult, routable
from ekiden.dispatcher.routing.followup import SESSION
from ekiden.dispatcher.routing.overrides import AUTO, no_strategy
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import UnknownAgent
from ekiden.shared.handoff import History
from ekiden.shared.hooks import HookedModel
from ekiden.shared.ids import is_first_of_session, session_of
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.outcomes import Budget, Failed, Outcome, Transfer
from ekiden.shared.records import Routed, RoutingStage, Unrouted
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.sessions import SessionMessage, SessionView

__all__ = ["DispatchHandler", "nobody", "with_default"]

_LISTED = 30
_MESSAGES = 3
"""How many of the user's last messages a follow-up is read with."""

log = LateLogger(__name__)


class Sessions(Protocol):
    """What routing needs of the sessions."""

    async def session(self, session: str) -> SessionView:
        """Return a session, for its policy."""
        ...


@dataclass(frozen=True)
class DispatchHandler:
    """Routes new jobs over one catalog, which every job that it routes is pinned to."""

    catalog: Catalog
    router: Router
    fallback: str
    sessions: Sessions
    strategies: Mapping[str, Router] = field(default_factory=dict)
    """By name, for requests that ask for one."""
    default_agent: str | None = None
    enabled: bool = True
    playable: Callable[[Catalog], Awaitable[Catalog]] = as_it_is
    """Leaves out of the catalog whom requests cannot go to now; who is named gets them all the same."""
    taught: Callable[[Catalog], Awaitable[Catalog]] = as_it_is
    """Returns what the router is shown of the catalog, with what was learned from requests."""

    async def run(self, leg: Leg) -> Outcome:
        """Route the job; a route that was recorded before a crash stands."""
        routed = next((record for record in leg.records if isinstance(record, Routed)), None)
        if routed is None or routed.agent not in self.catalog:
            result = await self._route(leg)
            if (route := result.route) is None:
                return self._refuse(leg, result, await self.playable(self.catalog))
            routed = Routed(leg=leg.number, **route.model_dump(), stages=result.stages)
            leg.hold(routed)
        context = leg.context.advance(
            routed.agent, f"routed by {routed.stage}", is_route=True, history=History(upto=len(leg.entries))
        )
        definition = self.catalog.definition(routed.agent)
        return Transfer(
            context,
            catalog=self.catalog.digest,
            definition=self.catalog.digests[routed.agent],
            budget=_budget_of(definition),
        )

    def _refuse(self, leg: Leg, result: RoutingResult, playable: Catalog) -> Failed:
        """Record why nobody was chosen, and whom the user may name instead."""
        asked = leg.request
        is_wrong = asked.agent is not None or (asked.strategy or AUTO) not in (AUTO, *self.strategies)
        is_brief = self.fallback == "none" or is_wrong
        agents = () if is_brief else tuple(agent.name for agent in _listed(playable, result))
        leg.hold(Unrouted(leg=leg.number, why=_why(result), stages=result.stages, agents=agents))
        others = "" if is_wrong else why_not_all(self.catalog, playable)
        return Failed("NO_ROUTE", "\n".join(filter(None, [nobody(playable, result, is_brief=is_brief), others])))

    async def _route(self, leg: Leg) -> RoutingResult:
        """Return the agent that the user named; else whom the session's policy names; else the router's choice."""
        request = leg.request
        if request.agent is not None:
            return self._named(request.agent)
        if request.strategy is None and (kept := await self._kept(leg)) is not None:
            return RoutingResult(route=_session_route(kept), stages=(kept,))
        strategy = None if request.strategy == AUTO else request.strategy
        if not self.enabled:
            return RoutingResult(stages=(RoutingStage(stage="none", note="Routing is disabled in the settings"),))
        router = self.router if strategy is None else self.strategies.get(strategy)
        if router is None:  # who asked for another one is not to be served by anybody
            note = no_strategy(str(strategy), self.strategies)
            return RoutingResult(stages=(RoutingStage(stage="none", note=note),))
        context = RequestContext(_said_by_user(leg.earlier), lambda model: HookedModel(model, leg.hooks))
        result = await router.route(request.prompt, await self.taught(self.catalog), context)
        return self._fallen_back(played(result, await self.playable(self.catalog)), leg)

    def _named(self, name: str) -> RoutingResult:
        try:
            agent = self.catalog.definition(name).name
        except UnknownAgent as error:
            return RoutingResult(stages=(RoutingStage(stage="agent", note=str(error)),))
        return RoutingResult(route=Route(agent=agent, stage="agent", score=0, confidence=100))

    async def _kept(self, leg: Leg) -> RoutingStage | None:
        """Return whom the session's policy names, if it names anybody who is there: nobody for its first message."""
        if is_first_of_session(leg.job):
            return None
        session = await self.sessions.session(session_of(leg.job))
        agent, why = None, ""
        if session.policy == "sticky":
            agent, why = self._last_speaker(leg.earlier), "spoke last"
        elif session.policy == "entry":
            agent, why = session.first_agent, "got the first message"
        if not agent or agent not in self.catalog:
            return None
        return RoutingStage(
            stage=SESSION, agent=agent, confidence=100, decided=True, note=f"policy {session.policy}: it {why}"
        )

    def _last_speaker(self, earlier: Sequence[SessionMessage]) -> str | None:
        return next((said.agent for said in reversed(earlier) if said.agent in self.catalog), None)

    def _fallen_back(self, result: RoutingResult, leg: Leg) -> RoutingResult:
        """Who goes on where nobody was chosen: in a conversation the agent that spoke last, else the default agent."""
        last = self._last_speaker(leg.earlier)
        if result.route is not None or last is None:
            return with_default(result, self.catalog, self.default_agent if self.fallback == "default_agent" else None)
        stage = RoutingStage(stage=SESSION, agent=last, decided=True, note="nobody else is sure: it spoke last")
        return result.model_copy(update={"route": _session_route(stage), "stages": (*result.stages, stage)})


def _budget_of(definition: AgentDefinition) -> Budget:
    """Return what a job that begins with this agent may use up, with all that it delegates."""
    limits = definition.limits
    cost = limits.max_cost_usd
    return Budget(tokens=limits.max_tokens, micro_usd=None if cost is None else round(cost * 1_000_000))


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
    """Say that no agent was chosen, why, and, unless ``is_brief``, which there are: numbered, the likeliest first."""
    if not len(catalog):
        return "no agents are loaded: put agent files into .gemini/agents/ and publish them (`ekiden catalog publish`)"
    if is_brief:
        return _why(result)
    lines = [
        f"  {number}. {agent.name} - {agent.description}" for number, agent in enumerate(_listed(catalog, result), 1)
    ]
    if (others := len(routable(catalog)) - len(lines)) > 0:
        lines.append(f"  and {others} others: `ekiden agents list`")
    return "\n".join([f"{_why(result)}. Name one with @NAME or --agent NAME:", *lines])


def _why(result: RoutingResult) -> str:
    for stage in result.stages:
        if stage.stage in ("none", "agent", PLAYED):
            return stage.note
    found = [f"{stage.stage}: {stage.note}" for stage in result.stages if stage.note]
    return "no agent matches the request" + (f" ({'; '.join(found)})" if found else "")


def _listed(catalog: Catalog, result: RoutingResult) -> list[AgentDefinition]:
    near = [route.agent for route in result.candidates]
    agents = sorted(routable(catalog), key=lambda agent: near.index(agent.name) if agent.name in near else len(near))
    return agents[:_LISTED]


def _said_by_user(earlier: Sequence[SessionMessage]) -> tuple[str, ...]:
    return tuple(said.message.text for said in earlier if said.message.role == "user")[-_MESSAGES:]


def _session_route(stage: RoutingStage) -> Route:
    return Route(agent=stage.agent or "", stage=SESSION, score=stage.score, confidence=stage.confidence)
