"""The handler of leg 0: choose the first agent. The same claim, journal, fence and commit as any leg."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ekiden.dispatcher.playable import as_it_is, played, why_not_all
from ekiden.dispatcher.routing.base import RequestContext, Route, Router, RoutingResult, routable
from ekiden.dispatcher.routing.followup import SESSION
from ekiden.dispatcher.routing.near_ties import near_in, question
from ekiden.dispatcher.routing.overrides import AUTO, no_strategy
from ekiden.dispatcher.small_talk import answer_to
from ekiden.dispatcher.unrouted import listed, nobody, why_nobody, with_default
from ekiden.shared.definitions.agent_inputs import needs_inputs, why_not_callable
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import HookFailed, HookStopped, UnknownAgent
from ekiden.shared.handoff import History
from ekiden.shared.hooks.asking import NOBODY, HookAsking, by_hooks
from ekiden.shared.hooks.base import HookedModel
from ekiden.shared.hooks.events import Place
from ekiden.shared.hooks.occasions import BeforeRoute
from ekiden.shared.ids import is_first_of_session, session_of
from ekiden.shared.job_limits import NO_BUDGETS, UNLIMITED, Budgets, JobLimits, why_no_budget
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.outcomes import Failed, Outcome, Transfer
from ekiden.shared.records import Noticed, Routed, RoutingStage, Unrouted
from ekiden.shared.relay.leg import Leg
from ekiden.shared.request_rails import RequestRails
from ekiden.shared.step_limits import run_limited
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.shared.stores.usage import RedisUsageStore

__all__ = ["DispatchHandler"]

HOOK = "hook"
"""The stage in which a hook has chosen."""
ROOM_S = 2.0
"""How long routing waits for room where a limit leaves a model none; then it goes on as where no model answers."""
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
    hooks: HookAsking = NOBODY
    """Are asked before anybody is looked for."""
    job_limits: JobLimits = UNLIMITED
    """What any job may use up, whatever its first agent's file says."""
    budgets: Budgets = NO_BUDGETS
    """What each user and each session may."""
    rails: RequestRails = RequestRails()  # noqa: RUF009  # it keeps nothing
    """Judge what is asked, before hooks and routers."""
    recorded: Callable[[str], Routed | None] = lambda _: None
    """Tells who got a job that is played again; None: that is decided anew."""
    usage: RedisUsageStore | None = None
    """Tells what of budgets is used up; None: nobody has one."""
    limits: ModelLimits | None = None
    """What may be used of models, those that route, too; None: any amount."""

    async def run(self, leg: Leg) -> Outcome:
        """Route the job; a route that was recorded before a crash stands."""
        if (stop := await self._out_of_budget(leg)) is not None:
            return stop
        if (stop := await self.rails.refused(leg)) is not None:
            return stop
        routed = next((record for record in leg.records if isinstance(record, Routed)), None)
        if routed is None and (routed := self.recorded(leg.job)) is not None:
            leg.hold(routed)
        if routed is None or routed.agent not in self.catalog:
            try:
                result = await self._by_hooks(leg) or await self._route(leg)
            except HookStopped as error:
                return Failed("DENIED", str(error))
            except HookFailed as error:
                return Failed("ERROR", str(error))
            playable = await self.playable(self.catalog)
            if (route := result.route) is None:
                return self._refuse(leg, result, playable)
            near = near_in(result, playable)
            if near and leg.request.asks and self.fallback == "prompt_user":
                return self._ask(leg, result, near)
            routed = Routed(leg=leg.number, **route.model_dump(), stages=result.stages, near=near[1:])
            leg.hold(routed)
        context = leg.context.advance(
            routed.agent, f"routed by {routed.stage}", is_route=True, history=History(upto=len(leg.entries))
        )
        definition = self.catalog.definition(routed.agent)
        if why := await run_limited(lambda: why_not_callable(definition, leg.request.inputs or {}, leg.request.prompt)):
            return Failed("ERROR", why)
        return Transfer(
            context,
            catalog=self.catalog.digest,
            definition=self.catalog.digests[routed.agent],
            limits=definition.limits.of_job.lowest(self.job_limits),
            budgets=self.budgets,
        )

    async def _out_of_budget(self, leg: Leg) -> Failed | None:
        """Return the end of a job whose user or session has nothing left: it is not even routed."""
        if self.usage is None or not self.budgets.counted():
            return None
        spending = self.budgets.spending(await self.usage.spent(session_of(leg.job), self.budgets.per_s))
        gone = next((used for used in spending.values() if used.share >= 1), None)
        if gone is None:
            return None
        return Failed("MAX_TOKENS" if gone.limit.endswith("tokens") else "MAX_COST", why_no_budget(gone))

    async def _by_hooks(self, leg: Leg) -> RoutingResult | None:
        """Return whom hooks give the request to; None: they leave that to others. Raises ``HookStopped``."""
        if not self.hooks.at(BeforeRoute.name):
            return None
        place = Place(session_of(leg.job), leg.job, leg.number, cwd=leg.cwd or "")
        named = leg.request.agent or ""
        agents = tuple(agent.name for agent in routable(self.catalog))
        said = await self.hooks.ask(BeforeRoute(place, leg.request.prompt, agents, named))
        if said.notes:
            await leg.record(*(Noticed(leg=leg.number, text=note) for note in dict.fromkeys(said.notes)))
        if why := said.stop or said.block:
            raise HookStopped(f"{by_hooks(said.by)} refused the request: {why}")
        if said.event.agent == named:
            return None
        reason = f"chosen by {by_hooks(said.by)}"
        stage = RoutingStage(stage=HOOK, agent=said.event.agent, decided=True, note=reason)
        route = Route(agent=said.event.agent, stage=HOOK, score=0, confidence=100, reason=reason)
        return RoutingResult(route=route, stages=(stage,))

    def _refuse(self, leg: Leg, result: RoutingResult, playable: Catalog) -> Failed:
        """Record why nobody was chosen, and whom the user may name instead."""
        asked = leg.request
        is_wrong = asked.agent is not None or (asked.strategy or AUTO) not in (AUTO, *self.strategies)
        is_brief = self.fallback == "none" or is_wrong
        agents = () if is_brief else tuple(agent.name for agent in listed(playable, result))
        leg.hold(Unrouted(leg=leg.number, why=why_nobody(result), stages=result.stages, agents=agents))
        greeting = "" if is_brief else answer_to(asked.prompt, ())
        others = "" if is_wrong else why_not_all(self.catalog, playable)
        why = nobody(playable, result, is_brief=is_brief, loaded=self.catalog)
        return Failed("NO_ROUTE", "\n".join(filter(None, (greeting, why, others))))

    def _ask(self, leg: Leg, result: RoutingResult, near: tuple[str, ...]) -> Failed:
        """Leave the choice to whoever asked: whom they name gets the request."""
        stages = tuple(stage.model_copy(update={"decided": False}) for stage in result.stages)
        why = f"{' and '.join(near)} are about as likely"
        leg.hold(Unrouted(leg=leg.number, why=why, stages=stages, agents=near, is_tie=True))
        return Failed("NO_ROUTE", question(near, self.catalog))

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
        context = RequestContext(_said_by_user(leg.earlier), self._asked_by(leg))
        result = await router.route(request.prompt, await self.taught(self.catalog), context)
        return self._fallen_back(played(result, await self.playable(self.catalog)), leg)

    def _asked_by(self, leg: Leg) -> Callable[[ChatModel], ChatModel]:
        """Return what makes of a model one that routing may ask: no leg is paused for it."""
        if self.limits is None:
            return lambda model: HookedModel(model, leg.hooks)
        limited = self.limits.under(leg.lease, patience_s=ROOM_S, queues=False)
        return lambda model: HookedModel(limited(model), leg.hooks)

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
        if not agent or not self._takes_requests(agent):
            return None
        return RoutingStage(
            stage=SESSION, agent=agent, confidence=100, decided=True, note=f"policy {session.policy}: it {why}"
        )

    def _last_speaker(self, earlier: Sequence[SessionMessage]) -> str | None:
        return next((said.agent for said in reversed(earlier) if self._takes_requests(said.agent)), None)

    def _takes_requests(self, agent: str) -> bool:
        return agent in self.catalog and not needs_inputs(self.catalog.agents[agent])

    def _fallen_back(self, result: RoutingResult, leg: Leg) -> RoutingResult:
        """Who goes on where nobody was chosen: in a conversation the agent that spoke last, else the default agent."""
        last = self._last_speaker(leg.earlier)
        if result.route is not None or last is None:
            return with_default(result, self.catalog, self.default_agent if self.fallback == "default_agent" else None)
        stage = RoutingStage(stage=SESSION, agent=last, decided=True, note="nobody else is sure: it spoke last")
        return result.model_copy(update={"route": _session_route(stage), "stages": (*result.stages, stage)})


def _said_by_user(earlier: Sequence[SessionMessage]) -> tuple[str, ...]:
    return tuple(said.message.text for said in earlier if said.message.role == "user")[-_MESSAGES:]


def _session_route(stage: RoutingStage) -> Route:
    return Route(agent=stage.agent or "", stage=SESSION, score=stage.score, confidence=stage.confidence)
