"""Graphs whose workers die, whose jobs are stopped or used up, and whose files are edited meanwhile."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.records import Delegated, ModelReplied, NodeFinished, ToolStarted
from ekiden.shared.relay.message import queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.calls.tools import OUTCOME_UNKNOWN
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.state import set_state
from tests.contract.relay_world import done
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_graphs import ByLeg, agent, edge, gave, graph
from tests.unit.workers.world import What, call, calls, said, tool_named

EVERYTHING: dict[str, Any] = {
    "name": "flow",
    "tools": ["look"],
    "graph": {
        "entry": "find",
        "nodes": [
            "find",
            {"name": "each", "agent": "each", "for_each": "files.names"},
            {"name": "look", "tool": "look", "args": {"what": "${files.names[0]}"}},
            {"name": "inner", "graph": "inner"},
            "judge",
        ],
        "edges": [
            *(edge("find", to) for to in ("each", "look", "inner")),
            *(edge(from_, "judge") for from_ in ("each", "look", "inner")),
            edge("judge", "find", "!verdict.good"),
            edge("judge", "END", default=True),
        ],
    },
}
INNER = {"name": "inner", "graph": {"entry": "x", "nodes": ["x", "y"], "edges": [edge("x", "y")]}}
AGENTS = (EVERYTHING, INNER, agent("find", "files"), agent("judge", "verdict"), *map(agent, ("each", "x", "y")))


class Everything(ByLeg):
    """Says the same in each leg, and is content in the second round."""

    def __init__(self) -> None:
        super().__init__({})

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.requests.append(request)
        match request.agent:
            case "find":
                reply = gave(files={"names": ["a", "b", "c"]})
            case "judge":
                reply = gave(verdict={"good": len(self.asked("judge")) > 1})
            case name:
                reply = said(f"{name} said")
        assert isinstance(reply, ModelReply)
        return reply


async def next_job(stores: Stores) -> str | None:
    """The job whose message is next."""
    for queue in sorted(await as_any(stores.client.smembers(keys.QUEUES))):
        if (text := await as_any(stores.client.lindex(queue, -1))) is not None:
            return str(json.loads(json.loads(text)["body"])[0][0]["job"])
    return None


def test_a_graph_whose_every_leg_loses_its_first_worker_comes_to_the_same_end() -> None:
    async def run(stores: Stores, *, dying: bool) -> tuple[Story, int]:
        model = Everything()
        relay = Relay(stores, team(*AGENTS), model, tools=[tool_named("look")])
        job = await relay.submit("look", agent="flow")
        lost: set[tuple[str, int]] = set()
        while (next_one := await next_job(stores)) is not None:
            view = await stores.jobs.job(next_one)
            if dying and view.status == "queued" and (next_one, view.seq) not in lost:
                await relay.lose(next_one, [])
                await stores.jobs.requeue(next_one, 0.0, 5)
                lost.add((next_one, (await stores.jobs.job(next_one)).seq))
            await relay.step()
        return await relay.story(job), len(model.requests)

    quiet, asked = on_server(lambda stores: run(stores, dying=False))
    disturbed, asked_again = on_server(lambda stores: run(stores, dying=True))
    assert quiet.view.status == disturbed.view.status == "done"
    assert asked == asked_again
    assert decided(quiet) == decided(disturbed)


def decided(story: Story) -> list[Any]:
    """What nodes gave and where control went, without who ran it."""
    finished = [(one.node, one.output, one.next, one.call_id) for one in story.of(NodeFinished)]
    return [finished, [(one.call_id, one.agent) for one in story.of(Delegated)], story.chain, story.end.answer]


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("mapped", [{}, {"for_each": "['a', 'b']"}])
def test_a_tool_that_must_not_run_twice_is_not_tried_again_where_its_worker_was_lost(
    mapped: dict[str, Any], idempotent: bool
) -> None:
    ran: list[str] = []
    node = {"name": "send", "tool": "send", "args": {"what": "it"}, "retry": 2, **mapped}

    async def scenario(stores: Stores) -> Story:
        flow = graph(node, edges=[]) | {"tools": ["send"]}
        send = tool_named("send", ran=ran, idempotent=idempotent)
        relay = Relay(stores, team(flow), ByLeg({}), tools=[send])
        job = await relay.submit("go", agent="flow")
        lost = f"{job}.1.1" if mapped else f"{job}.1"
        while (next_one := await next_job(stores)) != lost:
            assert next_one is not None
            await relay.step()
        reply = ModelReplied(leg=1, turn=1, message=calls(call("node", "send", what="it")).message, model="graph")
        await relay.lose(lost, [reply, ToolStarted(leg=1, call_id="node", name="send", is_known=True)])
        await stores.jobs.requeue(lost, 0.0, 5)
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    if idempotent:
        assert story.view.status == "done"
    elif mapped:
        assert story.end.output == [{"error": OUTCOME_UNKNOWN}, "send(it)"]
    else:
        said = OUTCOME_UNKNOWN.removesuffix(" before you repeat it.")
        assert f"node 'send' has failed: {said}. Then say so: " in (story.view.result or "")
    assert len(ran) == bool(mapped) + idempotent


def test_a_graph_that_is_edited_meanwhile_changes_nothing_for_a_job_that_has_begun() -> None:
    async def scenario(stores: Stores) -> Story:
        model = ByLeg({name: [said(f"{name} said")] * 2 for name in "ab"})
        before = Relay(stores, team(graph("a", "b", edges=[edge("a", "b")]), *map(agent, "ab")), model)
        job = await before.submit("go", agent="flow")
        for _ in ("route", "flow"):
            await before.step()
        after = Relay(stores, team(graph("a", edges=[]), *map(agent, "ab")), model)
        other = await after.submit("go again", agent="flow")
        await after.drain()
        assert (await after.story(other)).chain == ["flow", "a"]
        return await after.story(job)

    assert on_server(scenario).chain == ["flow", "a", "b"]


def test_a_stopped_job_stops_the_branches_of_its_graph() -> None:
    async def scenario(stores: Stores) -> None:
        flow = graph("a", "b", edges=[], entry=["a", "b"])
        relay = Relay(stores, team(flow, *map(agent, "ab")), ByLeg({}))
        job = await relay.submit("go", agent="flow")
        for _ in ("route", "flow"):
            await relay.step()
        end = done().model_copy(update={"leg": 1, "status": "cancelled", "reason": "ABORTED", "answer": None})
        assert await stores.jobs.stop(job, "user", [end], ()) == "ok"
        await relay.drain()
        assert {(await stores.jobs.job(f"{job}.{n}")).status for n in (1, 2)} == {"cancelled"}

    on_server(scenario)


@pytest.mark.parametrize("side_by_side", [False, True])
def test_the_limits_of_the_job_hold_for_all_that_a_graph_runs(side_by_side: bool) -> None:
    limits = {"limits": {"job": {"max_legs": 4}}}
    back = [edge("a", "b"), edge("b", "a", "true"), edge("b", "END", default=True)]
    both = [
        edge("s", "a"),
        edge("s", "b"),
        edge("a", "s", "true"),
        edge("b", "s", "true"),
        edge("a", "END", default=True),
    ]
    flow = graph("s", "a", "b", edges=both) if side_by_side else graph("a", "b", edges=back)

    async def scenario(stores: Stores) -> Story:
        model = ByLeg({name: [said(f"{name} said")] * 40 for name in "sab"})
        return await Relay(stores, team(flow | limits, *map(agent, "sab")), model).told("go", agent="flow")

    story = on_server(scenario)
    assert (story.view.status, story.view.reason) == ("failed", "MAX_LEGS"), story.view.result


def test_what_a_nodes_agent_notes_in_the_session_is_seen_by_the_conditions_behind_it() -> None:
    async def scenario(stores: Stores) -> Story:
        model = ByLeg(
            {
                "a": [calls(call("s1", "set_state", values={"ready": True})), said("set")],
                "b": [said("b said")],
            }
        )
        flow = graph("a", "b", edges=[edge("a", "b", "state.ready"), edge("a", "END", default=True)])
        relay = Relay(stores, team(flow, *map(agent, "ab")), model, tools=[set_state])
        return await relay.told("go", agent="flow")

    assert on_server(scenario).chain == ["flow", "a", "b"]


def test_the_first_branch_that_fails_where_all_are_needed_ends_the_job_and_stops_the_others() -> None:
    async def scenario(stores: Stores) -> Story:
        flow = graph("a", "b", "c", edges=[edge("a", "c"), edge("b", "c")], entry=["a", "b"])
        relay = Relay(stores, team(flow, *map(agent, "abc")), ByLeg({"a": [ModelError("broken")]}))
        job = await relay.submit("go", agent="flow")
        while not await stores.jobs.views([f"{job}.1"]):
            await relay.step()
        waiting = await as_any(stores.client.lrange(queue_for("b"), 0, -1))
        await stores.client.delete(queue_for("b"))  # nobody has time for it
        await relay.drain()
        assert (await stores.jobs.job(f"{job}.2")).stop == "parent"
        await as_any(stores.client.lpush(queue_for("b"), *waiting))
        await relay.drain()
        assert (await stores.jobs.job(f"{job}.2")).status == "cancelled"
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == "failed"
    assert "node 'a' has failed: broken" in (story.view.result or "")


@pytest.mark.parametrize("mapped", [{}, {"for_each": "[1]"}])
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("is_over", ["its own time", "the node's time"])
def test_a_tool_whose_time_is_over_is_tried_again_only_under_the_key_of_its_call(
    mapped: dict[str, Any], idempotent: bool, is_over: str
) -> None:
    keys_of_calls: list[str] = []
    begun = asyncio.Event()

    async def work(args: What, context: ToolContext) -> str:
        keys_of_calls.append(context.idempotency_key)
        begun.set()
        if len(keys_of_calls) == 2:
            return "sent"
        await asyncio.Event().wait()
        raise AssertionError

    own = 0.05 if is_over == "its own time" else None
    send = replace(tool_named("send", work, idempotent=idempotent), timeout_s=own)
    node = {"name": "send", "tool": "send", "args": {"what": "it"}, "retry": 2, **mapped}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(graph(node, edges=[]) | {"tools": ["send"]}), ByLeg({}), tools=[send])
        job = await relay.submit("go", agent="flow")
        if own is None:
            await stopped_in_its_tool(stores, relay, f"{job}.1.1" if mapped else f"{job}.1", begun)
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == ("done" if idempotent else "failed"), story.view.result
    assert len(keys_of_calls) == 1 + idempotent
    assert len(set(keys_of_calls)) == 1


async def stopped_in_its_tool(stores: Stores, relay: Relay, job: str, begun: asyncio.Event) -> None:
    """Let the deadline of ``job`` pass while its tool runs."""
    running = asyncio.create_task(relay.drain())
    await begun.wait()
    await as_any(stores.client.hset(keys.job(job), "cancel", "deadline"))
    relay.stop(job)
    await running


@pytest.mark.parametrize("mapped", [{}, {"for_each": "[1, 2]"}])
def test_a_call_that_is_refused_before_it_runs_is_not_tried_again(mapped: dict[str, Any]) -> None:
    node = {"name": "look", "tool": "look", "args": {"what": "${[task.prompt]}"}, "retry": 3, **mapped}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(graph(node, edges=[]) | {"tools": ["look"]}), ByLeg({}), tools=[tool_named("look")])
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        assert not await stores.jobs.views([f"{job}.2", f"{job}.1.3"])
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == "failed"
    assert "the arguments of 'look' are not valid" in (story.view.result or "")
