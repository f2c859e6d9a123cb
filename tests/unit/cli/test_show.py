"""How a journal is shown."""

import io
import json
from collections.abc import Iterable

import pytest

from dispatcher.cli.output import Output
from dispatcher.cli.show import JsonView, PeopleView, exit_code_of
from shared.handoff import first_context
from shared.messages import Message, TextPart, ToolCall, ToolResult, Usage
from shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Noticed,
    Paused,
    Record,
    Refused,
    Routed,
    ToolFinished,
)

JOB = "abcdefghijklmnop.1"
ROUTE = first_context(JOB).advance("debugger", "routed by rule", is_route=True)
HANDOFF = ROUTE.advance("code-fixer", "cart.py:23 lacks a check")


def entries(records: Iterable[Record]) -> list[Entry]:
    return [Entry(seq=number, at_ms=1_000 * number, record=record) for number, record in enumerate(records, 1)]


def shown(*records: Record) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    view = PeopleView(JOB, Output(stream))
    for entry in entries(records):
        view.show(entry)
    stream.seek(0)
    return stream.read()


def reply(text: str = "", *calls: ToolCall, leg: int = 1, tokens: int = 10) -> ModelReplied:
    parts = (*([TextPart(text=text)] if text else []), *calls)
    message = Message(role="model", parts=parts)
    return ModelReplied(leg=leg, turn=1, message=message, usage=Usage(input_tokens=tokens), model="scripted")


def test_a_relay_reads_like_a_story_and_ends_with_its_chain() -> None:
    call = ToolCall(id="c1", name="read_file", args={"path": "cart.py", "limit": 9})
    text = shown(
        JobRequested(prompt="it fails"),
        LegStarted(agent="router", attempt=1, worker="w"),
        Routed(agent="debugger", stage="rule", score=27, confidence=27),
        HandedOff(context=ROUTE),
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        reply("I look.", call),
        ToolFinished(leg=1, result=ToolResult(call_id="c1", name="read_file", content="…"), duration_ms=3),
        HandedOff(leg=1, context=HANDOFF, call_id="c2"),
        LegStarted(leg=2, agent="code-fixer", attempt=1, worker="w"),
        reply("Repaired.", leg=2),
        Ended(leg=2, status="done", reason="GOAL", answer="Repaired."),
    )
    assert text.splitlines() == [
        "🎯 Routing via rule-match to: debugger (27% confidence)",
        "💡 Model: scripted stand-in for a model: no key is needed",
        "debugger: I look.",
        "🔧 read_file cart.py (3 ms)",
        "🔀 debugger → code-fixer: cart.py:23 lacks a check",
        "",
        "✅ code-fixer: Repaired.",
        "",
        f"user → debugger → code-fixer · 10.0 s · 20 tokens · job {JOB}",
    ]


def test_what_goes_wrong_on_the_way_is_shown_with_its_cause() -> None:
    text = shown(
        LegStarted(leg=1, agent="debugger", attempt=2, worker="w"),
        ToolFinished(leg=1, result=ToolResult(call_id="?", name="bash", content="no\nway", is_error=True)),
        Refused(leg=1, call_id="c", name="transfer_to_x", code="CIRCULAR_HANDOFF", message="answer yourself"),
        Paused(leg=1, cause="missing_tools", delay_s=0.5, detail="tools bash"),
        Noticed(leg=1, text="the catalog changed"),
        Ended(leg=1, status="failed", reason="TIMEOUT", error="too long"),
    )
    assert text.splitlines()[:6] == [
        "💡 debugger goes on: attempt 2",
        "🔧 bash (0 ms): no way",
        "⛔ debugger: transfer_to_x refused (CIRCULAR_HANDOFF): answer yourself",
        "⏳ debugger waits 0.5 s: missing tools: tools bash",
        "💡 the catalog changed",
        "❌ failed (TIMEOUT): too long",
    ]


def test_the_agent_that_the_user_named_is_no_match_of_a_rule() -> None:
    text = shown(Routed(agent="gardener", stage="agent", score=0, confidence=100))
    assert text == "🎯 Routing as asked to: gardener\n"


def test_a_model_cannot_steer_the_terminal() -> None:
    text = shown(Ended(status="done", reason="GOAL", answer="\x1b]0;owned\x07\x1b[2Jfine [red]not markup[/red]"))
    assert "\x1b" not in text
    assert "fine [red]not markup[/red]" in text


def test_programs_get_every_entry_as_one_object_per_line() -> None:
    stream = io.StringIO()
    view = JsonView(stream)
    for entry in entries([JobRequested(prompt="zwei\nZeilen"), Ended(status="done", reason="GOAL", answer="ok")]):
        view.show(entry)
    first, last = map(json.loads, stream.getvalue().splitlines())
    assert first == {"seq": 1, "at_ms": 1000, "leg": 0, "type": "request", "prompt": "zwei\nZeilen"}
    assert (last["seq"], last["status"], last["answer"]) == (2, "done", "ok")


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("done", "GOAL", 0),
        ("failed", "ERROR", 1),
        ("failed", "NO_ROUTE", 5),
        ("dead", "ERROR", 1),
        ("cancelled", "ABORTED", 130),
    ],
)
def test_the_exit_code_tells_how_the_job_ended(status: str, reason: str, code: int) -> None:
    assert exit_code_of(status, reason) == code
