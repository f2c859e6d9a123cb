"""Which nodes of a graph begin once more: those that failed, and of tools none that may have done what it was to do."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import StopFlag
from ekiden.shared.hooks.intervening import Intervening
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.ids import session_of
from ekiden.shared.messages import ToolResult
from ekiden.shared.records import ModelReplied, NodeFinished, Record, ToolFinished, ToolStarted
from ekiden.shared.relay.sweeper import end_overdue, sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.tools.base import Tool, ToolContext
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_graph_guardrails import CLEAN, SECRET
from tests.unit.workers.test_graphs import ByLeg, agent, edge, graph
from tests.unit.workers.test_graphs_interrupted import next_job
from tests.unit.workers.test_graphs_nested import Saying as Model
from tests.unit.workers.test_graphs_nested import failing, family
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import What, call, calls, said, tool_named

MAPPED = pytest.mark.parametrize("mapped", [{}, {"for_each": "['a', 'b']"}], ids=["a node", "items"])
SEND = {"name": "send", "tool": "send", "args": {"what": "it"}, "retry": 2}
REJECTING = {"guardrails": [CLEAN | {"on": "tool_output", "policy": "reject"}]}


def sending(ran: list[str], gives: Callable[[], Awaitable[str]] | None = None, **how: Any) -> Tool:
    """A tool that notes the keys of its calls."""

    async def send(args: What, context: ToolContext) -> str:
        ran.append(context.idempotency_key)
        return await gives() if gives else SECRET

    return tool_named("send", send, **how)


def ends_of(stores: Stores, node: dict[str, Any], *tools: Tool, **more: Any) -> Relay:
    beside = more.pop("beside", {})
    return Relay(stores, team(graph(node, edges=[]) | {"tools": ["send"]} | beside), ByLeg({}), tools=tools, **more)


def broken(event: Any) -> HookReply:
    raise ZeroDivisionError


@MAPPED
@pytest.mark.parametrize(
    ("beside", "hook"),
    [
        (REJECTING, None),
        ({}, Saying("AfterTool", HookReply(block="no"))),
        ({}, Saying("AfterTool", broken, required=True)),
    ],
    ids=["by a guardrail", "by a hook", "by a hook that is broken"],
)
def test_a_tool_whose_result_is_withheld_has_done_what_it_was_to_do_and_does_it_once(
    mapped: dict[str, Any], beside: dict[str, Any], hook: Intervening | None
) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        hooks = [hook] if hook else []
        return await ends_of(stores, SEND | mapped, sending(ran), beside=beside, hooks=hooks).told("go", agent="flow")

    assert on_server(scenario).view.status == "failed"
    assert len(ran) == (2 if mapped else 1), "once for each"


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_nobody_knows_of_a_tool_is_no_failure_where_a_hook_withholds_that(idempotent: bool) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        send = replace(sending(ran, asyncio.Event().wait, idempotent=idempotent), timeout_s=0.01)  # type: ignore[arg-type]  # gives nothing
        return await ends_of(stores, SEND, send, hooks=[Saying("AfterTool", HookReply(block="no"))]).told(
            "go", agent="flow"
        )

    assert on_server(scenario).view.status == "failed"
    assert len(ran) == (3 if idempotent else 1)
    assert len(set(ran)) == 1, "under the same key"


@MAPPED
def test_a_tool_that_has_failed_runs_again_under_another_key(mapped: dict[str, Any]) -> None:
    ran: list[str] = []

    async def gives() -> str:
        if len(ran) == 1:
            raise RuntimeError("broken")
        return "sent"

    story = on_server(lambda stores: ends_of(stores, SEND | mapped, sending(ran, gives)).told("go", agent="flow"))
    assert story.view.status == "done"
    assert len(set(ran)) == len(ran) == (3 if mapped else 2)


def lost_with(*more: Record, may_repeat: bool = False) -> list[Record]:
    """What a worker has written of the call of ``send`` before it was lost."""
    reply = ModelReplied(leg=1, turn=1, message=calls(call("node", "send", what="it")).message, model="graph")
    started = ToolStarted(leg=1, call_id="node", name="send", is_known=True, may_repeat=may_repeat)
    return [reply, started, *more]


SENT = ToolFinished(leg=1, result=ToolResult(call_id="node", name="send", content="sent"))


@MAPPED
@pytest.mark.parametrize("flag", ["deadline", "user"])
def test_a_tool_that_has_given_its_result_does_not_run_again_where_its_job_is_ended_meanwhile(
    flag: StopFlag, mapped: dict[str, Any]
) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        relay = ends_of(stores, SEND | mapped, sending(ran))
        job = await relay.submit("go", agent="flow")
        lost = f"{job}.1.1" if mapped else f"{job}.1"
        while await next_job(stores) != lost:
            await relay.step()
        await relay.lose(lost, lost_with(SENT))
        assert await stop_job(stores.jobs, lost, flag) == "ok"
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == ("done" if mapped else "failed"), "the other item is all right"
    assert len(ran) == bool(mapped)


@MAPPED
def test_what_a_person_has_stopped_is_not_tried_again(mapped: dict[str, Any]) -> None:
    async def scenario(stores: Stores) -> Story:
        node = {"name": "a", "agent": "a", "retry": 3, **mapped}
        model = ByLeg({"a": [said("a said")] * 3, "b": [said("b said")]})
        relay = Relay(stores, team(graph(node, "b", edges=[edge("a", "b")]), *map(agent, "ab")), model)
        job = await relay.submit("go", agent="flow")
        stopped = f"{job}.1.1" if mapped else f"{job}.1"
        while await next_job(stores) != stopped:
            await relay.step()
        assert await stop_job(stores.jobs, stopped, "user") == "ok"
        await relay.drain()
        assert not await stores.jobs.views([f"{job}.2", f"{job}.1.3"]), "nothing begins in its place"
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == ("done" if mapped else "failed")
    if not mapped:
        assert "node 'a' has failed: cancelled by the user" in (story.view.result or "")


def beside(node: dict[str, Any], *, nested: bool = False) -> list[dict[str, Any]]:
    """A graph in which ``z`` fails the first time, and ``send`` runs beside it: by itself, or in a graph of its own."""
    if nested:
        inner = graph(node, edges=[]) | {"name": "inner", "tools": ["send"]}
        node = {"name": "i", "graph": "inner"}
    name = node["name"]
    flow = graph(node, "z", "e", edges=[edge(name, "e"), edge("z", "e")], entry=[name, "z"])
    return [flow | {"tools": ["send"]}, *([inner] if nested else []), *map(agent, "ze")]


async def settle(relay: Relay, stores: Stores, job: str) -> Story:
    """Let time pass until a job is over: leases run out, what is told to stop is ended, timers ring."""
    for _ in range(9):
        await relay.drain()
        if (await stores.jobs.job(job)).is_over:
            return await relay.story(job)
        for one, status in (await family(stores, job)).items():
            if status in ("running", "suspended"):
                await stores.client.zadd(keys.LEASES if status == "running" else keys.TIMERS, {one: 1})
        await sweep(stores.jobs, grace_s=0.0, max_attempts=9)
    raise AssertionError(await family(stores, job))


async def lost_beside(relay: Relay, stores: Stores, job: str, lost: str, records: list[Record]) -> None:
    """Run a job until ``z`` has failed; the worker of ``lost`` writes ``records`` and is not heard of again."""
    while await next_job(stores) != lost:
        await relay.step()
    lease = (await claimed(stores, lost, owner="lost", lease_s=30.0)).lease
    for number, record in enumerate(records):
        await stores.jobs.append(lease, f"{lease.fence}.{number}", [record], used_ms=1, is_progress=True)
    await relay.drain()
    assert (await relay.story(job)).view.status == "failed"


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("has_result", [False, True])
@pytest.mark.parametrize("nested", [False, True], ids=["beside", "in a graph beside"])
@MAPPED
def test_a_retried_job_does_not_run_a_tool_again_that_had_begun_beside_the_branch_that_failed(
    mapped: dict[str, Any], nested: bool, has_result: bool, idempotent: bool
) -> None:
    ran: list[str] = []
    node = {"name": "send", "tool": "send", "args": {"what": "it"}, **mapped}

    async def scenario(stores: Stores) -> tuple[Story, str]:
        relay = Relay(
            stores, team(*beside(node, nested=nested)), Model(z=failing(1)), tools=[sending(ran, idempotent=idempotent)]
        )
        job = await relay.submit("go", agent="flow")
        lost = ".".join([job, *["1"] * (1 + nested + bool(mapped))])
        records = lost_with(*([SENT] if has_result else []), may_repeat=idempotent)
        await lost_beside(relay, stores, job, lost, records)
        before = len(ran)
        await relay.retry(job)
        assert (await stores.jobs.job(job)).status == "suspended", "for that worker to stop"
        assert len(ran) == before
        return await settle(relay, stores, job), f"{lost}:1:node"

    story, key = on_server(scenario)
    others = [one for one in ran if one != key]
    assert len(others) == len(set(others)) == bool(mapped), "the other item, once"
    assert ran.count(key) == (idempotent and not has_result)
    if has_result or idempotent or mapped:
        assert story.view.status == "done", story.view.result
    else:
        assert story.view.status == "failed"
        assert "node 'send' has failed: Outcome unknown: 'send' ran in job" in (story.view.result or "")
        assert f"`ekiden job fork {story.view.id}`" in (story.view.result or "")


def test_a_result_that_counts_in_a_retried_job_passes_what_stands_behind_it() -> None:
    ran: list[str] = []
    answers: list[str] = []

    def word(event: Any) -> HookReply | None:
        if event.reply.message.calls:
            return None
        answers.append(event.reply.message.text)
        return HookReply(block="no")

    async def scenario(stores: Stores) -> Story:
        relay = ends_of(stores, SEND, sending(ran), hooks=[Saying("AfterModel", word)])
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        await relay.retry(job)
        return await settle(relay, stores, job)

    assert on_server(scenario).view.status == "failed"
    assert (answers, len(ran)) == ([SECRET] * 2, 1)


def test_a_call_of_which_nobody_knows_what_it_did_is_not_repeated_however_often_its_job_is_retried() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> None:
        send = replace(sending(ran, asyncio.Event().wait), timeout_s=0.01)  # type: ignore[arg-type]  # gives nothing
        relay = ends_of(stores, SEND, send)
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        for _ in range(2):
            await relay.retry(job)
            assert "must not run twice. Check what it did." in ((await relay.story(job)).view.result or "")

    on_server(scenario)
    assert len(ran) == 1


def test_a_retried_list_is_the_one_that_was_begun_whatever_has_changed_meanwhile() -> None:
    ran: list[str] = []
    node = {"name": "send", "tool": "send", "args": {"what": "${state.who}"}, "for_each": "['a', 'b']"}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(*beside(node)), Model(z=failing(1)), tools=[sending(ran)])
        job = await relay.submit("go", agent="flow", state={"who": "anna"})
        await lost_beside(relay, stores, job, f"{job}.1.2", [])
        await as_any(stores.client.hset(keys.state(session_of(job)), "who", '"berta"'))
        await relay.retry(job)
        return await settle(relay, stores, job)

    assert on_server(scenario).view.status == "done"
    assert len(ran) == len(set(ran)) == 2


@pytest.mark.parametrize("stops_first", [False, True])
def test_a_branch_that_a_join_has_given_up_is_no_failure(stops_first: bool) -> None:
    async def scenario(stores: Stores) -> Story:
        join = {"name": "d", "agent": "d", "join": "any"}
        flow = graph("a", "b", join, edges=[edge("a", "d"), edge("b", "d")], entry=["a", "b"])
        relay = Relay(stores, team(flow, *map(agent, "abd")), Model())
        job = await relay.submit("go", agent="flow")
        while await next_job(stores) != f"{job}.1":
            await relay.step()
        await relay.step()
        if stops_first:  # before the graph goes on
            await end_overdue(stores.jobs)
            assert (await stores.jobs.job(f"{job}.2")).status == "cancelled"
        return await settle(relay, stores, job)

    story = on_server(scenario)
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert [(one.node, one.error) for one in story.of(NodeFinished)] == [("a", ""), ("d", "")]


INNERMOST = [graph("s", "t", edges=[edge("s", "t")]) | {"name": "innermost"}]
STOPPED: dict[str, tuple[dict[str, Any], str]] = {
    "a node": ({"name": "s", "agent": "s", "timeout": 60}, ".1.1"),
    "an item": ({"name": "s", "agent": "s", "for_each": "['x']"}, ".1.1.1"),
    "a graph in it": ({"name": "s", "graph": "innermost", "timeout": 60}, ".1.1"),
    "a branch that a join can do without": ({"name": "s", "agent": "s"}, ".1.1"),
}


@pytest.mark.parametrize("kind", STOPPED)
def test_a_graph_is_not_tried_again_in_which_a_person_has_stopped_something(kind: str) -> None:
    node, stopped = STOPPED[kind]
    inner = graph(node, edges=[])
    if "join" in kind:  # it goes on with the other branch, and fails behind that
        last = {"name": "u", "agent": "u", "join": "any"}
        inner = graph(node, "t", last, edges=[edge("s", "u"), edge("t", "u")], entry=["s", "t"])
    flow = graph({"name": "i", "graph": "inner", "retry": 3}, edges=[])

    async def scenario(stores: Stores) -> None:
        agents = [flow, inner | {"name": "inner"}, *INNERMOST, *map(agent, "stu")]
        relay = Relay(stores, team(*agents), Model(u=failing(9)))
        job = await relay.submit("go", agent="flow")
        while await next_job(stores) != f"{job}{stopped}":
            await relay.step()
        assert await stop_job(stores.jobs, f"{job}{stopped}", "user") == "ok"
        assert (await settle(relay, stores, job)).view.status == "failed"
        assert not await stores.jobs.views([f"{job}.2"]), "nothing begins in its place"

    on_server(scenario)


def test_a_graph_in_which_something_was_stopped_has_its_tries_again_once_a_person_retries_the_job() -> None:
    inner = graph({"name": "s", "agent": "s", "timeout": 60}, edges=[]) | {"name": "inner"}
    flow = graph({"name": "i", "graph": "inner", "retry": 1}, edges=[])

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(flow, inner, *map(agent, "stu")), Model(s=failing(1)))
        job = await relay.submit("go", agent="flow")
        while await next_job(stores) != f"{job}.1.1":
            await relay.step()
        assert await stop_job(stores.jobs, f"{job}.1.1", "user") == "ok"
        assert (await settle(relay, stores, job)).view.status == "failed"
        await relay.retry(job)
        return await settle(relay, stores, job)

    assert on_server(scenario).view.status == "done"
