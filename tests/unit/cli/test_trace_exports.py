"""A journal exported for other tools: their shapes, the same ids every time, and no word that nobody asked for."""

import base64
import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ekiden.dispatcher.cli.views.story_view import read_story
from ekiden.dispatcher.journal.exports.events import trace_events
from ekiden.dispatcher.journal.exports.openai import openai_trace
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.exports.summary import story_json
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story, story_of
from ekiden.shared.handoff import Frame, first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Noticed,
    Nudged,
    Record,
    Refused,
    Routed,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.redaction import configure_redaction
from tests.unit.cli.families import DIGGER, ROOT, SCOUT, TESTER, family
from tests.unit.cli.journals import JOB, stored_journal

Export = Callable[..., Any]
EXPORTS = [trace_events, otlp_trace, openai_trace]
KEY = "AIzaSyA-0123456789abcdefghijklmnopqrst"
TYPES = {"llm_call", "tool_call", "handoff", "guardrail", "route"}


def story() -> Story:
    return story_of(JOB, stored_journal())


def planted(word: str) -> Story:
    """A story with ``word`` in every place that holds what people, models or tools said."""
    said = Message(
        role="model",
        parts=(
            TextPart(text=f"thought {word}", thought=True),
            TextPart(text=f"text {word}"),
            ToolCall(id="c1", name="bash", args={"command": word, "deep": [{"er": word}]}),
            ToolCall(id="c2", name="transfer_to_x", args={"reason": word}),
            ToolCall(id="c4", name=word, args={}),
        ),
    )
    context = first_context(JOB).advance("debugger", f"because {word}", is_route=True)
    onward = context.advance("fixer", f"reason {word}", context=word, summary=word, payload={"a": word})
    frame = Frame(agent="fixer", leg=2, call_id="c6", from_agent="debugger", chain_length=3)
    called = onward.advance("checker", f"reason {word}", call=frame)
    back = called.come_back(f"failed {word}", is_error=True, upto=1)
    result = ToolResult(call_id="c1", name="bash", content=f"result {word}", is_error=True)
    records: list[Record] = [
        JobRequested(prompt=f"prompt {word}", cwd=f"/srv/{word}"),
        LegStarted(leg=0, agent="router", attempt=1, worker="w"),
        Routed(agent="debugger", stage="rule", score=1, confidence=50, matched_keywords=(word,)),
        HandedOff(leg=0, context=context),
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        ModelReplied(leg=1, turn=1, message=said, detail=word, model="scripted", duration_ms=5),
        ToolStarted(leg=1, call_id="c1", name="bash"),
        ToolFinished(leg=1, result=result, duration_ms=1),
        ToolFinished(leg=1, result=ToolResult(call_id="c4", name=word, content=word, is_error=True)),
        Refused(leg=1, call_id="c2", name="transfer_to_x", code="UNKNOWN_TARGET", message=f"no {word}"),
        Noticed(leg=1, text=word),
        LegSuspended(leg=1, cause="retry", delay_s=1, detail=f"said {word}"),
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        HandedOff(leg=1, context=onward, call_id="c3"),
        LegStarted(leg=2, agent="fixer", attempt=1, worker="w"),
        Summarised(leg=2, text=f"summary {word}", model="scripted"),
        Nudged(leg=2, text=f"nudge {word}"),
        StateChanged(leg=2, changes={word: word}, by="set_state"),
        Delegated(leg=2, call_id="c5", child=f"{JOB}.1", agent="scout", objective=f"objective {word}"),
        LegSuspended(leg=2, cause="children", delay_s=0, detail="scout"),
        LegStarted(leg=2, agent="fixer", attempt=1, worker="w"),
        ToolFinished(leg=2, result=ToolResult(call_id="c5", name=word, content=f"child {word}", is_error=True)),
        HandedOff(leg=2, context=called, call_id="c6"),
        LegStarted(leg=3, agent="checker", attempt=1, worker="w"),
        HandedOff(leg=3, context=back),
        LegStarted(leg=4, agent="fixer", attempt=1, worker="w"),
        Ended(leg=4, status="failed", reason="ERROR", answer=word, error=f"error {word}"),
    ]
    return story_of(JOB, [Entry(seq=seq, at_ms=1_000 * seq, record=one) for seq, one in enumerate(records, 1)])


@pytest.mark.parametrize("export", EXPORTS)
def test_without_content_no_word_of_anybody_is_in_an_export(export: Export) -> None:
    assert "xyzzy" not in json.dumps(export(planted("xyzzy"), content=False))


@pytest.mark.parametrize("export", EXPORTS)
def test_with_content_words_are_there_and_secrets_are_not(export: Export) -> None:
    text = json.dumps(export(planted("xyzzy"), content=True))
    for words in ("prompt xyzzy", "text xyzzy", "result xyzzy"):
        assert words in text
    masked = json.dumps(export(planted(KEY), content=True))
    assert KEY not in masked
    assert "[redacted]" in masked


@pytest.mark.parametrize("export", EXPORTS)
def test_the_same_journal_gives_the_same_export(export: Export) -> None:
    assert export(story(), content=True) == export(story(), content=True)


def test_the_summary_masks_secrets() -> None:
    assert KEY not in json.dumps(story_json(planted(KEY)))


def test_the_summary_has_the_whole_story() -> None:
    found = story_json(story())
    assert (found["status"], found["reason"]) == ("done", "GOAL")
    assert found["end_ms"] - found["start_ms"] == 23_910
    assert [attempt["end"] for attempt in found["legs"][2]["attempts"]] == ["lost", "suspended", "handoff"]
    assert found["input_tokens"] == sum(
        step.get("input_tokens", 0) for leg in found["legs"] for attempt in leg["attempts"] for step in attempt["steps"]
    )


def test_events_have_the_fields_that_their_readers_know() -> None:
    events = trace_events(story(), content=False)
    assert Counter(event["event_type"] for event in events) == {
        "llm_call": 8,
        "tool_call": 9,
        "handoff": 3,
        "route": 1,
    }
    for event in events:
        assert set(event) <= {
            "event_id", "event_type", "timestamp", "session_id", "agent_name", "correlation_id", "details",
            "duration_ms", "error",
        }  # fmt: skip
        assert event["event_type"] in TYPES
        assert event["session_id"] == JOB.partition(".")[0]
        assert event["correlation_id"] == JOB
    assert len({event["event_id"] for event in events}) == len(events)
    route, first = events[0], events[1]
    assert route["details"] == {"routing_method": "rule", "routing_confidence": 90.0, "to_agent": "debugger"}
    assert first["details"] == {"model": "gemini-2.5-flash", "tokens": {"input": 675, "output": 68}}
    assert first["duration_ms"] == 1_480
    assert [event["error"] for event in events if "error" in event] == ["UNKNOWN_TARGET", "worker_lost", "tool_error"]


def spans() -> list[dict[str, Any]]:
    (resource,) = otlp_trace(story(), content=False)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_otlp_is_what_a_collector_reads() -> None:
    document = otlp_trace(story(), content=True)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for holder in (span, *span.get("links", [])):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in holder:  # JSON of protocol buffers has base64 where OTLP has hexadecimal
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    request = ParseDict(document, ExportTraceServiceRequest())
    found = request.resource_spans[0].scope_spans[0].spans
    assert {len(span.trace_id) for span in found} == {16}
    assert {len(span.span_id) for span in found} == {8}
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in found)


def test_otlp_is_one_tree_with_one_root() -> None:
    found = spans()
    ids = [span["spanId"] for span in found]
    assert len(set(ids)) == len(ids)
    assert len({span["traceId"] for span in found}) == 1
    roots = [span for span in found if not span["parentSpanId"]]
    assert [span["name"] for span in roots] == ["invoke_workflow debugger"]
    assert {span["parentSpanId"] for span in found if span["parentSpanId"]} <= set(ids)
    assert {link["spanId"] for span in found for link in span.get("links", [])} <= set(ids)


def test_otlp_names_are_those_of_the_genai_conventions() -> None:
    names = Counter(span["name"] for span in spans())
    assert names["invoke_agent code-fixer"] == 3
    assert names["generate_content gemini-2.5-flash"] == 8
    assert names["execute_tool transfer_to_code_fixer code-fixer"] == 1
    handoff = next(span for span in spans() if span["name"].endswith("transfer_to_code_fixer code-fixer"))
    assert attributes(handoff)["gen_ai.transfer.mode"] == "pass_control"
    assert attributes(handoff)["gen_ai.transfer.target.name"] == "code-fixer"
    model = next(span for span in spans() if span["name"].startswith("generate_content"))
    assert model["kind"] == 3
    assert attributes(model)["gen_ai.usage.input_tokens"] == "675"
    assert attributes(model)["gen_ai.provider.name"] == "gcp.gemini"


def test_otlp_links_each_attempt_to_what_caused_it_and_marks_what_failed() -> None:
    found = {span["spanId"]: span for span in spans()}
    fixer = [span for span in found.values() if span["name"] == "invoke_agent code-fixer"]
    causes = [found[span["links"][0]["spanId"]]["name"] for span in fixer]
    assert causes == ["execute_tool transfer_to_code_fixer code-fixer", *["invoke_agent code-fixer"] * 2]
    assert attributes(fixer[0])["error.type"] == "worker_lost"
    assert [event["name"] for event in fixer[1]["events"]] == ["ekiden.suspended"]
    pause = next(span for span in found.values() if span["name"] == "suspended retry")
    assert int(pause["endTimeUnixNano"]) - int(pause["startTimeUnixNano"]) == 2_000_000_000
    refused = next(span for span in found.values() if span["name"] == "execute_tool transfer_to_tester")
    assert refused["status"] == {"code": 2, "message": "UNKNOWN_TARGET"}


def test_openai_has_a_trace_and_spans_of_the_kinds_that_its_readers_know() -> None:
    trace, *found = openai_trace(story(), content=False)["data"]
    assert set(trace) == {"object", "id", "workflow_name", "group_id", "metadata"}
    assert trace["id"].startswith("trace_")
    assert len(trace["id"]) == len("trace_") + 32
    ids = {span["id"] for span in found}
    assert len(ids) == len(found)
    for span in found:
        assert set(span) == {
            "object", "id", "trace_id", "parent_id", "started_at", "ended_at", "span_data", "error",
        }  # fmt: skip
        assert (span["object"], span["trace_id"]) == ("trace.span", trace["id"])
        assert span["parent_id"] is None or span["parent_id"] in ids
        assert datetime.fromisoformat(span["started_at"]) <= datetime.fromisoformat(span["ended_at"])
    kinds = Counter(span["span_data"]["type"] for span in found)
    assert kinds == {"agent": 6, "generation": 8, "function": 10, "handoff": 3}


def test_openai_writes_content_as_that_sdk_does() -> None:
    _, *found = openai_trace(story(), content=True)["data"]
    first, second, *_ = [span["span_data"] for span in found if span["span_data"]["type"] == "generation"]
    assert first["input"] == [{"role": "user", "content": "the tests of the shop fail: TypeError in cart.total"}]
    assert first["output"][0]["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command": "pytest -q"}'}
    assert [message["role"] for message in second["input"]] == ["tool"] * 3
    function = next(span["span_data"] for span in found if span["span_data"].get("name") == "grep")
    assert json.loads(function["input"]) == {"pattern": "def total"}
    assert function["output"] == "cart.py:19: def total(self)"


def test_the_settings_patterns_and_prices_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EKIDEN_REDACT", '["cart[.]py"]')
    monkeypatch.setenv("EKIDEN_PRICES", '{"gemini-2.5-flash": [1000000, 0]}')
    try:
        story = read_story(JOB, {JOB: stored_journal()})
        assert story.cost_usd == 10_064
        text = json.dumps(trace_events(story, content=True))
        assert "cart.py" not in text
        assert "[redacted]:23: the price may be None" in text
    finally:
        configure_redaction(())


def family_told() -> Story:
    return job_tree_story(ROOT, family())


def test_the_summary_of_a_parent_holds_those_of_its_children() -> None:
    found = story_json(family_told())
    assert [child["job"] for child in found["children"]] == [SCOUT, TESTER]
    assert [child["job"] for child in found["children"][0]["children"]] == [DIGGER]
    assert found["children"][0]["parent"] == ROOT
    assert found["children"][0]["chain"] == ["user", "lead", "scout", "helper"]
    steps = [step for leg in found["legs"] for attempt in leg["attempts"] for step in attempt["steps"]]
    assert [step["child"] for step in steps if step["kind"] == "delegated"] == [SCOUT, TESTER]
    assert [leg["how"] for leg in found["legs"]] == ["route", "route", "handoff", "return", "automatic"]


def test_events_of_a_child_stand_behind_its_delegation() -> None:
    events = trace_events(family_told(), content=True)
    assert len({event["event_id"] for event in events}) == len(events)
    assert {event["event_type"] for event in events} <= TYPES
    order = [event["event_id"].rpartition(":")[0] for event in events]
    scout = order.index(SCOUT)
    delegation = events[scout - 1]
    assert delegation["details"] == {
        "tool_name": "delegate_to_scout", "to_agent": "scout", "child_job": SCOUT,
        "tool_args": {"objective": "x"}, "tool_result": "found it\nin line 42",
    }  # fmt: skip
    assert delegation["duration_ms"] == 1_000, "as long as the child took"
    failed = next(event for event in events if event["details"].get("child_job") == TESTER)
    assert (failed["error"], failed["duration_ms"]) == ("ended without a result", 3_000)
    back = next(event for event in events if event["details"].get("returned"))
    assert back["details"] == {
        "from_agent": "checker", "to_agent": "lead", "returned": True, "handoff_result": "looks fine\nreally"
    }  # fmt: skip
    assert {event["correlation_id"] for event in events} == {ROOT}


def test_otlp_of_a_family_is_one_trace_with_the_children_below_their_calls() -> None:
    (resource,) = otlp_trace(family_told(), content=False)["resourceSpans"]
    found = resource["scopeSpans"][0]["spans"]
    by_id = {span["spanId"]: span for span in found}
    assert len(by_id) == len(found)
    assert len({span["traceId"] for span in found}) == 1
    assert sum(not span["parentSpanId"] for span in found) == 1
    assert {span["parentSpanId"] for span in found if span["parentSpanId"]} <= by_id.keys()
    assert {link["spanId"] for span in found for link in span.get("links", [])} <= by_id.keys()
    roots = {attributes(span)["ekiden.job.id"]: span for span in found if span["name"].startswith("invoke_workflow")}
    assert set(roots) == {ROOT, SCOUT, TESTER, DIGGER}
    call = by_id[roots[DIGGER]["parentSpanId"]]
    assert (call["name"], attributes(call)["ekiden.child.id"]) == ("execute_tool delegate_to_digger", DIGGER)
    alone = otlp_trace(family_told().children[SCOUT], content=False)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {span["spanId"] for span in alone} < by_id.keys(), "imported twice, a span is one"
    assert {span["traceId"] for span in alone} == {found[0]["traceId"]}


def test_openai_of_a_family_has_the_children_below_their_calls() -> None:
    trace, *found = openai_trace(family_told(), content=True)["data"]
    by_id = {span["id"]: span for span in found}
    assert len(by_id) == len(found)
    assert {span["trace_id"] for span in found} == {trace["id"]}
    agents = {span["span_data"]["name"]: span for span in found if span["span_data"]["type"] == "agent"}
    call = by_id[agents["digger"]["parent_id"]]
    assert (call["span_data"]["name"], call["span_data"]["output"]) == ("delegate_to_digger", "dug")
    assert agents["reviewer"]["parent_id"] is None
    assert agents["checker"]["span_data"]["handoffs"] == [], "a return is no handoff of its own"
