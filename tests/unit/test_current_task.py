"""The task fields of a session's state."""

import pytest

from ekiden.shared.current_task import last_action_of, task_of
from ekiden.shared.handoff import Frame, first_context
from ekiden.shared.messages import Message, TextPart, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Nudged,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)

ROUTE = first_context("abcdefghijklmnop.1").advance("lead", "routed", is_route=True)
CALL = Frame(agent="lead", leg=1, call_id="c", from_agent="user", chain_length=2)
CALLED = ROUTE.advance("helper", "help", call=CALL)
REPLY = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(TextPart(text="x"),)))


@pytest.mark.parametrize(
    ("record", "action"),
    [
        (HandedOff(context=ROUTE), "route: lead"),
        (REPLY, "llm_response"),
        (ToolStarted(leg=1, call_id="c", name="bash"), "tool_call: bash"),
        (ToolFinished(leg=1, result=ToolResult(call_id="c", name="读文件", content="")), "tool_call: 读文件"),
        (Delegated(leg=1, call_id="c", child="x", agent="scout"), "delegation: scout"),
        (HandedOff(leg=1, context=CALLED, call_id="c"), "handoff: helper"),
        (HandedOff(leg=2, context=CALLED.come_back("done", is_error=False, upto=3)), "return: lead"),
    ],
)
def test_the_last_action_is_the_newest_thing_that_was_done(record: Record, action: str) -> None:
    before: list[Record] = [JobRequested(prompt="x"), ToolStarted(leg=0, call_id="c", name="before")]
    after: list[Record] = [
        LegStarted(leg=1, agent="lead", attempt=1, worker="w"),
        Refused(leg=1, name="transfer_to_x", code="X", message="no"),
        Nudged(leg=1, text="call it"),
        Ended(leg=1, status="done", reason="GOAL"),
    ]
    assert last_action_of(reversed([*before, record, *after])) == action


def test_a_job_that_was_only_asked_for_has_no_action() -> None:
    assert last_action_of([JobRequested(prompt="x")]) == ""
    assert last_action_of([]) == ""


@pytest.mark.parametrize(
    ("status", "action", "word"),
    [
        ("waiting", "", "pending"),
        ("queued", "", "pending"),
        ("queued", "handoff: b", "in_progress"),
        ("running", "", "in_progress"),
        ("suspended", "delegation: b", "waiting"),
        ("done", "llm_response", "completed"),
        ("failed", "llm_response", "failed"),
        ("dead", "llm_response", "failed"),
        ("cancelled", "llm_response", "cancelled"),
    ],
)
def test_every_status_has_its_word(status: str, action: str, word: str) -> None:
    assert task_of("repair it", status, "lead", action) == {
        "current_task": "repair it",
        "task_status": word,
        "current_agent": "lead",
        "last_action": action,
    }


def test_every_status_that_a_job_can_have_is_known() -> None:
    from typing import get_args

    from ekiden.shared.stores.views import JobStatus

    for status in get_args(JobStatus):
        assert task_of("", status, "", "")["task_status"]
