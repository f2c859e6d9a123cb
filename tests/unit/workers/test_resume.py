"""A leg that is cut off anywhere goes on where it was: nothing recorded is asked or done again."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply
from ekiden.shared.records import Entry, LegStarted, ModelReplied, Record, ToolFinished, ToolStarted
from ekiden.shared.stores.opening import Stores
from ekiden.workers.calls.tools import OUTCOME_UNKNOWN
from ekiden.workers.tools.base import Tool
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named

TEAM = (
    {"name": "lead", "handoffs": ["fixer"]},
    {"name": "fixer", "handoffs": ["lead", "reviewer", "writer"]},
    {"name": "reviewer"},
    {"name": "writer"},
)
CUT_LEG = 2
FIXER: list[ModelReply] = [
    calls(call("r1", "look"), call("r2", "look"), call("w1", "write"), call("i1", "put"), text="I see"),
    calls(handing_over("t1", "nobody"), call("w2", "write")),
    calls(handing_over("t2", "lead")),  # refused by the commit: a cycle
    calls(call("w3", "write"), handing_over("t3", "reviewer"), call("r3", "look"), handing_over("t4", "writer")),
]


def model_of_the_team() -> Replies:
    lead = [calls(call("l1", "look"), text="It is cart.py."), calls(handing_over("l2", "fixer"))]
    return Replies({"lead": lead, "fixer": FIXER, "reviewer": [said("good")], "writer": [said("never")]})


def tools(ran: list[str]) -> list[Tool]:
    return [
        tool_named("look", read_only=True, ran=ran),
        tool_named("put", idempotent=True, ran=ran),
        tool_named("write", ran=ran),
    ]


async def begun(stores: Stores, model: Replies, ran: list[str]) -> tuple[Relay, str]:
    """A job whose next message is that of the leg to cut."""
    relay = Relay(stores, team(*TEAM), model, tools=tools(ran))
    job = await relay.submit("repair it", agent="lead")
    for _ in range(CUT_LEG):
        assert await relay.step() == "ok"
    model.requests.clear()
    ran.clear()
    return relay, job


async def recorded(stores: Stores) -> tuple[Story, list[Entry], Replies]:
    """The whole story, uncut, and the leg's entries between its start, which the claim records, and its handoff."""
    model = model_of_the_team()
    relay, job = await begun(stores, model, [])
    await relay.drain()
    entries = [entry for entry in await stores.jobs.journal(job) if entry.record.leg == CUT_LEG]
    assert isinstance(entries[0].record, LegStarted)
    return await relay.story(job), entries[1:-1], model


async def resumed(stores: Stores, cut: Sequence[Record]) -> tuple[Story, list[str], Replies]:
    """The story of a job whose leg was cut off after the records ``cut``; which tools ran after that."""
    ran: list[str] = []
    model = model_of_the_team()
    relay, job = await begun(stores, model, ran)
    lost = await claimed(stores, job, owner="lost", lease_s=0.0)
    for number, record in enumerate(cut):
        token, is_progress = f"{lost.lease.fence}.{number}", isinstance(record, ModelReplied | ToolFinished)
        await stores.jobs.append(lost.lease, token, [record], used_ms=1, is_progress=is_progress)
    assert await relay.drain() == ["ok", "ok"]
    return await relay.story(job), ran, model


@cache
def uncut_story() -> tuple[Story, list[Entry], Replies]:
    """What each of the cut stories is compared with."""
    return on_server(recorded)


def essence(records: Sequence[Record]) -> list[Any]:
    """What must be the same however often the leg was cut off: no attempts, times and fresh ids."""
    changing = {"duration_ms", "timestamp", "handoff_id", "correlation_id", "upto"}
    kept = [record for record in records if not isinstance(record, LegStarted | ToolStarted)]
    results = {r.result.call_id: r for r in kept if isinstance(r, ToolFinished)}
    in_order = iter([results[call_id] for call_id in sorted(results)])  # side by side, any may end first
    sorted_kept = [next(in_order) if isinstance(record, ToolFinished) else record for record in kept]
    return [_without(record.model_dump(mode="json"), changing) for record in sorted_kept]


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, names) for key, item in value.items() if key not in names}
    return [_without(item, names) for item in value] if isinstance(value, list) else value


def as_read(model: Replies, agent: str) -> list[str]:
    """What the agent's model was asked, without the ids of fences."""
    asked = [[message.model_dump_json() for message in request.messages] for request in model.asked(agent)]
    return [re.sub(r"fence [0-9a-f]{16}", "fence ID", "\n".join(messages)) for messages in asked]


def unknown_calls(cut: Sequence[Record]) -> set[str]:
    """The calls of writing tools that were started in ``cut`` and not finished."""
    started = {record.call_id for record in cut if isinstance(record, ToolStarted) and record.name == "write"}
    return started - finished_calls(cut)


def finished_calls(cut: Sequence[Record]) -> set[str]:
    return {record.result.call_id for record in cut if isinstance(record, ToolFinished)}


def test_the_story_that_is_cut_has_everything_in_it() -> None:
    story, entries, _ = uncut_story()
    assert story.chain == ["lead", "fixer", "reviewer"]
    assert story.codes == ["UNKNOWN_AGENT", "CIRCULAR_HANDOFF"]
    assert story.results.keys() == {"l1", "r1", "r2", "r3", "w1", "w2", "w3", "i1", "t4"}
    assert len(entries) == 21


@pytest.mark.parametrize("length", range(22))
def test_a_leg_that_is_cut_off_after_any_record_ends_as_if_it_had_not_been(length: int) -> None:
    whole, entries, uncut = uncut_story()
    cut = [entry.record for entry in entries][:length]
    story, ran, model = on_server(lambda stores: resumed(stores, cut))
    turns = sum(isinstance(record, ModelReplied) for record in cut)
    assert len(model.asked("fixer")) == len(FIXER) - turns
    assert not set(ran) & (finished_calls(cut) | unknown_calls(cut))
    assert len(ran) == len(set(ran))
    unknown = {call_id: story.results[call_id] for call_id in unknown_calls(cut)}
    assert set(unknown.values()) <= {OUTCOME_UNKNOWN}
    if not unknown:
        assert essence(story.records) == essence(whole.records)
        assert as_read(model, "fixer") == as_read(uncut, "fixer")[turns:]
        assert as_read(model, "reviewer") == as_read(uncut, "reviewer")
    assert story.view.result == "good"


def after(whole: Sequence[Entry], call_id: str) -> list[Record]:
    """The records up to the start of the tool call."""
    at = next(i for i, entry in enumerate(whole)
              if isinstance(entry.record, ToolStarted) and entry.record.call_id == call_id)  # fmt: skip
    return [entry.record for entry in whole[: at + 1]]


@pytest.mark.parametrize(("call_id", "runs_again"), [("r2", True), ("i1", True), ("w1", False)])
def test_a_tool_that_was_started_runs_again_only_where_that_does_no_harm(call_id: str, runs_again: bool) -> None:
    _, entries, _ = uncut_story()
    story, ran, _ = on_server(lambda stores: resumed(stores, after(entries, call_id)))
    assert (call_id in ran) is runs_again
    assert (story.results[call_id] == OUTCOME_UNKNOWN) is not runs_again
