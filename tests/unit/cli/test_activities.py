"""What goes on in delegated jobs reaches whoever follows the job above them, while it goes on."""

import asyncio
import io
import json
from typing import Any

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.json_lines import JsonView, event_type
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.activities import Activities, Activity
from ekiden.dispatcher.journal.listening import activities, pieces
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    JobRequested,
    LegStarted,
    ModelReplied,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import LivePiece
from tests.contract.relay_world import claimed, done, moved, submitted
from tests.contract.test_children import children_of, suspended_on
from tests.unit.cli.test_follower import impatient, piece, run

__all__ = ["impatient"]  # a fixture

CHILD = "abcdefghijklmnop.1.1"
GREP = ToolCall(id="c1", name="grep", args={"pattern": "price"})
THOUGHTS = "**Finding callers**\nI look for them.\n\n**Reading cart.py**\nNext."
TURN: list[Record] = [
    LegStarted(leg=1, agent="scout", attempt=1, worker="w"),
    ModelReplied(
        leg=1,
        turn=1,
        message=Message(role="model", parts=(TextPart(text=THOUGHTS, thought=True), GREP)),
    ),
    ToolStarted(leg=1, call_id="c1", name="grep"),
    ToolFinished(leg=1, result=ToolResult(call_id="c1", name="grep", content="cart.py:23")),
]


def thought(text: str, **changes: Any) -> LivePiece:
    fields = {"leg": 1, "fence": "1.w", "turn": 1, "text": text, "thought": True, **changes}
    return LivePiece(**fields)


def told(found: list[Activity]) -> list[tuple[str, str]]:
    """Type of each, and what it is about."""
    return [(one.type, str(one.data.get("text") or one.data.get("name") or one.data["context"])) for one in found]


def noted(read: Activities, *records: Record) -> list[Activity]:
    return [one for seq, record in enumerate(records, 1) for one in read.note(Entry(seq, seq, record))]


def test_a_turn_tells_its_subjects_then_its_calls_from_their_start() -> None:
    found = noted(Activities(CHILD), *TURN)
    subjects = [("THOUGHT_CHUNK", "Finding callers"), ("THOUGHT_CHUNK", "Reading cart.py")]
    assert told(found) == [*subjects, ("TOOL_CALL_START", "grep"), ("TOOL_CALL_END", "grep")]
    assert found[2].data == {"name": "grep", "args": {"pattern": "price"}, "id": "c1"}
    assert found[3].data == {"name": "grep", "output": "cart.py:23", "id": "c1"}
    assert {(one.agent, one.job) for one in found} == {("scout", CHILD)}


def test_a_subject_that_came_live_is_told_once_and_again_only_by_another_attempt() -> None:
    read = Activities(CHILD)
    noted(read, TURN[0])
    cut = [thought("**Finding "), thought("callers**\nI look"), thought("so", thought=False), thought(" on")]
    assert told([one for part in cut for one in read.hear(part)]) == [("THOUGHT_CHUNK", "Finding callers")]
    assert told(read.hear(thought("**Anew**", restart=True))) == [("THOUGHT_CHUNK", "Anew")]
    assert told(read.hear(thought("**Finding callers**", fence="2.w"))) == [("THOUGHT_CHUNK", "Finding callers")]
    assert told(noted(read, TURN[1])) == [("THOUGHT_CHUNK", "Reading cart.py")]
    assert read.hear(thought("output", thought=False, call="c1")) == []


@pytest.mark.parametrize(
    ("record", "context"),
    [
        (ToolFinished(leg=1, result=ToolResult(call_id="c1", name="grep", content="no", is_error=True)), "tool_call"),
        (Refused(leg=1, call_id="c1", name="grep", code="X", message="no"), "tool_call"),
        (Ended(leg=1, status="failed", reason="ERROR_NO_COMPLETE_TASK_CALL", error="no"), "protocol_violation"),
        (Ended(leg=1, status="failed", reason="TIMEOUT", error="no"), "timeout"),
    ],
)
def test_what_goes_wrong_is_an_error_with_its_context(record: Record, context: str) -> None:
    error = noted(Activities(CHILD), *TURN[:3], record)[-1]
    assert (error.type, error.data["error"], error.data["context"]) == ("ERROR", "no", context)


def test_programs_read_them_as_lines_of_their_own_beside_the_records() -> None:
    stream = io.StringIO()
    view = JsonView("abcdefghijklmnop.1", stream).below(CHILD)
    for seq, record in enumerate(TURN, 1):
        view.show(Entry(seq, seq, record))
    view.live(thought("**More**", turn=2))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    for line in lines:
        event_type().validate_python(line)
    assert [line["type"] for line in lines if line["event"] == "activity"] == [
        "THOUGHT_CHUNK", "THOUGHT_CHUNK", "TOOL_CALL_START", "TOOL_CALL_END", "THOUGHT_CHUNK",
    ]  # fmt: skip
    assert [line["job"] for line in lines if line["event"] == "live"] == [CHILD]


def test_people_see_what_a_child_thinks_about_and_does_below_its_parent() -> None:
    stream = io.StringIO()
    view = TerminalView("abcdefghijklmnop.1", Output(stream)).below(CHILD)
    view.show(Entry(1, 1, JobRequested(prompt="look", agent="scout")))
    view.show(Entry(2, 2, TURN[0]))
    view.live(thought("**Finding callers**"))
    assert view.activity == "scout thinks: Finding callers"
    for seq, record in enumerate(TURN[1:], 3):
        view.show(Entry(seq, seq, record))
    lines = [line.strip().split(" ", 1)[1] for line in stream.getvalue().splitlines()[1:]]
    thoughts = ["scout thinks: Finding callers", "scout thinks: Reading cart.py"]
    assert lines == [*thoughts, "grep price (0 ms)"]


def test_a_program_reads_an_answer_that_is_being_written_from_its_beginning(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Any) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        await stores.live.append(leg.lease.job, [piece("It is ", leg), piece("the cart", leg)])
        read = pieces(client, leg.lease.job)
        async with asyncio.timeout(60):
            assert [(await anext(read)).text for _ in range(2)] == ["It is ", "the cart"]
            anew = piece("It was ", leg).model_copy(update={"restart": True})
            await stores.live.append(leg.lease.job, [anew])
            assert (await anext(read)).restart
            await stores.jobs.finish(leg.lease, "end", [done()], [])
            assert [one async for one in read] == []

    run(valkey_url, scenario)


def test_a_program_hears_of_them_while_the_child_runs_and_a_late_one_hears_all(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Any) -> None:
        parent = await moved(stores, await submitted(stores), "lead")
        job = parent.lease.job
        early = activities(client, job)
        first = asyncio.ensure_future(anext(early))
        children = children_of(parent, 1)
        call = Delegated(leg=1, call_id="d", child=children[0].child.job, agent="scout", objective="look")
        await stores.jobs.append(parent.lease, "d", [call], used_ms=0, is_progress=True)
        await suspended_on(stores, parent, children)
        child = await claimed(stores, f"{job}.1")
        live = piece("**Finding callers**", child).model_copy(update={"thought": True})
        await stores.live.append(child.lease.job, [live])
        async with asyncio.timeout(60):
            assert told([await first]) == [("THOUGHT_CHUNK", "Finding callers")]
            await stores.jobs.append(child.lease, "t", TURN[1:], used_ms=0, is_progress=True)
            heard = [await anext(early) for _ in range(3)]
            assert told(heard)[1:] == [("TOOL_CALL_START", "grep"), ("TOOL_CALL_END", "grep")]
            await stores.jobs.finish(child.lease, "f", [done()], [])
            again = await claimed(stores, job)
            await stores.jobs.finish(again.lease, "f", [done()], [])
            assert [one async for one in early] == []
            assert len([one async for one in activities(client, job)]) == 4

    run(valkey_url, scenario)
