"""What becomes of what the relay tells: roots, legs, metrics."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.handoff import first_context
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, ToolCall, ToolResult, Usage, user_message
from ekiden.shared.outcomes import Answer
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
)
from ekiden.shared.stores.base import Claimed, Lease
from ekiden.shared.telemetry.base import LegObserver, Telemetry, install, is_installed, telemetry
from ekiden.shared.telemetry.config import EVENTS
from ekiden.shared.telemetry.recording import Recorder
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.telemetry.watching import TelemetrySinks

JOB = "abcdefghij234567.1"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROOT_ID = 0xB7AD6B7169203331
CONTEXT = first_context(JOB, TRACE).advance("first", "routed", is_route=True)
REPLY = Message(role="model", parts=())
DEFINITION = AgentDefinition(name="first", title="First", description="first")


class Kept(SpanProcessor):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


@dataclass
class World:
    """A recorder and what it has made."""

    kept: Kept = field(default_factory=Kept)
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(TelemetrySinks(EVENTS, Prices({"m": (1.0, 1.0)}), Spans(self.kept, Resource({}))))

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.kept.spans]

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.kept.spans if span.name == name]
        return span


@pytest.fixture
def world() -> World:
    return World()


def claimed(fence: str = "7", traceparent: str = TRACE) -> Claimed:
    context = first_context(JOB, traceparent).advance("first", "routed", is_route=True)
    return Claimed(Lease(JOB, 1, fence), context, 1, 0, "", "", None)


def journal(*records: Record, traceparent: str | None = TRACE) -> list[Entry]:
    whole = (JobRequested(prompt="go", traceparent=traceparent), HandedOff(context=CONTEXT), *records)
    return [Entry(seq=i + 1, at_ms=1_000 * (i + 1), record=record) for i, record in enumerate(whole)]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


REPLIED = ModelReplied(leg=1, turn=1, message=REPLY, usage=Usage(input_tokens=10, output_tokens=5), model="m")
STARTED = LegStarted(leg=1, agent="first", attempt=1, worker="w")
DONE = Ended(leg=1, status="done", reason="GOAL", answer="so")


def test_the_root_has_the_ids_that_were_chosen_at_submit(world: World) -> None:
    world.recorder.ended(JOB, journal(STARTED, REPLIED), [DONE])
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
    world.recorder.ended(JOB, journal(STARTED), [Ended(status=status, reason="ERROR")])
    assert attributes(world.one("invoke_workflow first")).get("error.type") == error


def test_a_job_that_never_was_routed_has_a_root_all_the_same(world: World) -> None:
    world.recorder.ended(JOB, journal()[:1], [Ended(status="cancelled", reason="ABORTED")])
    assert world.names == ["invoke_workflow ekiden"]


def test_a_job_that_ends_while_it_is_paused_shows_the_pause(world: World) -> None:
    paused = LegSuspended(leg=1, cause="missing_tools", delay_s=30)
    world.recorder.ended(JOB, journal(STARTED, paused), [Ended(status="cancelled", reason="ABORTED")])
    assert world.names == ["suspended missing_tools", "invoke_workflow first"]


def test_a_retried_job_keeps_its_root_and_gets_a_span_below_it(world: World) -> None:
    entries = journal(STARTED, Ended(leg=1, status="failed", reason="ERROR"), Retried(leg=1), STARTED)
    world.recorder.ended(JOB, entries, [DONE])
    again = world.one("invoke_workflow first")
    assert again.parent is not None
    assert again.parent.span_id == ROOT_ID
    assert again.context is not None
    assert again.context.span_id != ROOT_ID
    assert again.start_time == 5_000_000_000


@pytest.mark.parametrize("traceparent", [None, "", TRACE[:-2] + "00"])
def test_a_job_that_is_not_sampled_leaves_nothing(world: World, traceparent: str | None) -> None:
    world.recorder.submitted(JOB, traceparent or "", "h", "q", 1)
    with world.recorder.leg(claimed(traceparent=traceparent or ""), "q") as watch:
        watch.opened(journal(STARTED))
        watch.recorded([REPLIED])
        watch.committed(Answer("so"), "ok")
    world.recorder.ended(JOB, journal(STARTED, traceparent=traceparent), [DONE])
    assert world.names == []


def test_a_leg_is_a_delivery_with_an_agent_in_it(world: World) -> None:
    with world.recorder.leg(claimed(), "q") as watch:
        watch.opened(journal(STARTED))
        watch.recorded([REPLIED])
        watch.committed(Answer("so"), "ok")
    delivery, agent = world.one("process q"), world.one("invoke_agent first")
    assert delivery.parent is not None
    assert agent.parent is not None
    assert delivery.context is not None
    assert delivery.parent.span_id == ROOT_ID
    assert agent.parent.span_id == delivery.context.span_id
    assert attributes(delivery)["ekiden.queue.wait_ms"] == 1_000
    assert attributes(delivery)["ekiden.outcome"] == "answer"
    assert attributes(agent)["gen_ai.usage.output_tokens"] == 5


def test_the_next_attempt_links_to_the_one_that_died(world: World) -> None:
    with world.recorder.leg(claimed("7"), "first try"):
        pass
    with world.recorder.leg(claimed("8"), "second try") as watch:
        watch.opened(journal(STARTED, REPLIED, STARTED))
    first, second = world.one("process first try"), world.one("process second try")
    assert first.context is not None
    assert first.context.span_id in {link.context.span_id for link in second.links}
    assert [event.name for event in second.events] == ["ekiden.takeover"]
    assert attributes(first)["ekiden.outcome"] == "lost"


def test_a_leg_that_is_broken_off_says_so(world: World) -> None:
    with pytest.raises(ValueError, match="no"), world.recorder.leg(claimed(), "q"):
        raise ValueError("no")
    assert attributes(world.one("process q"))["ekiden.outcome"] == "interrupted"
    assert attributes(world.one("invoke_agent first"))["error.type"] == "ValueError"


class Model:
    """Answers, or is away."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if self._error:
            raise self._error
        return ModelReply(message=REPLY, model="m-001")


class Gate:
    """Runs whatever it is given."""

    async def run(self, call: ToolCall, context: Any) -> ToolResult:
        return ToolResult(call_id=call.id, name=call.name, content="no such tool", is_error=True)


REQUEST = ModelRequest(agent="first", model="gemini-2.5-flash", instructions="", messages=(user_message("hi"),))
CALL = ToolCall(id="c", name="words of the model")


def calls(watch: LegObserver) -> None:
    asyncio.run(watch.model(Model()).reply(REQUEST))
    asyncio.run(watch.tool_runner(Gate(), ["look"]).run(CALL, None))


def test_model_and_tool_calls_are_spans_of_the_agent(world: World) -> None:
    with world.recorder.leg(claimed(), "q") as watch:
        calls(watch)
        with pytest.raises(ModelUnavailable):
            asyncio.run(watch.model(Model(ModelUnavailable("away", 3.0))).reply(REQUEST))
    ok, away = [span for span in world.kept.spans if span.name == "generate_content gemini-2.5-flash"]
    assert attributes(ok)["gen_ai.provider.name"] == "gcp.gemini"
    assert attributes(ok)["gen_ai.response.model"] == "m-001"
    assert attributes(away)["error.type"] == "ModelUnavailable"
    assert attributes(away)["ekiden.model.retry_after_s"] == 3.0
    tool = world.one("execute_tool _OTHER")
    assert attributes(tool)["error.type"] == "tool_error"
    assert "words of the model" not in str(tool.to_json()), "a name that the model made up is its words"


@pytest.mark.parametrize(
    ("tracing", "seen"),
    [
        ({"events": ["tool"]}, {"execute_tool _OTHER"}),
        ({"events": ["llm"]}, {"generate_content gemini-2.5-flash"}),
        ({"enabled": False}, set()),
    ],
)
def test_an_agents_file_says_what_is_told_of_it(world: World, tracing: Any, seen: set[str]) -> None:
    with world.recorder.leg(claimed(), "q") as watch:
        watch.equipped(DEFINITION.model_copy(update={"extra": {"tracing": tracing}}), "gemini-2.5-flash")
        calls(watch)
    assert set(world.names) == {*seen, "invoke_agent first", "process q"}


def test_a_fault_in_watching_is_nobody_elses(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with world.recorder.leg(claimed(), "q") as watch:
        watch.recorded(None)  # type: ignore[arg-type]  # a fault
        watch.recorded(None)  # type: ignore[arg-type]  # the same again
    assert sum("telemetry_failed" in record.message for record in caplog.records) <= 1
    assert "process q" in world.names


def test_nobody_listens_unless_somebody_is_installed() -> None:
    assert not is_installed()
    with telemetry().leg(claimed(), "q") as watch:
        model, tool_runner = Model(), Gate()
        assert watch.model(model) is model
        assert watch.tool_runner(tool_runner, []) is tool_runner
        watch.opened([])
        watch.recorded([])
    listener = Telemetry()
    remove = install(listener)
    assert telemetry() is listener
    assert (remove(), remove()) == (True, False)
    assert telemetry() is not listener
