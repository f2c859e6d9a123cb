"""What was asked and decided, wherever a job is shown: live, as a chain, as a waterfall, as events."""

import io

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.chain import chain_json, show_chain
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.cli.views.waterfall import UNICODE, waterfall
from ekiden.dispatcher.journal.exports.events import trace_events
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.shared.handoff import first_context
from ekiden.shared.messages import Message, ToolCall
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
)

JOB = "abcdefghijklmnop.1"
CALL = ToolCall(id="c", name="bash", args={"command": "make"})
ASKED: list[Record] = [
    JobRequested(prompt="do it"),
    LegStarted(agent="router", attempt=1, worker="w"),
    HandedOff(context=first_context(JOB).advance("debugger", "routed")),
    LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
    ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(CALL,))),
    ApprovalAsked(
        leg=1, id=f"{JOB}:1", call_id="c", tool="bash", digest="d", agent="debugger", definition="f", timeout_s=60
    ),
    LegSuspended(leg=1, cause="approval", delay_s=0),
]
DENIED = Decided(
    leg=1, id=f"{JOB}:1", call_id="c", tool="bash", digest="d", status="denied", by="ada", is_claimed=True, why="no"
)
ON: Record = LegStarted(leg=1, agent="debugger", attempt=2, worker="w")


def entries(*more: Record) -> list[Entry]:
    return [Entry(seq=n, at_ms=1_000 * n, record=record) for n, record in enumerate([*ASKED, *more], 1)]


def story(*more: Record) -> Story:
    return story_of(JOB, entries(*more), 20_000)


def shown(*more: Record) -> str:
    stream = io.StringIO()
    view = TerminalView(JOB, Output(stream))
    for entry in entries(*more):
        view.show(entry)
    return stream.getvalue()


def test_a_follower_shows_what_waits_and_what_was_decided_and_by_whom() -> None:
    text = shown(DENIED, ON)
    assert f"~ debugger waits for a person: bash (approval {JOB}:1): `ekiden approvals approve {JOB}:1`" in text
    assert "@ bash denied by ada (by their own word): no\n" in text
    assert "waits 0 s" not in text


def test_a_story_has_a_step_from_the_question_to_the_answer_and_the_leg_was_ready_then() -> None:
    (step,) = [one for one in story().steps if one.kind == "approval"]
    assert (step.start_ms, step.end_ms, step.detail) == (6_000, None, "waits for a person")
    assert story().status == "suspended"
    told = story(DENIED, ON)
    (step,) = [one for one in told.steps if one.kind == "approval"]
    assert (step.start_ms, step.end_ms, step.is_error, step.call) == (6_000, 8_000, True, CALL)
    assert step.detail == "denied by ada (by their own word): no"
    assert told.legs[-1].attempts[-1].ready_ms == 8_000, "it waited for a person until then, and for a worker since"


def test_what_nobody_answers_ends_with_the_job() -> None:
    told = story(Ended(leg=1, status="cancelled", reason="ABORTED"))
    (step,) = [one for one in told.steps if one.kind == "approval"]
    assert (step.end_ms, step.record) == (8_000, None)
    assert chain_json(told)["legs"][0]["approvals"][0]["status"] == "void"


def test_a_chain_shows_it_below_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    (waits,) = chain_json(story())["legs"][0]["approvals"]
    assert waits == {"tool": "bash", "call_id": "c", "asked_ms": 6_000, "status": "waiting"}
    (denied,) = chain_json(story(DENIED))["legs"][0]["approvals"]
    assert (denied["status"], denied["by"], denied["why"], denied["decided_ms"]) == ("denied", "ada", "no", 8_000)
    show_chain(story(DENIED))
    assert "👤 bash: denied by ada (by their own word): no (2.0 s)" in capsys.readouterr().out


def test_a_waterfall_shows_how_long_a_person_took() -> None:
    lines = [line.text for line in waterfall(story(DENIED, ON), 120, UNICODE)]
    assert "1 approval" in lines[0]
    (line,) = [line for line in lines if "bash: denied by ada" in line]
    assert "2.0 s" in line


def test_an_export_has_the_sources_event() -> None:
    events = [
        event for event in trace_events(story(DENIED), content=True) if event["event_type"] == "tool_confirmation"
    ]
    assert [(one["timestamp"], one["duration_ms"]) for one in events] == [(6_000, 2_000)]
    assert events[0]["details"] == {
        "tool": "bash",
        "approved": False,
        "args": {"command": "make"},
        "decision": "denied by ada (by their own word): no",
    }
    (waits,) = [one for one in trace_events(story(), content=False) if one["event_type"] == "tool_confirmation"]
    assert waits["details"] == {"tool": "bash", "approved": None}
