"""Which replies wait for the leg's commit, and which are in the journal before anything follows from them."""

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.shared.records import Record
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

TO_OTHER = calls(handing_over("t1", "other"))
DONE = calls(call("d1", "complete_task", report={"how": "well"}))
REPORT = {"name": "report", "schema": {"type": "object"}, "state": {"how": "how"}}


def appended(replies: Sequence[Said], **front: Any) -> tuple[Story, list[list[str]]]:
    """The story of a job whose first agent, ``solo``, gives these replies, and what each append of its leg wrote."""
    wrote: list[list[str]] = []
    model = Replies({"solo": replies, "other": [said("bye")], "third": [said("never")]})

    async def scenario(stores: Stores) -> Story:
        append = stores.jobs.append

        async def noting(lease: Any, token: str, records: Sequence[Record], **options: Any) -> Any:
            wrote.append([record.type for record in records])
            return await append(lease, token, records, **options)

        stores.jobs.append = noting  # type: ignore[method-assign]
        catalog = team({"name": "solo", **front}, {"name": "other"}, {"name": "third"})
        return await Relay(stores, catalog, model, tools=[tool_named("write")]).told("do it", agent="solo")

    return on_server(scenario), wrote


@pytest.mark.parametrize(
    ("reply", "front", "result"),
    [
        (said("42"), {}, "42"),
        (said("42"), {"handoffs": [{"to": "other", "when": "auto"}]}, "bye"),
        (DONE, {"output": REPORT}, '{"how": "well"}'),
        (TO_OTHER, {"handoffs": ["other"]}, "bye"),
        (calls(call("t1", "handoff_to_other", reason="go on")), {"handoffs": ["other"]}, "bye"),  # which is noted
    ],
)
def test_a_reply_that_ends_its_leg_is_written_by_the_commit(reply: Said, front: dict[str, Any], result: str) -> None:
    story, wrote = appended([reply], **front)
    assert (story.view.status, story.view.result) == ("done", result)
    assert wrote == []


def test_half_an_answer_is_written_by_the_commit_that_fails_the_job() -> None:
    story, wrote = appended([said("I would", finish="max_tokens")])
    assert (story.view.status, wrote) == ("failed", [])
    assert [record.type for record in story.records][-2:] == ["model_reply", "ended"]


WRITE = ["model_reply"], ["tool_started"], ["tool_result"]


@pytest.mark.parametrize(
    ("replies", "front", "expected"),
    [
        ([calls(call("c1", "write")), said("42")], {}, [*WRITE]),
        ([calls(call("c1", "write"), handing_over("t1", "other"))], {"handoffs": ["other"]}, [*WRITE]),
        ([calls(call("c1", "no_such_tool")), said("42")], {}, [["model_reply"], ["tool_result"]]),
        (
            [calls(handing_over("t1", "third")), said("42")],
            {"handoffs": ["other"]},
            [["model_reply", "handoff_refused"]],
        ),
        (
            [calls(handing_over("t1", "other"), handing_over("t2", "third"))],
            {"handoffs": ["other", "third"]},
            [["model_reply", "tool_result"]],
        ),
        ([said("42"), DONE], {"output": REPORT, "complete_task": True}, [["model_reply", "nudged"]]),
        (
            [calls(call("d0", "complete_task", report=7)), DONE],
            {"output": REPORT},
            [["model_reply", "tool_result"]],
        ),
    ],
)
def test_what_anything_follows_from_is_in_the_journal_before_it(
    replies: Sequence[Said], front: dict[str, Any], expected: list[list[str]]
) -> None:
    story, wrote = appended(replies, **front)
    assert (story.view.status, wrote) == ("done", expected)


def test_what_a_held_reply_has_used_stops_the_turn_behind_its_nudge() -> None:
    front = {"complete_task": True, "limits": {"max_tokens": 50, "grace_seconds": 0}}
    story, wrote = appended([said("42", tokens=60), said("never")], **front)
    assert (story.view.status, story.view.reason, story.view.spent.tokens) == ("failed", "MAX_TOKENS", 60)
    assert wrote == [["model_reply", "nudged"]]
