"""Leg 0: who gets a request, what is recorded of it, and what is said when nobody does."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from dispatcher.dispatch import DispatchHandler
from dispatcher.routing.base import Route, Router, RoutingResult
from shared.definitions.catalog import Catalog, build_catalog
from shared.definitions.forms import definition_from
from shared.handoff import HandoffContext, first_context
from shared.messages import Message, TextPart, user_message
from shared.outcomes import Failed, Outcome, Transfer
from shared.records import JobRequested, Record, Routed, RoutingStage, decode_record, encode_record
from shared.stores.sessions import Said


@dataclass
class Leg:
    """Leg 0 of a job, without a server."""

    request: JobRequested
    records: list[Record] = field(default_factory=list)
    number: int = 0
    entries: list[Any] = field(default_factory=list)
    earlier: list[Said] = field(default_factory=list)
    context: HandoffContext = field(default_factory=lambda: first_context("abcdefghijklmnop.1"))

    async def record(self, record: Record, *, is_progress: bool) -> None:
        assert is_progress
        self.records.append(record)


@dataclass
class Finding:
    """A router that always finds the same agent, or none."""

    agent: str | None
    note: str = "looks like nobody's"

    async def route(self, prompt: str, catalog: Catalog) -> RoutingResult:
        stage = RoutingStage(stage="semantic", agent=self.agent, confidence=70, note=self.note)
        route = self.agent and Route(agent=self.agent, stage="semantic", score=70, confidence=70)
        return RoutingResult(route=route or None, stages=(stage,))


def catalog_of(*names: str) -> Catalog:
    fields = [{"name": name, "description": f"Does {name}."} for name in names]
    system = {"name": "router-agent", "description": "d", "scope": "system"}
    return build_catalog([definition_from(one, "x") for one in (*fields, system)])[0]


CATALOG = catalog_of("billing", "debugger")


def run(router: Router, request: JobRequested | None = None, **options: Any) -> tuple[Outcome, Leg]:
    leg = Leg(request or JobRequested(prompt="help"))
    options = {"fallback": "prompt_user", **options}
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

    outcome = asyncio.run(DispatchHandler(CATALOG, Finding("debugger"), "none").run(leg))  # type: ignore[arg-type]  # a stand-in

    assert agent_of(outcome) == "billing"


def test_a_named_agent_is_not_routed() -> None:
    assert agent_of(run(Finding("debugger"), JobRequested(prompt="x", agent="billing"))[0]) == "billing"


def test_a_request_may_ask_for_a_strategy() -> None:
    request = JobRequested(prompt="x", strategy="rule")

    assert agent_of(run(Finding("debugger"), request, strategies={"rule": Finding("billing")})[0]) == "billing"


def test_a_strategy_that_is_not_to_be_had_chooses_nobody() -> None:
    outcome, _ = run(Finding("debugger"), JobRequested(prompt="x", strategy="llm"))

    assert "'llm' is not to be had here" in error_of(outcome)


def test_with_routing_disabled_only_named_agents_and_strategies_are_accepted() -> None:
    rule = {"rule": Finding("billing")}

    assert "Routing is disabled in the settings. Name one" in error_of(run(Finding("debugger"), enabled=False)[0])
    asked = JobRequested(prompt="x", strategy="rule")
    assert agent_of(run(Finding("debugger"), asked, enabled=False, strategies=rule)[0]) == "billing"
    named = JobRequested(prompt="x", agent="debugger")
    assert agent_of(run(Finding(None), named, enabled=False)[0]) == "debugger"


def test_the_default_agent_takes_what_nobody_matches() -> None:
    outcome, leg = run(Finding(None), fallback="default_agent", default_agent="billing")

    assert agent_of(outcome) == "billing"
    assert isinstance(record := leg.records[-1], Routed)
    assert [(stage.stage, stage.decided) for stage in record.stages] == [("semantic", False), ("fallback", True)]


def test_a_default_agent_that_does_not_exist_is_no_fallback() -> None:
    assert error_of(run(Finding(None), fallback="default_agent", default_agent="nobody")[0])


@pytest.mark.parametrize(("fallback", "lists"), [("prompt_user", True), ("none", False)])
def test_what_nobody_matches_says_why_and_lists_the_agents(fallback: str, lists: bool) -> None:
    text = error_of(run(Finding(None), fallback=fallback)[0])

    assert "no agent matches the request (semantic: looks like nobody's)" in text
    assert ("  billing - Does billing." in text) is lists
    assert "router-agent" not in text


def said_by(agent: str) -> Said:
    text = TextPart(text="something")
    return Said("a.1", agent, Message(role="model", parts=(text,)) if agent else user_message("go"))


def test_in_a_conversation_the_agent_that_spoke_last_takes_what_nobody_matches() -> None:
    leg = Leg(JobRequested(prompt="and then?"))
    leg.earlier = [said_by("debugger"), said_by(""), said_by("billing"), said_by("a gone agent"), said_by("")]
    handler = DispatchHandler(CATALOG, Finding(None), "prompt_user", default_agent="debugger")
    outcome = asyncio.run(handler.run(leg))  # type: ignore[arg-type]  # a stand-in
    assert isinstance(outcome, Transfer)
    assert outcome.context.to_agent == "billing"
    assert isinstance(leg.records[0], Routed)
    assert leg.records[0].stage == "session"


def test_in_a_conversation_an_agent_that_matches_is_chosen_all_the_same() -> None:
    leg = Leg(JobRequested(prompt="why does it fail?"))
    leg.earlier = [said_by("billing")]
    outcome = asyncio.run(DispatchHandler(CATALOG, Finding("debugger"), "none").run(leg))  # type: ignore[arg-type]  # a stand-in
    assert isinstance(outcome, Transfer)
    assert outcome.context.to_agent == "debugger"
