"""How calls stand, as the records tell; and where it is shown."""

import io
import json

import pytest

from ekiden.dispatcher.cli.views.json_lines import JsonView, event_type
from ekiden.dispatcher.journal.call_states import CallState, CallStates, state_of
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)

A, B = ToolCall(id="a", name="bash"), ToolCall(id="b", name="ls")
REPLY = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(A, B)))
TAKEN = LegStarted(leg=1, agent="x", attempt=2, worker="w")
ASKED = LegSuspended(leg=1, cause="approval", delay_s=0)


def started(call: ToolCall) -> ToolStarted:
    return ToolStarted(leg=1, call_id=call.id, name=call.name)


def finished(call: ToolCall, error: str = "", *, forgotten: bool = False) -> ToolFinished:
    result = ToolResult(call_id=call.id, name=call.name, content=error or "ok", is_error=bool(error))
    return ToolFinished(leg=1, result=result, forgotten=forgotten)


def ended(status: str) -> Ended:
    return Ended.model_validate({"leg": 1, "status": status, "reason": "r"})


DENIED = finished(A, "Tool execution denied by user: bash (no)")


@pytest.mark.parametrize(
    ("records", "of_a", "of_b"),
    [
        ([], "validating", "validating"),
        ([started(A)], "executing", "scheduled"),
        ([started(B), finished(B)], "scheduled", "success"),
        ([started(B), finished(B), ASKED], "awaiting_approval", "success"),
        ([ASKED], "awaiting_approval", "awaiting_approval"),
        ([ASKED, TAKEN], "scheduled", "scheduled"),
        ([ASKED, TAKEN, started(A)], "executing", "scheduled"),
        ([ASKED, TAKEN, DENIED], "cancelled", "scheduled"),
        ([started(A), TAKEN], "scheduled", "scheduled"),
        ([finished(A, "the arguments are not valid")], "error", "scheduled"),
        ([finished(A, "one transfer per turn", forgotten=True)], "cancelled", "scheduled"),
        (
            [started(A), finished(A, "cancelled"), finished(B, "cancelled"), ended("cancelled")],
            "cancelled",
            "cancelled",
        ),
        ([started(A), finished(A), finished(B, "why"), ended("cancelled")], "success", "cancelled"),
        ([started(A), finished(A, "why"), ended("failed")], "error", "cancelled"),
        ([Delegated(leg=1, call_id="a", child="c", agent="x")], "executing", "scheduled"),
        ([Refused(leg=1, call_id="a", name="t", code="c", message="m")], "error", "validating"),
        ([LegSuspended(leg=1, cause="retry", delay_s=1)], "validating", "validating"),
    ],
)
def test_a_calls_state_follows_from_the_records(records: list[Record], of_a: CallState, of_b: CallState) -> None:
    journal = [REPLY, *records]
    assert (state_of(A, journal), state_of(B, journal)) == (of_a, of_b)
    assert [view.state for view in CallStates(journal).last_turn] == [of_a, of_b]


def test_a_call_that_nobody_made_has_no_state() -> None:
    assert state_of(ToolCall(id="z", name="ls"), [REPLY]) is None


def test_each_entry_tells_which_calls_stand_differently_now() -> None:
    states = CallStates()
    told = [states.note(record) for record in (REPLY, started(A), finished(A), started(B), TAKEN)]
    assert told == [
        {"a": "validating", "b": "validating"},
        {"a": "executing", "b": "scheduled"},
        {"a": "success"},
        {"b": "executing"},
        {"b": "scheduled"},
    ]


def test_events_carry_them() -> None:
    out = io.StringIO()
    view = JsonView("j" * 16 + ".1", out)
    records: list[Record] = [REPLY, started(A), finished(A)]
    for seq, record in enumerate(records, 1):
        view.show(Entry(seq=seq, at_ms=1, record=record))
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["states"] for event in events] == [
        {"a": "validating", "b": "validating"},
        {"a": "executing", "b": "scheduled"},
        {"a": "success"},
    ]
    for event in events:
        event_type().validate_python(event)
