"""A journal exported for other tools: their shapes, the same ids every time, and no word that nobody asked for."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.cli.views.story_view import read_story
from ekiden.dispatcher.journal.exports.events import trace_events
from ekiden.dispatcher.journal.exports.openai import openai_trace
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.exports.summary import story_json
from ekiden.dispatcher.journal.exports.turns import turn_events
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story, story_of
from ekiden.shared.handoff import Frame, first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    Guarded,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    LimitNear,
    LoopDetected,
    ModelReplied,
    Noticed,
    Nudged,
    Record,
    Refused,
    Repairing,
    Routed,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.redaction import configure_redaction
from tests.doubles.otlp import SpanSeen, read_document
from tests.unit.cli.families import DIGGER, ROOT, SCOUT, TESTER, family
from tests.unit.cli.journals import JOB, stored_journal

Export = Callable[..., Any]


def otlp(journals: dict[str, list[Entry]], **options: Any) -> Any:
    return otlp_trace(journals, 0, Prices(), **options)


def of_story(export: Callable[..., Any]) -> Export:
    return lambda journals, **options: export(job_tree_story(JOB, journals), **options)


OF_JOBS: list[Export] = [of_story(trace_events), otlp, of_story(openai_trace)]
EXPORTS: list[Export] = [*OF_JOBS, turn_events]
KEY = "AIzaSyA-0123456789abcdefghijklmnopqrst"
TYPES = {"llm_call", "tool_call", "handoff", "guardrail", "route", "agent_start", "agent_complete", "agent_error"}


def story() -> Story:
    return story_of(JOB, stored_journal())


def planted(word: str) -> dict[str, list[Entry]]:
    """A journal with ``word`` in every place that holds what people, models or tools said."""
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
        Repairing(leg=2, at="output", rail="valid", errors=(word,), text=f"mended {word}", model="scripted"),
        Guarded(leg=2, at="output", rail="valid", policy="repair", status="repaired", errors=(word,), value=word),
        Guarded(leg=2, at="output", rail="brief", policy="reject", status="failed", errors=(f"fault {word}",)),
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
    return {JOB: [Entry(seq=seq, at_ms=1_000 * seq, record=one) for seq, one in enumerate(records, 1)]}


@pytest.mark.parametrize("export", EXPORTS)
def test_without_content_no_word_of_anybody_is_in_an_export(export: Export) -> None:
    assert "xyzzy" not in json.dumps(export(planted("xyzzy"), content=False))


@pytest.mark.parametrize("export", OF_JOBS)
def test_the_name_of_a_tool_that_the_agent_has_is_there_though_it_fails(export: Export) -> None:
    journals = planted("xyzzy")
    failing = ToolStarted(leg=1, call_id="c1", name="query_shop", is_known=True)
    seq = next(entry.seq for entry in journals[JOB] if isinstance(entry.record, ToolStarted))
    journals[JOB][seq - 1] = journals[JOB][seq - 1]._replace(record=failing)
    assert "query_shop" in json.dumps(export(journals, content=False))


@pytest.mark.parametrize("export", OF_JOBS)
def test_with_content_words_are_there_and_secrets_are_not(export: Export) -> None:
    text = json.dumps(export(planted("xyzzy"), content=True))
    for words in ("prompt xyzzy", "text xyzzy", "result xyzzy"):
        assert words in text
    masked = json.dumps(export(planted(KEY), content=True))
    assert KEY not in masked
    assert "[redacted]" in masked


@pytest.mark.parametrize("export", EXPORTS)
def test_the_same_journal_gives_the_same_export(export: Export) -> None:
    assert export({JOB: stored_journal()}, content=True) == export({JOB: stored_journal()}, content=True)


def test_the_summary_masks_secrets() -> None:
    assert KEY not in json.dumps(story_json(job_tree_story(JOB, planted(KEY))))


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
        "agent_start": 3,
        "agent_complete": 3,
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
    route, start, first = events[:3]
    assert (start["event_type"], start["details"]) == ("agent_start", {"agent_name": "debugger"})
    assert route["details"] == {"routing_method": "rule", "routing_confidence": 90.0, "to_agent": "debugger"}
    assert first["details"] == {"model": "gemini-2.5-flash", "tokens": {"input": 675, "output": 68}}
    assert first["duration_ms"] == 1_480
    assert [event["error"] for event in events if "error" in event] == ["UNKNOWN_TARGET", "worker_lost", "tool_error"]


def test_the_prompt_of_an_event_is_what_the_model_read_since_its_call_before() -> None:
    look = Message(role="model", parts=(ToolCall(id="c1", name="look", args={}),))
    context = first_context(JOB).advance("debugger", "routed", is_route=True)
    onward = context.advance("fixer", "it is found", context="cart.py:23", payload={"line": 23})
    result = ToolResult(call_id="c1", name="look", content="a stack trace")
    records: list[Record] = [
        JobRequested(prompt="it fails"),
        HandedOff(leg=0, context=context),
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        ModelReplied(leg=1, turn=1, message=look),
        ToolFinished(leg=1, result=result),
        LimitNear(leg=1, limit="max_turns", text="Come to an end."),
        ModelReplied(leg=1, turn=2, message=look),
        HandedOff(leg=1, context=onward, call_id="h"),
        LegStarted(leg=2, agent="fixer", attempt=1, worker="w"),
        ModelReplied(leg=2, turn=1, message=look),
        Ended(leg=2, status="failed", reason="MAX_TURNS", error="too many"),
    ]
    told = story_of(JOB, [Entry(seq, seq, one) for seq, one in enumerate(records, 1)])
    events = trace_events(told, content=True)
    assert [event["details"]["prompt"] for event in events if event["event_type"] == "llm_call"] == [
        "it fails",
        "look: a stack trace\n\nCome to an end.",
        'it fails\n\nit is found\n\ncart.py:23\n\n{"line": 23}',
    ]
    kinds = ["agent_start", "agent_complete", "agent_start", "agent_error"]
    assert [event["event_type"] for event in events if event["event_type"].startswith("agent_")] == kinds
    assert (events[-1]["error"], trace_events(told, content=False)[-1]["error"]) == ("too many", "MAX_TURNS")


def test_turns_are_told_by_the_events_of_their_parts() -> None:
    look = ToolCall(id="c1", name="look", args={"at": "cart.py"})
    said = Message(role="model", parts=(TextPart(text="**Why**", thought=True), TextPart(text="I look."), look))
    records: list[Record] = [
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        ModelReplied(leg=1, turn=1, message=said),
        ToolFinished(leg=1, result=ToolResult(call_id="c1", name="look", content="nothing"), duration_ms=3),
        LoopDetected(leg=1, kind="calls", text="You go round in circles."),
    ]
    events = turn_events({JOB: [Entry(seq, seq, one) for seq, one in enumerate(records, 1)]}, content=True)
    assert [(event["type"], event["value"]) for event in events] == [
        ("Thought", {"text": "**Why**"}),
        ("Content", {"text": "I look."}),
        ("ToolCallRequest", {"callId": "c1", "name": "look", "args": {"at": "cart.py"}}),
        ("Finished", {"reason": "stop"}),
        (
            "ToolCallResponse",
            {"callId": "c1", "isError": False, "durationMs": 3, "name": "look", "response": "nothing"},
        ),
        ("LoopDetected", {"kind": "calls", "text": "You go round in circles."}),
    ]
    assert {(event["job"], event["agent"], event["turn"]) for event in events} == {(JOB, "debugger", 1)}
    assert {"name": "bash", "callId": "c1"} in [one["value"] for one in turn_events(planted(KEY), content=False)]
    assert KEY not in json.dumps(turn_events(planted(KEY), content=True))


@cache
def spans() -> tuple[SpanSeen, ...]:
    return tuple(read_document(otlp({JOB: stored_journal()}, content=False)))


def test_otlp_is_one_tree_with_one_root() -> None:
    found = spans()
    ids = [span.id for span in found]
    assert len(set(ids)) == len(ids)
    assert len({span.trace for span in found}) == 1
    assert {len(span.trace) for span in found} == {32}
    roots = [span for span in found if not span.parent]
    assert [span.name for span in roots] == ["invoke_workflow debugger"]
    assert {span.parent for span in found if span.parent} <= set(ids)
    assert {id_ for span in found for _, id_, _ in span.links} <= set(ids)
    assert all(span.end >= span.start > 0 for span in found)


def test_otlp_names_are_those_of_the_genai_conventions() -> None:
    names = Counter(span.name for span in spans())
    assert names["invoke_agent code-fixer"] == 3
    assert names["generate_content gemini-2.5-flash"] == 8
    assert names["execute_tool transfer_to_code_fixer code-fixer"] == 1
    handoff = next(span for span in spans() if span.name.endswith("transfer_to_code_fixer code-fixer"))
    assert handoff.attributes["gen_ai.transfer.mode"] == "pass_control"
    assert handoff.attributes["gen_ai.transfer.target.name"] == "code-fixer"
    model = next(span for span in spans() if span.name.startswith("generate_content"))
    assert model.kind == 3
    assert model.attributes["gen_ai.usage.input_tokens"] == 675
    assert model.attributes["gen_ai.provider.name"] == "gcp.gemini"


def test_otlp_links_each_attempt_to_what_caused_it_and_marks_what_failed() -> None:
    found = {span.id: span for span in spans()}
    tries = [span for span in found.values() if span.name == "process ekiden.agent.code-fixer"]
    tries.sort(key=lambda span: span.start)
    causes = [[about["ekiden.link"] for _, _, about in span.links] for span in tries]
    assert causes == [["send"], ["send", "takeover"], ["send", "resume"]]
    (sent,) = {span.links[0][1] for span in tries}
    assert found[found[sent].parent].name == "execute_tool transfer_to_code_fixer code-fixer"
    assert [span.attributes["ekiden.outcome"] for span in tries] == ["lost", "suspended", "transfer"]
    agents = [span for span in found.values() if span.parent in {one.id for one in tries}]
    agents.sort(key=lambda span: span.start)
    assert [span.status for span in agents] == ["worker_lost", "", ""]
    assert [name for name, _ in agents[1].events] == ["ekiden.suspended"]
    pause = next(span for span in found.values() if span.name == "suspended retry")
    assert pause.end - pause.start == 2_150_000_000, "until somebody goes on, not only until its timer rings"
    refused = next(span for span in found.values() if span.name == "execute_tool transfer_to_tester")
    assert refused.status == "UNKNOWN_TARGET"


def test_otlp_has_the_ids_that_were_drawn_at_submit_where_the_journal_has_them() -> None:
    first, *others = stored_journal()
    trace = "0af7651916cd43dd8448eb211c80319c"
    request = first.record.model_copy(update={"traceparent": f"00-{trace}-b7ad6b7169203331-00"})
    journal = [first._replace(record=request), *others]
    found = read_document(otlp({JOB: journal}, content=False))
    assert {span.trace for span in found} == {trace}
    assert [span.id for span in found if not span.parent] == ["b7ad6b7169203331"]


@pytest.mark.parametrize("upto", range(1, len(stored_journal()) + 1))
def test_otlp_of_a_job_that_goes_on_has_every_span_that_it_will_have_later(upto: int) -> None:
    journal = stored_journal()[:upto]
    now_ms = journal[-1].at_ms + 5
    found = read_document(otlp_trace({JOB: journal}, now_ms, Prices(), content=False))
    ids = {span.id for span in found}
    assert {span.parent for span in found if span.parent} <= ids, "no orphans, whenever it is exported"
    assert ids <= {span.id for span in spans()}
    assert max(span.end for span in found) <= now_ms * 1_000_000


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
    assert [child["id"] for child in found["children"]] == [SCOUT, TESTER]
    assert [child["id"] for child in found["children"][0]["children"]] == [DIGGER]
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


def test_otlp_of_a_family_is_one_trace_in_which_calls_link_to_their_children() -> None:
    found = read_document(otlp(family(), content=False))
    by_id = {span.id: span for span in found}
    assert len(by_id) == len(found)
    assert len({span.trace for span in found}) == 1
    assert [span.name for span in found if not span.parent] == ["invoke_workflow lead"]
    assert {span.parent for span in found if span.parent} <= by_id.keys()
    assert {id_ for span in found for _, id_, _ in span.links} <= by_id.keys()
    roots = {span.attributes["ekiden.job.id"]: span for span in found if span.name.startswith("invoke_workflow")}
    assert set(roots) == {ROOT, SCOUT, TESTER, DIGGER}
    assert {job: roots[job].parent for job in (SCOUT, TESTER, DIGGER)} == {
        SCOUT: roots[ROOT].id, TESTER: roots[ROOT].id, DIGGER: roots[SCOUT].id
    }  # fmt: skip
    calls = [span for span in found if span.attributes.get("ekiden.child.id") == DIGGER]
    assert [(call.name, call.links[0][1]) for call in calls] == [("execute_tool delegate_to_digger", roots[DIGGER].id)]
    alone = read_document(otlp({job: entries for job, entries in family().items() if job == SCOUT}, content=False))
    assert {span.id for span in alone} < by_id.keys(), "imported twice, a span is one"
    assert {span.trace for span in alone} == {found[0].trace}


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
