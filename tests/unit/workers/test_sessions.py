"""What one job of a session leaves to the next: who reads what was said, and which variables count."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.shared.errors import ToolError
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import ToolContext, tool
from tests.scenarios.relay import Listener, Relay, on_server, team, text_of
from tests.unit.workers.world import Replies, call, calls, handing_over, said

Talk = Sequence[tuple[str | None, str]]
"""Requests of one session in order, each with the agent that the user names, if any."""

ALICE = {"name": "alice", "triggers": {"keywords": ["apple"]}, "handoffs": [{"to": "bob"}]}
BOB = {"name": "bob", "triggers": {"keywords": ["banana"]}}


def read_by_the_last(talk: Talk, replies: dict[str, Any]) -> str:
    """What the agent of the last request reads."""

    async def scenario(stores: Stores) -> str:
        listener = Listener(Replies(replies))
        relay = Relay(stores, team(ALICE, BOB), listener)
        session = None
        for agent, prompt in talk:
            job = await relay.submit(prompt, agent=agent, session=session)
            await relay.drain()
            session = job.partition(".")[0]
        return text_of(listener.requests[-1].messages)

    return on_server(scenario)


ANSWERS = {"alice": [said("Alice knows."), said("again")], "bob": [said("Bob knows."), said("again")]}


@pytest.mark.parametrize(
    ("talk", "reads", "reads_not"),
    [
        ([("alice", "first"), ("bob", "second")], [], ["first", "Alice knows"]),
        ([("alice", "first"), ("bob", "second"), ("alice", "third")], ["first", "Alice knows"], ["second", "Bob"]),
        ([(None, "an apple"), ("bob", "second")], [], ["an apple", "Alice knows"]),
        ([("alice", "first"), (None, "a banana")], [], ["first", "Alice knows"]),
        ([(None, "an apple"), (None, "a banana")], ["an apple", "Alice knows"], []),
        ([("alice", "first"), (None, "an apple")], ["first", "Alice knows"], []),
    ],
    ids=[
        "named, then another",
        "each has its own",
        "routed, then another by name",
        "named, then another by route",
        "routed both times",
        "the same, by name and by route",
    ],
)
def test_an_agent_reads_what_was_said_to_it_and_what_was_said_to_whoever_it_concerns(
    talk: Talk, reads: list[str], reads_not: list[str]
) -> None:
    text = read_by_the_last(talk, ANSWERS)
    assert talk[-1][1] in text
    assert all(word in text for word in reads)
    assert not any(word in text for word in reads_not)


def test_who_got_control_by_a_handoff_has_taken_part() -> None:
    replies = {"alice": [calls(handing_over("c1", "bob"))], "bob": [said("Bob knows."), said("again")]}
    text = read_by_the_last([("alice", "first"), ("bob", "second")], replies)
    assert "first" in text
    assert "Bob knows." in text


class Nothing(BaseModel):
    """Writes a variable."""


@tool(Nothing)
def fail_late(args: Nothing, context: ToolContext) -> str:
    context.state.set("half", "done")
    raise ToolError("the other half is missing")


@tool(Nothing)
def succeed(args: Nothing, context: ToolContext) -> str:
    context.state.set("whole", context.state.get("half"))
    return "written"


def test_what_a_tool_has_written_counts_only_if_it_succeeds() -> None:
    async def scenario(stores: Stores) -> dict[str, Any]:
        replies = {"solo": [calls(call("c1", "fail_late")), calls(call("c2", "succeed")), said("done")]}
        agents = team({"name": "solo", "tools": ["fail_late", "succeed"]})
        relay = Relay(stores, agents, Replies(replies), tools=[fail_late, succeed])
        job = await relay.submit("go", agent="solo", state={"whole": "before", "kept": 1})
        await relay.drain()
        return await stores.sessions.state(job.partition(".")[0])

    assert on_server(scenario) == {"kept": 1}


def test_behind_a_graph_the_graph_has_spoken_and_not_the_agent_of_its_last_node() -> None:
    inner = {"name": "inner", "graph": {"entry": "alice", "nodes": ["alice"], "edges": []}}
    outer = {"name": "outer", "graph": {"entry": "in", "nodes": [{"name": "in", "graph": "inner"}], "edges": []}}

    async def scenario(stores: Stores) -> list[str]:
        relay = Relay(stores, team(ALICE, BOB, inner, outer), Replies({"alice": [said("Alice knows.")]}))
        job = await relay.submit("an apple", agent="outer")
        await relay.drain()
        return [one.agent for one in await stores.sessions.messages(job.partition(".")[0])]

    assert on_server(scenario) == ["", "outer"]
