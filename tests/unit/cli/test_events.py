"""``--json``: what programs read, and the schema that says so."""

import io
import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from ekiden.dispatcher.cli.views.json_lines import JsonView, event_schema, event_type
from ekiden.shared.handoff import first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    FellBack,
    Forked,
    Guarded,
    GuardJudged,
    HandedOff,
    Hooked,
    JobRequested,
    LastTurn,
    LegStarted,
    LegSuspended,
    LimitNear,
    LoopDetected,
    LoopJudged,
    ModelReplied,
    NodeFinished,
    Noticed,
    Nudged,
    Recalled,
    Record,
    Refused,
    Repairing,
    Retried,
    Routed,
    Served,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolPaused,
    ToolStarted,
    Unrouted,
)
from ekiden.shared.stores.views import LivePiece

ONE_OF_EACH: list[Record] = [
    JobRequested(prompt="zwei\nZeilen"),
    LegStarted(agent="router", attempt=1, worker="w"),
    Routed(agent="a", stage="rule", score=1, confidence=100),
    ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(TextPart(text="x"), ToolCall(id="c", name="t")))),
    ToolStarted(leg=1, call_id="c", name="t"),
    ToolFinished(leg=1, result=ToolResult(call_id="c", name="t", content="")),
    HandedOff(leg=1, context=first_context("abcdefghijklmnop.1").advance("b", "so"), call_id="c"),
    Refused(leg=1, call_id="c", name="t", code="X", message="no"),
    Recalled(leg=1, agent="a", notes=("a note",), whose="the team's", untrusted="what web_fetch returns"),
    Served(leg=1, agent="a", digest="d"),
    NodeFinished(leg=1, graph="g", run=1, node="n", channel="n", output={"x": [1]}, next=("END",), call_id="n#1"),
    Delegated(leg=1, call_id="c", child="abcdefghijklmnop.1.1", agent="scout", objective="look"),
    ApprovalAsked(leg=1, id="j:1", call_id="c", tool="t", digest="d", agent="a", definition="f", timeout_s=60),
    ToolPaused(leg=1, call_id="c", name="t", state="s"),
    Decided(leg=1, id="j:1", call_id="c", tool="t", digest="d", status="approved", by="ada"),
    Nudged(leg=1, text="call it"),
    LoopDetected(leg=1, kind="calls", text="You go round in circles"),
    LimitNear(leg=1, limit="max_turns", text="Come to an end."),
    LoopJudged(leg=1, turn=30, confidence=0.95, text="It asks the same again."),
    FellBack(leg=1, model="a", why="quota", text="none is left", to="b"),
    LastTurn(leg=1, reason="MAX_TURNS", error="its limit", text="your last turn"),
    Hooked(leg=1, turn=1, at="BeforeTool", by=("guard",), call_id="c", changed=("args",), value={"x": 1}),
    Guarded(
        leg=1, at="output", rail="valid-json", policy="reject", status="failed", errors=("the whole: no JSON",), turn=1
    ),
    Repairing(leg=1, at="output", rail="valid-json", turn=1, errors=("no JSON",), text="{}"),
    GuardJudged(leg=1, at="output", rail="kind", turn=1, digest="d", confidence=0.9, text="It scolds."),
    StateChanged(leg=1, changes={"gone": None, "x": [1, {"y": None}]}, by="set_state"),
    Summarised(leg=1, text="so far"),
    Unrouted(why="nobody"),
    Noticed(text="look"),
    LegSuspended(cause="retry", delay_s=1),
    Retried(),
    Forked(leg=1, job="abcdefghijklmnop.1", seq=7, replies=2, prompt="and in German"),
    Ended(status="done", reason="GOAL", answer="ok"),
]


def lines_of(*, records: list[Record], pieces: list[LivePiece], notes: list[str]) -> list[dict[str, Any]]:
    stream = io.StringIO()
    view = JsonView("abcdefghijklmnop.1", stream)
    for number, record in enumerate(records, 1):
        view.show(Entry(seq=number, at_ms=1_000 * number, record=record))
    for piece in pieces:
        view.live(piece)
    for note in notes:
        view.note(note)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_no_kind_of_record_is_left_out_here() -> None:
    assert {type(record) for record in ONE_OF_EACH} == set(get_args(get_args(Record)[0]))


def test_every_event_is_one_object_on_a_line_and_fits_the_schema() -> None:
    piece = LivePiece(leg=1, fence="2", turn=1, text="piece", thought=True)
    lines = lines_of(records=ONE_OF_EACH, pieces=[piece], notes=["it waits"])
    for line in lines:
        event = event_type().validate_python(line)
        assert event.model_dump(mode="json", exclude_none=True).items() >= line.items()
    assert len(lines) == len(ONE_OF_EACH) + 2
    assert lines[0] == {
        "event": "record", "job": "abcdefghijklmnop.1", "seq": 1, "at_ms": 1000, "run_path": ["user"], "leg": 0,
        "type": "request", "prompt": "zwei\nZeilen", "state": {}, "bounds": [],
    }  # fmt: skip
    assert lines[-2:] == [
        {"event": "live", "job": "abcdefghijklmnop.1"} | piece.model_dump(mode="json"),
        {"event": "note", "text": "it waits"},
    ]


@pytest.mark.parametrize(
    "line",
    [
        {"event": "record", "type": "ended", "seq": 1, "at_ms": 1},
        {"event": "record", "type": "notice", "text": "no place"},
        {"event": "live", "text": "no turn"},
        {"event": "other", "text": "x"},
    ],
)
def test_the_schema_refuses_what_is_no_event(line: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        event_type().validate_python(line)


def test_the_schema_describes_every_event_as_it_is_written() -> None:
    definitions = event_schema()["$defs"]
    for record in ONE_OF_EACH:
        fields = definitions[f"{type(record).__name__}Event"]
        place = {"job", "seq", "at_ms", "run_path"}
        assert fields["properties"].keys() >= {"event", "type", *place, *type(record).model_fields}
        assert place <= set(fields["required"])
        assert "description" in fields
    assert definitions.keys() >= {"LiveEvent", "NoteEvent"}
