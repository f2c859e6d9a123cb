"""Leg 0: who gets a request, what is recorded of it, and what is said when nobody does."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.dispatcher.cli.views.notices import why_routed
from ekiden.dispatcher.dispatch import DispatchHandler
from ekiden.dispatcher.playable import playable_of
from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, Router, RoutingResult, routable
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.shared.hooks.base import LegHook
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, TextPart, user_message
from ekiden.shared.outcomes import Failed, Outcome, Transfer
from ekiden.shared.records import JobRequested, Record, Routed, RoutingStage, Unrouted, decode_record, encode_record
from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.sessions import SessionMessage, SessionView


@dataclass
class Leg:
    """Leg 0 of a job, without a server."""

    request: JobRequested
    records: list[Record] = field(default_factory=list)
    number: int = 0
    job: str = "abcdefghijklmnop.2"
    """Not its session's first."""
    hooks: LegHook = field(default_factory=LegHook)
    entries: list[Any] = field(default_factory=list)
    earlier: list[SessionMessage] = field(default_factory=list)
    context: HandoffContext = field(default_factory=lambda: first_context("abcdefghijklmnop.1"))

    @property
    def lease(self) -> Lease:
        return Lease(self.job, self.number, "1.dispatcher")

    def hold(self, record: Record) -> None:
        self.records.append(record)


@dataclass
class Finding:
    """A router that always finds the same agent, or none."""

    agent: str | None
    note: str = "looks like nobody's"
    near: tuple[str, ...] = ()
    others: tuple[Route, ...] = ()
    context: RequestContext = NO_CONTEXT

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        self.context = context
        stage = RoutingStage(stage="semantic", agent=self.agent, confidence=70, note=self.note)
        route = self.agent and Route(agent=self.agent, stage="semantic", score=70, confidence=70)
        candidates = tuple(Route(agent=agent, stage="semantic", score=1, confidence=1) for agent in self.near)
        return RoutingResult(route=route or None, candidates=(*candidates, *self.others), stages=(stage,))


@dataclass
class Session:
    """The session of every leg here."""

    policy: SessionPolicy = "route"
    first_agent: str = ""

    async def session(self, session: str) -> SessionView:
        return SessionView(session, "", "", "", 0, 0, 1, None, 0, self.policy, self.first_agent)


def catalog_of(*names: str) -> Catalog:
    fields = [{"name": name, "description": f"Does {name}."} for name in names]
    system = {"name": "router-agent", "description": "d", "scope": "system"}
    return build_catalog([definition_from(one, "x") for one in (*fields, system)])[0]


CATALOG = catalog_of("billing", "debugger")


def run(router: Router, request: JobRequested | None = None, **options: Any) -> tuple[Outcome, Leg]:
    leg = Leg(request or JobRequested(prompt="help"), earlier=options.pop("earlier", []))
    leg.job = options.pop("job", leg.job)
    leg.hooks = options.pop("hooks", leg.hooks)
    options = {"fallback": "prompt_user", "sessions": Session(), **options}
    outcome = asyncio.run(DispatchHandler(CATALOG, router, **options).run(leg))  # type: ignore[arg-type]  # a stand-in
    return outcome, leg


def agent_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Transfer)
    return outcome.context.to_agent


def error_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed)
    assert outcome.reason == "NO_ROUTE"
    return outcome.message


def test_the_choice_is_recorded_with_the_figures_of_every_stage() -> None:
    outcome, leg = run(Finding("debugger"))

    assert agent_of(outcome) == "debugger"
    assert isinstance(record := leg.records[-1], Routed)
    assert (record.agent, record.stage, record.stages[0].confidence) == ("debugger", "semantic", 70)
    assert decode_record(encode_record(record)) == record


def test_a_recorded_route_stands() -> None:
    leg = Leg(JobRequested(prompt="help"), [Routed(agent="billing", stage="rule", score=1, confidence=1)])

    handler = DispatchHandler(CATALOG, Finding("debugger"), "none", Session())
    outcome = asyncio.run(handler.run(leg))  # type: ignore[arg-type]  # a stand-in

    assert agent_of(outcome) == "billing"


def test_a_job_that_is_played_again_goes_to_whom_it_went_to_and_any_other_is_routed() -> None:
    then = Routed(agent="billing", stage="rule", score=1, confidence=1)
    outcome, leg = run(Finding("debugger"), recorded={"abcdefghijklmnop.2": then}.get)
    assert (agent_of(outcome), leg.records) == ("billing", [then])
    assert agent_of(run(Finding("debugger"), recorded={"abcdefghijklmnop.1": then}.get)[0]) == "debugger"


def test_a_job_may_use_up_the_lower_of_what_the_settings_and_its_first_agents_file_say() -> None:
    limits = JobLimits(max_turns=5, max_tokens=50)
    outcome, _ = run(Finding("debugger"), job_limits=limits)
    assert isinstance(outcome, Transfer)
    assert outcome.limits == limits
    own = CATALOG.definition("debugger").limits.model_copy(update={"job": JobLimits(max_turns=9, max_tokens=20)})
    assert own.of_job.lowest(limits) == JobLimits(max_turns=5, max_tokens=20)


def test_a_named_agent_is_not_routed() -> None:
    assert agent_of(run(Finding("debugger"), JobRequested(prompt="x", agent="billing"))[0]) == "billing"


def test_a_request_may_ask_for_a_strategy() -> None:
    request = JobRequested(prompt="x", strategy="rule")

    assert agent_of(run(Finding("debugger"), request, strategies={"rule": Finding("billing")})[0]) == "billing"


def test_a_strategy_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    asked = JobRequested(prompt="x", strategy="ruel")
    outcome, _ = run(Finding("debugger"), asked, strategies={"rule": Finding("billing"), "mine": Finding(None)})

    assert error_of(outcome) == "there is no strategy 'ruel': give one of mine, rule; did you mean 'rule'?"


def test_with_routing_disabled_only_named_agents_are_accepted() -> None:
    asked = (
        JobRequested(prompt="x"),
        JobRequested(prompt="x", strategy="rule"),
        JobRequested(prompt="x", strategy="auto"),
    )
    for request in asked:
        outcome, _ = run(Finding("debugger"), request, enabled=False, strategies={"rule": Finding("billing")})
        assert "Routing is disabled in the settings. Name one" in error_of(outcome)
    named = JobRequested(prompt="x", agent="debugger")
    assert agent_of(run(Finding(None), named, enabled=False)[0]) == "debugger"


def test_the_default_agent_takes_what_nobody_matches() -> None:
    outcome, leg = run(Finding(None), fallback="default_agent", default_agent="billing")

    assert agent_of(outcome) == "billing"
    assert isinstance(record := leg.records[-1], Routed)
    assert [(stage.stage, stage.decided) for stage in record.stages] == [("semantic", False), ("fallback", True)]


def test_a_default_agent_that_does_not_exist_is_no_fallback() -> None:
    assert error_of(run(Finding(None), fallback="default_agent", default_agent="nobody")[0])


BETWEEN_TWO = (Route(agent="billing", stage="semantic", score=70, confidence=40),)


def test_whoever_is_there_is_asked_where_several_agents_are_about_as_likely() -> None:
    outcome, leg = run(Finding("debugger", others=BETWEEN_TWO), JobRequested(prompt="x", asks=True))

    assert isinstance(record := leg.records[-1], Unrouted)
    assert (record.is_tie, record.agents, record.why) == (
        True,
        ("debugger", "billing"),
        "debugger and billing are about as likely",
    )
    assert not any(stage.decided for stage in record.stages)
    assert error_of(outcome).endswith("NAME:\n  1. debugger - Does debugger.\n  2. billing - Does billing.")
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(("asks", "fallback"), [(False, "prompt_user"), (True, "none"), (True, "default_agent")])
def test_where_nobody_is_to_be_asked_the_best_one_gets_it_and_the_others_are_named(asks: bool, fallback: str) -> None:
    asked = JobRequested(prompt="x", asks=asks)
    outcome, leg = run(Finding("debugger", others=BETWEEN_TWO), asked, fallback=fallback)

    assert agent_of(outcome) == "debugger"
    assert isinstance(record := leg.records[-1], Routed)
    assert record.near == ("billing",)
    assert why_routed(record) == "70% confidence; about as likely: billing"
    assert decode_record(encode_record(record)) == record


def test_an_agent_that_is_far_less_likely_or_cannot_be_played_is_no_question() -> None:
    far = Route(agent="billing", stage="semantic", score=70, confidence=30)
    lost = Route(agent="gone", stage="semantic", score=70, confidence=69)
    outcome, leg = run(Finding("debugger", others=(lost, far)), JobRequested(prompt="x", asks=True))

    assert agent_of(outcome) == "debugger"
    assert isinstance(record := leg.records[-1], Routed)
    assert record.near == ()


def test_whom_the_user_names_gets_it_whoever_else_is_likely() -> None:
    asked = JobRequested(prompt="x", agent="billing", asks=True)

    assert agent_of(run(Finding("debugger", others=BETWEEN_TWO), asked)[0]) == "billing"


@pytest.mark.parametrize(("fallback", "lists"), [("prompt_user", True), ("none", False)])
def test_what_nobody_matches_says_why_and_lists_the_agents(fallback: str, lists: bool) -> None:
    text = error_of(run(Finding(None), fallback=fallback)[0])

    assert "no agent matches the request (semantic: looks like nobody's)" in text
    assert ("  1. billing - Does billing.\n  2. debugger - Does debugger." in text) is lists
    assert "router-agent" not in text


@pytest.mark.parametrize(
    ("prompt", "says"), [("hello", "Hello! Say what is to be done"), ("你好", "你好！请直接说要做什么")]
)
def test_a_greeting_that_nobody_takes_is_answered_in_front_of_the_list(prompt: str, says: str) -> None:
    text = error_of(run(Finding(None), JobRequested(prompt=prompt))[0])

    assert text.startswith(says)
    assert "  1. billing" in text


def test_a_refusal_is_recorded_with_the_stages_and_whom_the_user_may_name() -> None:
    outcome, leg = run(Finding(None, near=("debugger",)))

    assert isinstance(record := leg.records[-1], Unrouted)
    assert record.why in error_of(outcome)
    assert [(stage.stage, stage.note) for stage in record.stages] == [("semantic", "looks like nobody's")]
    assert record.agents == ("debugger", "billing"), "the likeliest first, as in the list"
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("request_", "fallback"), [(JobRequested(prompt="x", agent="biling"), "prompt_user"), (None, "none")]
)
def test_a_refusal_that_lists_nobody_offers_nobody(request_: JobRequested | None, fallback: str) -> None:
    outcome, leg = run(Finding(None), request_, fallback=fallback)

    assert isinstance(record := leg.records[-1], Unrouted)
    assert record.agents == ()
    assert error_of(outcome) == record.why


def said_by(agent: str, text: str = "something") -> SessionMessage:
    part = TextPart(text=text)
    return SessionMessage("a.1", agent, Message(role="model", parts=(part,)) if agent else user_message(text))


def decision_of(leg: Leg) -> tuple[str, str, str]:
    record = leg.records[-1]
    assert isinstance(record, Routed)
    return record.agent, record.stage, record.stages[-1].note if record.stages else ""


TALK = [said_by("", "a"), said_by("debugger"), said_by("", "b"), said_by("billing"), said_by("a gone agent")]
TALK += [said_by("", "c"), said_by("", "d")]


NEEDY = {"name": "printer", "description": "Prints a text.", "inputs": {"text": {"required": True}}}
"""An agent that no request alone is enough for."""


@pytest.mark.parametrize("session", [Session(), Session("sticky"), Session("entry", "printer")])
def test_in_a_conversation_nothing_goes_to_an_agent_that_needs_more_than_a_request(session: Session) -> None:
    catalog = build_catalog([*CATALOG.agents.values(), definition_from(NEEDY, "x")])[0]
    leg = Leg(JobRequested(prompt="make it longer"), earlier=[*TALK, said_by("printer")])

    handler = DispatchHandler(catalog, Finding(None), "none", session)
    outcome = asyncio.run(handler.run(leg))  # type: ignore[arg-type]  # a stand-in

    assert agent_of(outcome) == "billing"
    assert "printer" not in {one.name for one in routable(catalog)}


def test_a_router_is_told_what_the_user_said_last() -> None:
    router = Finding("debugger")

    run(router, earlier=TALK)

    assert router.context.earlier == ("b", "c", "d")


def test_the_legs_hooks_hear_of_the_model_that_routes() -> None:
    class Asking(LegHook):
        def model_called(self, request: ModelRequest, *, is_stream: bool) -> None:
            asked.append(request.model)

    class Model:
        async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
            return ModelReply(message=user_message("debugger"))

    asked: list[str] = []
    router = Finding("debugger")

    run(router, hooks=Asking())
    asyncio.run(router.context.observed(Model()).reply(ModelRequest("router", "m", "", ())))

    assert asked == ["m"]


def test_in_a_conversation_the_agent_that_spoke_last_takes_what_nobody_matches() -> None:
    outcome, leg = run(Finding(None), earlier=TALK, default_agent="debugger", fallback="default_agent")

    assert agent_of(outcome) == "billing"
    assert decision_of(leg) == ("billing", "session", "nobody else is sure: it spoke last")


def test_in_a_conversation_an_agent_that_matches_is_chosen_all_the_same() -> None:
    outcome, leg = run(Finding("debugger"), earlier=TALK)

    assert agent_of(outcome) == "debugger"
    assert decision_of(leg)[1] == "semantic"


@pytest.mark.parametrize(
    ("session", "agent", "note"),
    [
        (Session("sticky", "debugger"), "billing", "policy sticky: it spoke last"),
        (Session("entry", "debugger"), "debugger", "policy entry: it got the first message"),
    ],
)
def test_the_sessions_policy_comes_before_the_router(session: Session, agent: str, note: str) -> None:
    _, leg = run(Finding("debugger" if agent == "billing" else "billing"), sessions=session, earlier=TALK)

    assert decision_of(leg) == (agent, "session", note)


@pytest.mark.parametrize("session", [Session("sticky"), Session("entry"), Session("entry", "a gone agent")])
def test_a_policy_that_names_nobody_leaves_it_to_the_router(session: Session) -> None:
    assert decision_of(run(Finding("debugger"), sessions=session)[1])[:2] == ("debugger", "semantic")


@pytest.mark.parametrize(
    ("request_", "agent"),
    [
        (JobRequested(prompt="x", agent="debugger"), "debugger"),
        (JobRequested(prompt="x", strategy="auto"), "debugger"),
        (JobRequested(prompt="x", strategy="rule"), "billing"),
    ],
)
def test_a_request_that_says_who_takes_it_or_how_it_is_routed_overrides_the_policy(
    request_: JobRequested, agent: str
) -> None:
    outcome, _ = run(
        Finding("debugger"),
        request_,
        sessions=Session("sticky"),
        earlier=[said_by("billing")] if agent == "debugger" else [said_by("debugger")],
        strategies={"rule": Finding("billing")},
    )

    assert agent_of(outcome) == agent


def test_the_first_message_of_a_session_is_routed_without_a_look_at_its_policy() -> None:
    class Unread(Session):
        async def session(self, session: str) -> SessionView:
            raise AssertionError("a round trip for nothing")

    outcome, _ = run(Finding("debugger"), sessions=Unread("entry", "billing"), job="abcdefghij234567.1")

    assert agent_of(outcome) == "debugger"


async def only_billing(catalog: Catalog) -> Catalog:
    return playable_of(catalog, frozenset({"billing"}))


def test_requests_go_to_those_who_can_be_played_and_a_refusal_says_what_a_key_would_change() -> None:
    outcome, leg = run(Finding("debugger"), playable=only_billing)
    assert "'debugger' would take the request, and nobody can play it without a model. Name one" in error_of(outcome)
    assert "1. billing" in error_of(outcome)
    assert "Without a model only billing can be played" in error_of(outcome)
    assert "adds debugger" in error_of(outcome)
    assert isinstance(refused := leg.records[-1], Unrouted)
    assert refused.agents == ("billing",)


@pytest.mark.parametrize(("confidence", "agent"), [(14.0, "billing"), (13.9, None)])
def test_who_is_nearly_as_likely_takes_the_place_of_one_that_cannot_be_played(
    confidence: float, agent: str | None
) -> None:
    other = Route(agent="billing", stage="semantic", score=70, confidence=confidence)
    outcome, leg = run(Finding("debugger", others=(other,)), playable=only_billing)
    assert isinstance(record := leg.records[-1], Routed | Unrouted)
    assert (record.stages[-1].stage, record.stages[-1].agent) == ("played", agent)
    assert isinstance(outcome, Transfer) == (agent is not None)
    assert not isinstance(outcome, Transfer) or agent_of(outcome) == agent


def test_who_is_named_gets_the_request_though_nobody_can_play_it() -> None:
    outcome, _ = run(Finding(None), JobRequested(prompt="help", agent="debugger"), playable=only_billing)
    assert agent_of(outcome) == "debugger"
