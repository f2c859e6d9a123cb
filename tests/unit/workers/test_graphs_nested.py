"""Graphs in graphs, in delegated jobs and in handoffs; their time, their ends, and servers that forget them."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.records import Delegated, Forked, NodeFinished, Record
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.relay.sweeper import end_overdue
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.journal_signatures import head_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.contract.rewinding import remembered, rewind
from tests.contract.test_signing import signed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_graphs import ByLeg, agent, edge, gave, graph
from tests.unit.workers.test_graphs_interrupted import AGENTS, EVERYTHING, decided, next_job
from tests.unit.workers.world import Said, call, calls, handing_over, said, tool_named

Says = Callable[[int], Said]


class Saying(ByLeg):
    """Says for each agent what it is given, by how often that was asked; else ``<name> said``."""

    def __init__(self, **says: Says) -> None:
        super().__init__({})
        self._says = says

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.requests.append(request)
        says, times = self._says.get(request.agent), len(self.asked(request.agent))
        reply = said(f"{request.agent} said") if says is None else says(times)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, ModelReply)
        return reply


INNER = graph("x", "y", "z", edges=[edge("x", "y"), edge("x", "z")]) | {"name": "inner"}
MIDDLE = graph({"name": "i", "graph": "inner"}, "m", edges=[edge("i", "m")]) | {"name": "middle"}
TWICE = graph(
    "s",
    {"name": "g", "graph": "middle"},
    {"name": "h", "graph": "middle"},
    "e",
    edges=[edge("s", "g"), edge("s", "h"), edge("g", "e"), edge("h", "e")],
)
NESTED = (TWICE, MIDDLE, INNER, *map(agent, "sexyzm"))


def told(*agents: Mapping[str, Any], model: Saying | None = None, first: str = "flow", **options: Any) -> Story:
    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, team(*agents), model or Saying(), **options).told("go", agent=first)

    return on_server(scenario)


async def family(stores: Stores, job: str) -> dict[str, str]:
    """How a job and all below it have ended, by id."""
    found: dict[str, str] = {}
    left = [job]
    while left:
        one = left.pop(0)
        found[one] = (await stores.jobs.job(one)).status
        left += [e.record.child for e in await journal_of(stores.jobs, one) if isinstance(e.record, Delegated)]
    return found


def test_branches_within_graphs_within_a_loop_begin_in_each_round() -> None:
    flow = graph(
        "a",
        {"name": "g", "graph": "middle"},
        edges=[edge("a", "g"), edge("g", "a", max_rounds=2), edge("g", "END", default=True)],
    )
    model = Saying()
    story = told(flow, MIDDLE, INNER, *map(agent, "axyzm"), model=model)
    assert (story.view.status, story.view.result) == ("done", "m said")
    assert {name: len(model.asked(name)) for name in "axyzm"} == dict.fromkeys("axyzm", 3)
    assert [one.node for one in story.of(NodeFinished) if one.graph == "flow"] == ["a", "g"] * 3


def test_graphs_run_as_branches_have_branches_of_their_own() -> None:
    model = Saying()
    story = told(*NESTED, model=model)
    assert (story.view.status, story.view.result) == ("done", "e said")
    assert {name: len(model.asked(name)) for name in "sexyzm"} == {"s": 1, "e": 1, "x": 2, "y": 2, "z": 2, "m": 2}


def delegating(to: str) -> Callable[[int], Said]:
    """What an agent says that has another one do it, and then is content."""
    return lambda times: calls(call("d1", f"delegate_to_{to}", objective="do it")) if times == 1 else said("thank you")


def test_an_agent_may_delegate_to_a_graph() -> None:
    lead = agent("lead", subagents=["flow"])
    story = told(lead, *NESTED, first="lead", model=Saying(lead=delegating("flow")))
    assert story.view.result == "thank you"
    assert "agent e ended with this result" in story.results["d1"]


def test_the_agent_of_a_node_may_delegate_to_a_graph_and_completes_its_node_then() -> None:
    flow = graph("lead", "b", edges=[edge("lead", "b")]) | {"name": "outer"}
    lead = agent("lead", subagents=["flow"])
    story = told(flow, lead, agent("b"), *NESTED, first="outer", model=Saying(lead=delegating("flow")))
    assert [(one.node, one.output) for one in story.of(NodeFinished)] == [("lead", "thank you"), ("b", "b said")]


ONE = graph("a", "c", edges=[edge("a", "c")])
OTHER = graph("b", "d", edges=[edge("b", "d")]) | {"name": "other"}


@pytest.mark.parametrize("returns", [{}, {"return": True}])
def test_two_graphs_whose_agents_hand_over_to_each_other_go_round_no_more_than_agents_may(
    returns: dict[str, Any],
) -> None:
    a = agent("a", handoffs=[{"to": "other", **returns}])
    b = agent("b", handoffs=[{"to": "flow", **returns}])
    model = Saying(
        a=lambda times: calls(handing_over("c1", "other")) if times == 1 else said("a said"),
        b=lambda times: calls(handing_over("c1", "flow")) if times == 1 else said("b said"),
    )
    story = told(ONE, OTHER, a, b, *map(agent, "cd"), model=model)
    assert (story.view.status, story.view.result, story.codes) == ("done", "c said", ["CIRCULAR_HANDOFF"])
    ends = [(one.graph, one.node, one.output) for one in story.of(NodeFinished)]
    answer = "a said" if returns else "d said"
    assert ends == [("other", "b", "b said"), ("other", "d", "d said"), ("flow", "a", answer), ("flow", "c", "c said")]


def test_where_agents_may_go_round_two_graphs_in_handoff_to_each_other_do_and_each_run_ends_by_itself() -> None:
    a, b = agent("a", handoffs=["other"]), agent("b", handoffs=["flow"])
    model = Saying(
        a=lambda times: calls(handing_over("c1", "other")) if times < 3 else said("a said"),
        b=lambda _: calls(handing_over("c1", "flow")),
    )
    story = told(ONE, OTHER, a, b, *map(agent, "cd"), model=model, cycles="limit:3")
    assert (story.view.status, story.view.result, story.codes) == ("done", "c said", [])
    ends = [(one.node, one.run) for one in story.of(NodeFinished)]
    assert [node for node, _ in ends] == ["a", "c", "b", "d", "a", "c", "b", "d", "a", "c"]
    assert len({run for _, run in ends}) == 5, "each time that control comes to a graph is a run of its own"


def test_a_stopped_job_stops_what_the_graphs_in_its_graph_have_begun() -> None:
    async def scenario(stores: Stores) -> None:
        relay = Relay(stores, team(*NESTED), Saying())
        job = await relay.submit("go", agent="flow")
        while len(await family(stores, job)) < 1 + 2 + 4:  # y and z in each of two graphs
            assert await relay.step() is not None
        assert await stop_job(stores.jobs, job, "user") == "ok"
        while await end_overdue(stores.jobs):
            pass
        await relay.drain()
        assert set((await family(stores, job)).values()) == {"cancelled"}

    on_server(scenario)


@pytest.mark.parametrize("retry", [0, 1])
@pytest.mark.parametrize("node", [{"agent": "a"}, {"graph": "inner"}], ids=["agent", "graph"])
def test_a_node_whose_time_is_over_has_failed_and_is_tried_again_as_its_file_says(
    node: dict[str, str], retry: int
) -> None:
    timed = {"name": "slow", "timeout": 5, "retry": retry, **node}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(graph(timed, edges=[]), INNER, *map(agent, "axyz")), Saying())
        job = await relay.submit("go", agent="flow")
        while not await stores.jobs.views([f"{job}.1"]):
            await relay.step()
        now_ms = await stores.jobs.passed_ms()
        due_ms = await as_any(stores.client.zscore(keys.DEADLINES, f"{job}.1"))
        assert 0 < due_ms - now_ms <= 5_000
        assert await end_overdue(stores.jobs, int(due_ms) - 1_000) == 0
        assert await end_overdue(stores.jobs, int(due_ms) + 1_000) == 1
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert story.view.status == ("done" if retry else "failed")
    if not retry:
        assert "node 'slow' has failed: the job's deadline has passed" in (story.view.result or "")


def test_a_quorum_gives_up_the_late_in_each_round_anew() -> None:
    nodes = ("s", "a", "b", "c", {"name": "d", "agent": "d", "join": "quorum:2"})
    edges = [
        *(edge("s", name) for name in "abc"),
        *(edge(name, "d") for name in "abc"),
        edge("d", "s", max_rounds=1),
        edge("d", "END", default=True),
    ]

    async def scenario(stores: Stores) -> tuple[Story, dict[str, str]]:
        relay = Relay(stores, team(graph(*nodes, edges=edges), *map(agent, "sabcd")), Saying())
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        while await end_overdue(stores.jobs):
            await relay.drain()
        return await relay.story(job), await family(stores, job)

    story, ends = on_server(scenario)
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert [one.node for one in story.of(NodeFinished) if not one.error] == ["s", "a", "b", "d"] * 2
    assert sorted(ends.values()) == ["cancelled"] * 2 + ["done"] * 5


def test_what_a_node_gives_may_be_as_long_as_ten_million_characters() -> None:
    long = random.Random(1).randbytes(4_300_000).hex(" ", 3)[:10_000_000]  # words of which none comes again
    model = Saying(b=lambda _: said(long))
    edges = [*(edge("a", name) for name in "bc"), *(edge(name, "d") for name in "bc")]
    story = told(graph("a", "b", "c", "d", edges=edges), *map(agent, "abcd"), model=model)
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert [len(one.output) for one in story.of(NodeFinished)] == [6, 10_000_000, 6, 6]
    assert max(len(message.text) for request in model.requests for message in request.messages) < 200_000


ROUNDS = {
    "entry": "find",
    "nodes": EVERYTHING["graph"]["nodes"],
    "edges": [
        *EVERYTHING["graph"]["edges"][:-2],
        edge("judge", "find", max_rounds=1),
        edge("judge", "END", default=True),
    ],
}


def test_a_server_that_goes_back_in_time_again_and_again_changes_nothing_of_what_a_graph_decides() -> None:
    forgotten = 2

    async def run(stores: Stores, *, forgetful: bool) -> Story:
        look = tool_named("look", read_only=True)
        agents = (EVERYTHING | {"graph": ROUNDS}, *AGENTS[1:])
        relay = Relay(stores, team(*agents), Saying(**says), tools=[look])
        job = await relay.submit("look", agent="flow")
        steps, known, back = 0, await remembered(stores), set[int]()
        while await next_job(stores) is not None:
            await relay.step()
            steps += 1
            if steps % forgotten:
                continue
            if forgetful and steps not in back:
                back.add(steps)
                steps -= forgotten
                await rewind(stores, known)
            known = await remembered(stores)
        return await relay.story(job)

    says: dict[str, Says] = {
        "find": lambda _: gave(files={"names": ["a", "b", "c"]}),
        "judge": lambda _: gave(verdict={"good": True}),
    }
    quiet = on_server(lambda stores: run(stores, forgetful=False))
    forgetful = on_server(lambda stores: run(stores, forgetful=True))
    assert quiet.view.status == forgetful.view.status == "done"
    assert decided(quiet) == decided(forgetful)


async def failed_and_retried(
    stores: Stores, agents: tuple[Mapping[str, Any], ...], model: Saying
) -> tuple[Story, list[list[Record]]]:
    """Run a job that fails, let it go on, and check every journal of it."""
    relay = Relay(stores, team(*agents), model, tools=[tool_named("look")])
    job = await relay.submit("go", agent="flow")
    await relay.drain()
    assert (await relay.story(job)).view.status == "failed"
    while await end_overdue(stores.jobs):
        await relay.drain()
    await relay.retry(job)
    return await relay.story(job), [(await relay.story(one)).records for one in await family(stores, job)]


def failing(times: int) -> Callable[[int], Said]:
    return lambda asked: ModelError("broken") if asked <= times else said("at last")


def test_a_retried_graph_takes_what_items_of_its_list_gave_before_another_branch_failed() -> None:
    each = {"name": "look", "agent": "look", "for_each": "['1', '2', '3']", "inputs": {"file": "item"}}
    flow = graph(
        "s", each, "z", "e", edges=[*(edge("s", to) for to in ("look", "z")), edge("look", "e"), edge("z", "e")]
    )
    model = Saying(z=failing(1))
    agents = (flow, agent("look", inputs={"file": {}}), *map(agent, "sez"))
    story, _ = on_server(lambda stores: failed_and_retried(stores, agents, model))
    assert (story.view.status, story.view.result) == ("done", "e said")
    assert {name: len(model.asked(name)) for name in ("s", "look", "z", "e")} == {"s": 1, "look": 3, "z": 2, "e": 1}
    assert {one.node: one.output for one in story.of(NodeFinished)}["look"] == ["look said"] * 3


def test_a_retried_list_does_those_of_its_items_again_that_failed() -> None:
    each = {"name": "look", "agent": "look", "for_each": "['1', '2']", "inputs": {"file": "item"}}
    model = Saying(look=failing(2))
    agents = (graph("s", each, edges=[edge("s", "look")]), agent("look", inputs={"file": {}}), agent("s"))
    story, _ = on_server(lambda stores: failed_and_retried(stores, agents, model))
    assert (story.view.status, story.end.output) == ("done", ["at last"] * 2)
    assert len(model.asked("look")) == 4


@pytest.mark.parametrize("fails", ["m", "z"], ids=["a step of it", "a branch of it"])
def test_a_retried_graph_goes_on_within_the_graphs_that_are_its_branches(fails: str) -> None:
    """``g`` and ``h`` run the same one: the first to fail gives the other up, which has done a part."""
    model = Saying(**{fails: failing(1)})

    async def scenario(stores: Stores) -> tuple[Story, list[list[Record]]]:
        ours = signed(stores)
        story, journals = await failed_and_retried(ours, NESTED, model)
        for job in await family(ours, story.view.id):
            assert head_of(ours.signing, job, await journal_of(ours.jobs, job)), "each is signed as a whole"
        return story, journals

    story, journals = on_server(scenario)
    assert (story.view.status, story.view.result) == ("done", "e said")
    assert {name: len(model.asked(name)) for name in "sex"} == {"s": 1, "e": 1, "x": 2}, "none of them is asked again"
    assert len(model.asked(fails)) == 3
    forks = [record for records in journals for record in records if isinstance(record, Forked)]
    assert {record.job.count(".") for record in forks} >= {2}


def test_a_retried_graph_goes_on_within_the_one_branch_that_is_left() -> None:
    """Nothing runs beside it any more: else it would be a step like any other, which begins."""
    flow = graph({"name": "g", "graph": "middle"}, "a", edges=[], entry=["g", "a"])
    model = Saying(m=failing(1))
    agents = (flow, MIDDLE, INNER, *map(agent, "axyzm"))
    story, _ = on_server(lambda stores: failed_and_retried(stores, agents, model))
    assert story.end.output == {"g": "at last", "a": "a said"}
    assert {name: len(model.asked(name)) for name in "axm"} == {"a": 1, "x": 1, "m": 2}
