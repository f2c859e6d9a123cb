"""What becomes of what the relay tells: roots, legs, calls."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.handoff import first_context
from ekiden.shared.hooks.base import HookedModel, LegHook, attending
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, ToolCall, ToolResult, Usage, user_message
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    Retried,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.message import queue_of_leg
from ekiden.shared.stores.base import Claimed, Lease
from ekiden.shared.telemetry.config import EVENTS
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.telemetry.tracing import Tracing
from ekiden.shared.tracing.content import Content
from tests.unit.telemetry.spans import Kept

JOB = "abcdefghij234567.1"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROOT_ID = 0xB7AD6B7169203331
CONTEXT = first_context(JOB, TRACE).advance("first", "routed", is_route=True)
REPLY = Message(role="model", parts=())
DEFINITION = AgentDefinition(name="first", title="First", description="first")


@dataclass
class World:
    """A hook that traces, and what it has made."""

    kept: Kept = field(default_factory=Kept)
    content: Content | None = None
    hook: Tracing = field(init=False)

    def __post_init__(self) -> None:
        prices = Prices({"m": (1.0, 1.0)})
        self.hook = Tracing(Spans(self.kept, Resource({})), EVENTS, prices, queue_of_leg, self.content)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.kept.spans]

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.kept.spans if span.name == name]
        return span

    @contextmanager
    def leg(self, *before: Record) -> Iterator["Playing"]:
        """An attempt at leg 1 that begins behind ``before``."""
        entries = journal(*before, STARTED)
        with attending(self.hook, claimed(), "q") as told:
            told.opened(entries)
            yield Playing(told, entries)

    def ended(self, entries: list[Entry], *records: Record) -> None:
        """The job is ended from outside."""
        self.hook.job_ended(JOB, entries, behind(entries, *records), in_leg=False)


@dataclass
class Playing:
    """A leg in the hands of a worker."""

    hook: LegHook
    entries: list[Entry]

    def record(self, *records: Record) -> None:
        new = behind(self.entries, *records)
        self.entries += new
        self.hook.recorded(new)


@pytest.fixture
def world() -> World:
    return World()


def claimed(fence: str = "7", traceparent: str = TRACE) -> Claimed:
    context = first_context(JOB, traceparent).advance("first", "routed", is_route=True)
    return Claimed(Lease(JOB, 1, fence), context, 1, 0, "", "", None)


def journal(*records: Record, traceparent: str | None = TRACE) -> list[Entry]:
    return behind([], JobRequested(prompt="go", traceparent=traceparent), ROUTING, HandedOff(context=CONTEXT), *records)


def behind(entries: list[Entry], *records: Record) -> list[Entry]:
    """The records as the journal has them behind ``entries``, a second apart."""
    first = len(entries) + 1
    return [Entry(seq=seq, at_ms=1_000 * seq, record=record) for seq, record in enumerate(records, first)]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


ROUTING = LegStarted(leg=0, agent="router", attempt=1, worker="w")
REPLIED = ModelReplied(leg=1, turn=1, message=REPLY, usage=Usage(input_tokens=10, output_tokens=5), model="m")
STARTED = LegStarted(leg=1, agent="first", attempt=1, worker="w")
DONE = Ended(leg=1, status="done", reason="GOAL", answer="so")
QUEUE = "ekiden.agent.first"


def test_the_root_has_the_ids_that_were_chosen_at_submit(world: World) -> None:
    with world.leg() as leg:
        leg.record(REPLIED, DONE)
    root = world.one("invoke_workflow first")
    assert root.parent is None
    assert root.context is not None
    assert (root.context.span_id, f"{root.context.trace_id:032x}") == (ROOT_ID, TRACE.split("-")[1])
    assert root.start_time == 1_000_000_000
    assert attributes(root)["gen_ai.usage.input_tokens"] == 10
    assert attributes(root)["ekiden.cost_usd"] == pytest.approx(15e-6)


@pytest.mark.parametrize(
    ("status", "error"), [("done", None), ("failed", "ERROR"), ("cancelled", "ERROR"), ("dead", "dead")]
)
def test_the_root_fails_as_the_job_does(world: World, status: Any, error: str | None) -> None:
    world.ended(journal(STARTED), Ended(status=status, reason="ERROR"))
    assert attributes(world.one("invoke_workflow first")).get("error.type") == error


def test_a_job_that_never_was_routed_has_a_root_all_the_same(world: World) -> None:
    world.ended(journal()[:1], Ended(status="cancelled", reason="ABORTED"))
    assert world.names == ["invoke_workflow ekiden"]


def test_a_job_that_ends_while_it_is_paused_shows_the_pause(world: World) -> None:
    paused = LegSuspended(leg=1, cause="missing_tools", delay_s=30)
    world.ended(journal(STARTED, paused), Ended(status="cancelled", reason="ABORTED"))
    assert world.names == ["suspended missing_tools", "invoke_workflow first"]


def test_who_ends_a_job_whose_worker_is_lost_tells_what_that_one_left_open(world: World) -> None:
    running = ToolStarted(leg=1, call_id="c", name="look", is_known=True)
    world.ended(journal(STARTED, REPLIED, running), Ended(leg=1, status="dead", reason="ERROR"))
    assert world.names == ["execute_tool look", "invoke_agent first", f"process {QUEUE}", "invoke_workflow first"]
    assert [attributes(span)["error.type"] for span in world.kept.spans[:2]] == ["worker_lost", "worker_lost"]
    assert attributes(world.one(f"process {QUEUE}"))["ekiden.outcome"] == "lost"


def test_what_a_leg_has_told_is_not_told_again_with_the_end_of_its_job(world: World) -> None:
    with world.leg() as leg:
        leg.record(DONE)
        before = len(world.kept.spans)
        world.hook.job_ended(JOB, leg.entries[:-1], leg.entries[-1:], in_leg=True)
    assert len(world.kept.spans) == before


def test_a_retried_job_keeps_its_root_and_gets_a_span_below_it(world: World) -> None:
    entries = journal(STARTED, Ended(leg=1, status="failed", reason="ERROR"), Retried(leg=1), STARTED)
    world.ended(entries, DONE)
    again = world.one("invoke_workflow first")
    assert again.parent is not None
    assert again.parent.span_id == ROOT_ID
    assert again.context is not None
    assert again.context.span_id != ROOT_ID
    assert again.start_time == 6_000_000_000


@pytest.mark.parametrize("traceparent", [None, "", TRACE[:-2] + "00"])
def test_a_job_that_is_not_sampled_leaves_nothing(world: World, traceparent: str | None) -> None:
    world.hook.job_submitted(JOB, traceparent or "", "q", 1)
    assert world.hook.leg_claimed(claimed(traceparent=traceparent or ""), "q") is None
    entries = journal(STARTED, traceparent=traceparent)
    world.hook.job_ended(JOB, entries, behind(entries, DONE), in_leg=False)
    assert world.names == []


def test_a_leg_is_a_delivery_with_an_agent_in_it(world: World) -> None:
    with world.leg() as leg:
        leg.record(REPLIED, DONE)
    delivery, agent = world.one(f"process {QUEUE}"), world.one("invoke_agent first")
    assert delivery.parent is not None
    assert agent.parent is not None
    assert delivery.context is not None
    assert delivery.parent.span_id == ROOT_ID
    assert agent.parent.span_id == delivery.context.span_id
    assert attributes(delivery)["ekiden.queue.wait_ms"] == 1_000
    assert attributes(delivery)["ekiden.outcome"] == "answer"
    assert attributes(agent)["gen_ai.usage.output_tokens"] == 5


def test_who_takes_over_tells_of_the_attempt_that_died_and_links_to_it(world: World) -> None:
    with world.leg():
        pass  # its worker dies
    assert world.names == [], "what it had in hand is told by who goes on"
    with world.leg(STARTED, REPLIED) as leg:
        leg.record(DONE)
    died, second = [span for span in world.kept.spans if span.name == f"process {QUEUE}"]
    assert died.context is not None
    assert [link.context.span_id for link in second.links if link.attributes == {"ekiden.link": "takeover"}] == [
        died.context.span_id
    ]
    assert [event.name for event in second.events] == ["ekiden.takeover"]
    assert attributes(died)["ekiden.outcome"] == "lost"
    assert attributes(world.kept.spans[0])["error.type"] == "worker_lost"


class Model:
    """Answers, or is away."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if self._error:
            raise self._error
        return ModelReply(message=REPLY, model="m-001")


REQUEST = ModelRequest(agent="first", model="gemini-2.5-flash", instructions="", messages=(user_message("hi"),))
CALL = ToolCall(id="c", name="words of the model")
FAILED = ToolResult(call_id="c", name=CALL.name, content="no such tool", is_error=True)
ANSWERED = ModelReplied(leg=1, turn=1, message=REPLY, model="gemini-2.5-flash")


def calls(leg: Playing) -> None:
    """A model call and a tool call, as the worker tells of them."""
    asyncio.run(HookedModel(Model(), leg.hook).reply(REQUEST))
    leg.record(ANSWERED)
    leg.record(ToolStarted(leg=1, call_id="c", name=CALL.name))
    leg.hook.tool_started(CALL)
    leg.hook.tool_finished(CALL, FAILED)
    leg.record(ToolFinished(leg=1, result=FAILED))


def test_model_and_tool_calls_are_spans_of_the_agent(world: World) -> None:
    with world.leg() as leg:
        calls(leg)
        with pytest.raises(ModelUnavailable):
            asyncio.run(HookedModel(Model(ModelUnavailable("away", 3.0)), leg.hook).reply(REQUEST))
        leg.record(DONE)
    ok, away = [span for span in world.kept.spans if span.name == "generate_content gemini-2.5-flash"]
    agent = world.one("invoke_agent first")
    assert agent.context is not None
    assert {span.parent.span_id for span in (ok, away) if span.parent} == {agent.context.span_id}
    assert attributes(ok)["gen_ai.provider.name"] == "gcp.gemini"
    assert attributes(ok)["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes(away)["error.type"] == "ModelUnavailable"
    assert attributes(away)["ekiden.model.retry_after_s"] == 3.0
    tool = world.one("execute_tool _OTHER")
    assert attributes(tool)["error.type"] == "tool_error"
    assert "words of the model" not in str(tool.to_json()), "a name that the model made up is its words"


def test_what_a_tools_libraries_trace_hangs_below_its_call(world: World) -> None:
    with world.leg() as leg:
        leg.record(ToolStarted(leg=1, call_id="c", name="look", is_known=True))
        leg.hook.tool_started(CALL)
        inside = trace.get_current_span().get_span_context().span_id
        leg.hook.tool_finished(CALL, FAILED)
        outside = trace.get_current_span().get_span_context().span_id
        leg.record(ToolFinished(leg=1, result=FAILED), DONE)
    tool = world.one("execute_tool look")
    assert tool.context is not None
    assert (inside, outside) == (tool.context.span_id, 0)


@pytest.mark.parametrize(
    ("tracing", "seen"),
    [
        ({"events": ["tool"]}, {"execute_tool _OTHER"}),
        ({"events": ["llm"]}, {"generate_content gemini-2.5-flash"}),
        ({"enabled": False}, set()),
    ],
)
def test_an_agents_file_says_what_is_told_of_it(world: World, tracing: Any, seen: set[str]) -> None:
    with world.leg() as leg:
        leg.hook.agent_started(DEFINITION.model_copy(update={"extra": {"tracing": tracing}}), "gemini-2.5-flash", [])
        calls(leg)
        leg.record(DONE)
    assert set(world.names) == {*seen, "invoke_agent first", f"process {QUEUE}", "invoke_workflow first"}
