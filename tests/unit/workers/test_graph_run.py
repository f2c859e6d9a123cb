"""What may begin in a graph, without the jobs around it."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.shared.definitions.graph import Graph, Node
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import GraphFailed
from ekiden.shared.graph_run import GraphRun
from ekiden.shared.handoff import GraphPosition
from ekiden.shared.records import Delegated, NodeFinished, Record
from ekiden.shared.relay.leg import Folds, entries_behind
from ekiden.shared.stores.job_reader import RedisJobReader
from ekiden.shared.stores.opening import Stores
from ekiden.workers.graphs.run import run_of
from ekiden.workers.graphs.values import GraphInForce, Values
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.test_graphs import ByLeg, agent
from tests.unit.workers.world import said

AT = GraphPosition(graph="flow", run=1, chain_length=1, depth=0)


def wide(nodes: int) -> Graph:
    """A graph that begins with all of its nodes, each of which leads to the next three."""
    names = [f"n{number}" for number in range(nodes)]
    pairs = [(number, number + step) for number in range(nodes // 5, nodes) for step in (1, 2, 3)]
    edges = [{"from": names[one], "to": names[to]} for one, to in pairs if to < nodes]
    return Graph.model_validate(
        {"entry": names, "nodes": [{"name": name, "agent": "a"} for name in names]} | {"edges": edges}
    )


def test_what_leads_where_in_a_big_graph_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[Graph] = []
    before = Graph._before

    def counted(graph: Graph) -> dict[str, list[str]]:
        times.append(graph)
        return before(graph)

    monkeypatch.setattr(Graph, "_before", counted)
    graph = wide(500)
    for _ in range(3):  # as often as a worker goes on with it
        run = GraphRun(graph, AT)
        for _ in range(50):
            name, *_ = run.ready()
            run.note(Delegated(leg=1, call_id=run.next_call(name), child="x", agent="a"))
    assert len(times) == 1
    assert run.begun.keys() == {f"n{number}" for number in range(50)}


def test_of_a_round_each_node_is_reached_by_those_before_it_alone() -> None:
    ways = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    graph = Graph.model_validate(
        {
            "entry": ["a"],
            "nodes": [{"name": name, "agent": "x"} for name in "abcd"],
            "edges": [{"from": one, "to": to} for one, to in ways],
        }
    )
    assert [graph.reaching(name) for name in "abcd"] == [graph.bits(before) for before in ("", "a", "ab", "abc")]


def test_a_late_round_of_a_loop_reads_and_folds_no_more_than_an_early_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cost: Counter[str] = Counter()
    note, page = GraphRun.note, RedisJobReader.page

    def counted(run: GraphRun, record: Record) -> None:
        cost["folded"] += 1
        note(run, record)

    async def paged(store: RedisJobReader, claimed: Any) -> Any:
        entries = await page(store, claimed)
        cost["read"] += len(entries)
        return entries

    monkeypatch.setattr(GraphRun, "note", counted)
    monkeypatch.setattr(RedisJobReader, "page", paged)

    async def scenario(stores: Stores) -> list[Counter[str]]:
        flow = {"name": "flow", "orchestrate": "loop", "agents": ["again"], "max_rounds": 50}
        relay = Relay(stores, team(flow, agent("again")), ByLeg({"again": [said("done")] * 50}))
        job = await relay.submit("go", agent="flow")
        costs: list[Counter[str]] = []
        while await relay.step() is not None:
            costs.append(cost.copy())
            cost.clear()
        assert (await relay.story(job)).view.status == "done"
        return costs

    rounds = on_server(scenario)[-50:]
    assert rounds[10:40] == rounds[11:41], "the journal is no short one any more"


def test_a_leg_that_runs_on_beside_a_later_one_changes_nothing_of_what_that_has_folded() -> None:
    ways = [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "max_rounds": 9}]
    nodes = [{"name": name, "agent": name} for name in "ab"]
    graph = Graph.model_validate({"entry": ["a"], "nodes": nodes, "edges": ways})
    said = {"leg": 2, "graph": "flow", "run": 1, "output": "x"}
    ends = [NodeFinished(node=one, channel=one, next=(to,), **said) for one, to in ("ab", "ba", "ab")]
    entries, made = entries_behind(0, ends), dict[tuple[str, int], tuple[int, Any]]()

    def folded(upto: int) -> Counter[tuple[str, str]]:
        leg: Any = SimpleNamespace(folds=Folds(upto, made, is_kept=True), entries=entries[:upto])
        return run_of(leg, graph, AT).taken

    early, late = Counter({("a", "b"): 1}), Counter({("a", "b"): 2, ("b", "a"): 1})
    assert [folded(upto) for upto in (1, 3, 1, 3)] == [early, late, early, late]


@pytest.mark.parametrize(
    ("gives", "why"),
    [
        ({"files": [1]}, "which is no list: name one of its fields, files"),
        (None, "is null, which is no list: what it names has no output yet"),
        ("[1]", "a tool gives one as the data of a ToolOutput"),
        ([0] * 1_001, "is 1,001 items: a list has 1,000 at most"),
    ],
)
def test_what_a_node_cannot_be_mapped_over_says_what_gives_a_list(gives: Any, why: str) -> None:
    graph_ = Graph(entry=("a",), nodes=(Node(name="a", agent="a", for_each="state.x"),))
    force = GraphInForce(
        "flow", graph_, Channels.of(graph_, {}), definition_from({"name": "flow", "description": "d"}, "x"), {}
    )
    with pytest.raises(GraphFailed) as caught:
        Values(force, GraphRun(graph_, AT), {"x": gives}, dict).items("a")
    assert why in str(caught.value)
    assert ("1,000 at most" in str(caught.value)) is isinstance(gives, list)
