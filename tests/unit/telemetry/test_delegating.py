"""Delegated jobs: in the trace of the job that delegates, each below its root and with its call."""

import json
import time
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.shared.handoff import first_context
from ekiden.shared.hooks.base import attending
from ekiden.shared.messages import Message, ToolResult, Usage
from ekiden.shared.outcomes import Answer, ChildJob, Failed, Outcome, Suspended, Transfer
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    GRAPH,
    Delegated,
    Entry,
    Guarded,
    HandedOff,
    JobRequested,
    LegSuspended,
    ModelReplied,
    NodeFinished,
    Nudged,
    Refused,
    StateChanged,
    Summarised,
    ToolFinished,
)
from ekiden.shared.redaction import Redactor
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, LegMessage, outbox, queue_for
from ekiden.shared.relay.runner import Runner
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.base import Claim, Claimed
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import Submission
from ekiden.shared.telemetry.config import telemetry_config
from ekiden.shared.telemetry.counting import Counting
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.tracing.content import Content
from tests.conftest import Backend
from tests.doubles.otlp import read_document, read_spans, same_trace
from tests.unit.relay.legs import expire, runner_of, take
from tests.unit.telemetry.test_metrics import fetched, free_port
from tests.unit.telemetry.test_tracing import (
    DONE,
    JOB,
    REPLIED,
    ROOT_ID,
    STARTED,
    TRACE,
    World,
    attributes,
    behind,
    claimed,
    journal,
)


async def submitted(stores: Stores) -> str:
    """Submit a job that is traced."""
    job = await stores.jobs.reserve(None, "r1")
    context = first_context(job, TRACE)
    request = JobRequested(prompt="look", traceparent=TRACE)
    box = outbox(job, 0, DISPATCH_QUEUE, context)
    assert await stores.jobs.submit(Submission(job, request, context, box, 3600.0))
    return job


def waiting_for(leg: Leg, count: int) -> Suspended:
    """The lead's wait for ``count`` scouts."""
    children = []
    for n in range(1, count + 1):
        context = leg.context.advance("scout", "look")
        children.append(
            ChildJob(f"{leg.job}.{n}", f"c{n}", "scout", "look", context, {"objective": "look"}, (), 5, 60.0)
        )
    return Suspended("children", 0.0, "scout", tuple(children))


async def route(leg: Leg) -> Outcome:
    return Transfer(leg.context.advance("lead", "go", is_route=True), catalog="cat")


async def delegate(leg: Leg) -> Outcome:
    return waiting_for(leg, 2)


async def conclude(leg: Leg) -> Outcome:
    results = [
        ToolResult(call_id="c1", name="delegate_to_scout", content="here"),
        ToolResult(call_id="c2", name="default_api:delegate_to_scout", content="ended without", is_error=True),
    ]
    await leg.record(*(ToolFinished(leg=leg.number, result=result) for result in results))
    return Answer("so")


async def play(runner: Runner, stores: Stores, *queues: str) -> None:
    """Serve the oldest message of each queue in turn."""
    for queue in queues:
        await runner.run(await take(stores, queue), queue)


LEAD, SCOUT = queue_for("lead"), queue_for("scout")


@pytest.fixture
def told() -> World:
    """What hears of everything that the relay does."""
    return World()


@pytest.fixture
def spans(valkey: Backend, told: World) -> list[ReadableSpan]:
    """A job that delegates twice, with one good and one bad end."""

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        told.hook.job_submitted(job, TRACE, DISPATCH_QUEUE, 1)
        runner = runner_of(stores, route, delegate, Answer("here"), Failed("ERROR", "gone"), conclude, hooks=told.hook)
        await play(runner, stores, DISPATCH_QUEUE, LEAD, SCOUT, SCOUT, LEAD)
        assert (await stores.jobs.job(job)).status == "done"

    valkey.run(scenario)
    return told.kept.spans


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def named(spans: list[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def test_a_job_and_those_that_it_delegates_are_one_trace_with_one_root(spans: list[ReadableSpan]) -> None:
    ids = {id_of(span) for span in spans}
    assert len(ids) == len(spans), "no span comes twice"
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE.split("-")[1]}
    assert [span.name for span in spans if span.parent is None] == ["invoke_workflow lead"]
    assert [span.name for span in spans if span.parent and span.parent.span_id not in ids] == []
    children = named(spans, "invoke_workflow scout")
    assert [span.parent.span_id for span in children if span.parent] == [ROOT_ID, ROOT_ID]
    assert [attributes(span)["ekiden.job.status"] for span in children] == ["done", "failed"]


def test_the_journals_of_a_family_export_to_what_was_live(valkey: Backend, told: World) -> None:
    async def scenario(stores: Stores) -> dict[str, list[Entry]]:
        job = await submitted(stores)
        told.hook.job_submitted(job, TRACE, DISPATCH_QUEUE, time.time_ns())
        runner = runner_of(stores, route, delegate, Answer("here"), Failed("ERROR", "gone"), conclude, hooks=told.hook)
        await play(runner, stores, DISPATCH_QUEUE, LEAD, SCOUT, SCOUT, LEAD)
        return {one: await stores.jobs.journal(one) for one in (job, f"{job}.1", f"{job}.2")}

    journals = valkey.run(scenario)
    exported = read_document(otlp_trace(journals, 0, Prices(), content=False))
    live = read_spans(encode_spans(told.kept.spans).SerializeToString())
    assert len(exported) > 15
    assert same_trace(exported, live) == []


def test_a_job_that_was_buried_and_one_that_was_cancelled_export_to_what_was_live(valkey: Backend, told: World) -> None:
    async def scenario(stores: Stores) -> dict[str, list[Entry]]:
        job = await submitted(stores)
        told.hook.job_submitted(job, TRACE, DISPATCH_QUEUE, time.time_ns())
        runner = runner_of(stores, route, delegate, hooks=told.hook)
        await play(runner, stores, DISPATCH_QUEUE, LEAD)
        await claimed_by_nobody_for_long(stores, f"{job}.1")
        await sweep(stores.jobs, grace_s=0.0, max_attempts=1, hooks=told.hook)
        await stop_job(stores.jobs, job, "user", told.hook)
        await sweep(stores.jobs, grace_s=0.0, max_attempts=1, hooks=told.hook)
        return {one: await stores.jobs.journal(one) for one in (job, f"{job}.1", f"{job}.2")}

    journals = valkey.run(scenario)
    exported = read_document(otlp_trace(journals, 0, Prices(), content=False))
    live = read_spans(encode_spans(told.kept.spans).SerializeToString())
    assert [one.attributes["ekiden.job.status"] for one in live if one.name == "invoke_workflow scout"][:1] == ["dead"]
    assert [one.attributes["ekiden.job.status"] for one in live if one.name == "invoke_workflow lead"] == ["cancelled"]
    assert same_trace(exported, live) == []


async def claimed_by_nobody_for_long(stores: Stores, job: str) -> None:
    """Let a worker take the job's leg and die."""
    message = LegMessage.model_validate(await take(stores, SCOUT))
    assert message.job == job
    claim = Claim(job, message.leg, message.id, "scout", "owner", "worker")
    assert isinstance(await stores.jobs.claim(claim, 30.0, quarantine_from=9, defer_s=0.0), Claimed)
    await expire(stores, job)


def test_every_delivery_of_a_delegated_job_links_to_its_send(spans: list[ReadableSpan]) -> None:
    sends = {id_of(span): span for span in spans if span.name.startswith("send ")}
    deliveries = [span for span in spans if span.name.startswith("process ")]
    first_of_lead = named(spans, f"process {LEAD}")[0]
    assert len(deliveries) == 5
    for delivery in deliveries:
        (send,) = [sends[link.context.span_id] for link in delivery.links if link.context.span_id in sends]
        assert attributes(send)["messaging.message.id"] == attributes(delivery)["messaging.message.id"]
    (agent,) = [
        one for one in named(spans, "invoke_agent lead") if one.parent and one.parent.span_id == id_of(first_of_lead)
    ]
    assert {span.parent.span_id for span in named(spans, f"send {SCOUT}") if span.parent} == {id_of(agent)}


def test_a_delegation_is_a_call_of_the_agent_that_lasts_as_long_as_the_child(spans: list[ReadableSpan]) -> None:
    calls = named(spans, "execute_tool delegate_to_scout")
    children = named(spans, "invoke_workflow scout")
    agents = {id_of(span) for span in named(spans, "invoke_agent lead")}
    assert [attributes(call)["gen_ai.tool.call.id"] for call in calls] == ["c1", "c2"]
    assert [attributes(call).get("error.type") for call in calls] == [None, "tool_error"]
    for call, child in zip(calls, children, strict=True):
        assert call.parent is not None
        assert call.parent.span_id in agents
        assert [link.context.span_id for link in call.links] == [id_of(child)]
        assert attributes(call)["ekiden.child.id"] == attributes(child)["ekiden.job.id"]
        assert call.start_time is not None
        assert child.end_time is not None
        assert call.end_time is not None
        assert call.start_time // 10**6 <= child.end_time // 10**6 <= call.end_time // 10**6


def test_the_wait_for_children_is_a_suspension_and_no_wait_in_a_queue(spans: list[ReadableSpan]) -> None:
    (pause,) = named(spans, "suspended children")
    first, resumed = named(spans, f"process {LEAD}")
    assert attributes(pause)["ekiden.suspended.cause"] == "children"
    assert "ekiden.queue.wait_ms" in attributes(first)
    assert "ekiden.queue.wait_ms" not in attributes(resumed)
    assert id_of(first) in {link.context.span_id for link in resumed.links}


def test_a_leg_that_waits_again_sends_its_children_once(valkey: Backend, told: World) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, route, delegate, Answer("1"), Answer("2"), delegate, conclude, hooks=told.hook)
        await play(runner, stores, DISPATCH_QUEUE, LEAD, SCOUT, SCOUT, LEAD, LEAD)
        assert (await stores.jobs.job(job)).status == "done"

    valkey.run(scenario)
    assert len(named(told.kept.spans, f"send {SCOUT}")) == 2
    assert len(named(told.kept.spans, "execute_tool delegate_to_scout")) == 2
    assert len(named(told.kept.spans, "suspended children")) == 2


@pytest.mark.parametrize("above", [None, "", "nonsense"])
def test_a_job_that_nobody_delegated_is_a_root(world: World, above: str | None) -> None:
    entries = journal(STARTED)
    request = JobRequested(prompt="go", traceparent=TRACE, parent_traceparent=above)
    world.ended([entries[0]._replace(record=request), *entries[1:]], DONE)
    assert world.one("invoke_workflow first").parent is None


@pytest.fixture
def world() -> World:
    return World()


DELEGATED = Delegated(leg=1, call_id="c1", child=f"{JOB}.1", agent="Scout Team", objective="find the okapi")
RESULT = ToolFinished(leg=1, result=ToolResult(call_id="c1", name="delegate to whom?", content="a gazpacho"))
WAITING = (STARTED, REPLIED, DELEGATED, LegSuspended(leg=1, cause="children", delay_s=0.0))


def calls_of(world: World) -> list[ReadableSpan]:
    """The delegations of a leg that goes on behind its children's ends."""
    with world.leg(*WAITING) as leg:
        leg.record(RESULT)
    return named(world.kept.spans, "execute_tool delegate_to_scout_team")


def test_what_a_model_calls_a_delegation_does_not_leave(world: World) -> None:
    (call,) = calls_of(world)
    assert not [word for word in ("whom?", "okapi", "gazpacho") if word in str(call.to_json())]


def test_objective_and_result_are_content() -> None:
    (call,) = calls_of(World(content=Content(Redactor().redact_all)))
    assert json.loads(attributes(call)["gen_ai.tool.call.arguments"]) == {"objective": "find the okapi"}
    assert attributes(call)["gen_ai.tool.call.result"] == "a gazpacho"


def test_a_result_that_is_there_already_is_not_told_again(world: World) -> None:
    with world.leg(*WAITING, STARTED, RESULT) as leg:
        leg.record(ToolFinished(leg=1, result=ToolResult(call_id="c1", name="look", content="")))
    assert named(world.kept.spans, "execute_tool delegate_to_scout_team") == []


def test_a_refused_handoff_of_the_agents_file_has_no_call(world: World) -> None:
    with world.leg() as leg:
        leg.record(Refused(leg=1, call_id=None, name="transfer_to_second", code="MAX_DEPTH", message="no"))
    assert "gen_ai.tool.call.id" not in attributes(world.one("execute_tool transfer_to_second"))


def test_what_guardrails_say_is_a_span_and_their_errors_are_content() -> None:
    judged = Guarded(leg=1, at="output", rail="brief", policy="reject", status="failed", errors=("the okapi",))
    for content in (None, Content(Redactor().redact_all)):
        world = World(content=content) if content else World()
        with world.leg() as leg:
            leg.record(judged)
        span = attributes(world.one("guardrail brief"))
        assert [span[f"ekiden.guardrail.{name}"] for name in ("name", "at", "policy", "status")] == [
            "brief",
            "output",
            "reject",
            "failed",
        ]
        assert ("okapi" in str(span)) == bool(content)


SUMMARY = Summarised(leg=1, text="so far", model="m", usage=Usage(input_tokens=4, output_tokens=2))


def test_a_summary_counts_as_a_model_call(world: World) -> None:
    with world.leg() as leg:
        leg.record(REPLIED, SUMMARY, Nudged(leg=1, text="go on"), StateChanged(leg=1, changes={"a": 1}), DONE)
    for name in ("invoke_agent first", "invoke_workflow first"):
        assert attributes(world.one(name))["gen_ai.usage.input_tokens"] == 14
        assert attributes(world.one(name))["ekiden.cost_usd"] == pytest.approx(21e-6)


NODE = NodeFinished(leg=1, graph="flow", run=1, node="draft", channel="draft", next=("check", "END"))
CALLED = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=()), model=GRAPH)
JUDGED = Guarded(leg=1, at="output", rail="brief", policy="warn", status="warned", errors=("too long",))


def test_metrics_know_what_is_suspended_and_who_hands_over() -> None:
    port = free_port()
    meters = Meters(telemetry_config(load_settings(metrics_port=port), {}), {}, Resource({}), str)
    counting = Counting(meters, Prices())
    automatic = HandedOff(leg=1, context=claimed().context.advance("second", "on completion"))
    try:
        with attending(counting, claimed(), "q") as told:
            told.opened(entries := journal(*WAITING, STARTED))
            told.recorded(behind(entries, RESULT, SUMMARY, automatic, JUDGED, NODE, CALLED))
            told.committed(Suspended("children", 0.0), "ok")
        counting.suspensions_seen({"children": 2, "retry": 0})
        seen: dict[str, Any] = fetched(f"http://127.0.0.1:{port}/metrics")
    finally:
        counting.close()
    assert seen['ekiden_legs_suspended_total{cause="children"}'] == 1
    assert (seen['ekiden_jobs_suspended{cause="children"}'], seen['ekiden_jobs_suspended{cause="retry"}']) == (2, 0)
    assert seen['ekiden_handoffs_total{source="first",target="second"}'] == 1
    assert seen['ekiden_guardrails_total{agent="first",at="output",guardrail="brief",status="warned"}'] == 1
    assert (
        seen['ekiden_tool_calls_total{agent="first",gen_ai_tool_name="delegate_to_scout_team",outcome="success"}'] == 1
    )
    assert seen['ekiden_tokens_total{agent="first",model="m",type="input"}'] == 4
    assert seen['ekiden_graph_edges_total{graph="flow",source="draft",target="check"}'] == 1
    assert seen['ekiden_graph_edges_total{graph="flow",source="draft",target="END"}'] == 1
    assert 'ekiden_turns_total{agent="first"}' not in seen, "a summary is no turn, nor is what a graph calls itself"
