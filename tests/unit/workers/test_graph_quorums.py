"""A join of some branches that cannot have enough any more fails the job then, and stops the others.

Agents are asked in the order of their names, and the graph, whose name is ``flow``, goes on before ``y`` and ``z`` are.
"""

import random
from itertools import product
from typing import Any

import pytest

from ekiden.shared.definitions.graph import END, Edge, Graph, Node
from ekiden.shared.records import NodeFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.graphs import branches
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_graph_tries import settle
from tests.unit.workers.test_graphs import agent, edge, graph
from tests.unit.workers.test_graphs_nested import Saying, failing, family

BROKEN = failing(9)


def joined(needed: str, *names: str, more: Any = (), **shape: Any) -> dict[str, Any]:
    """A graph whose entries ``names`` all lead to a join ``j``."""
    join = {"name": "j", "agent": "j", "join": needed}
    edges = [*(edge(name, "j") for name in names), *more]
    others = shape.pop("others", ())
    return graph(*names, join, *others, edges=edges, entry=shape.pop("entry", list(names)), **shape)


def ended(flow: dict[str, Any], model: Saying) -> tuple[Story, dict[str, str]]:
    async def scenario(stores: Stores) -> tuple[Story, dict[str, str]]:
        names = [node if isinstance(node, str) else node["name"] for node in flow["graph"]["nodes"]]
        relay = Relay(stores, team(flow, *map(agent, names)), model)
        job = await relay.submit("go", agent="flow")
        story = await settle(relay, stores, job)
        return story, await family(stores, job)

    return on_server(scenario)


def only(broken: str) -> Saying:
    """Agents of which these fail, each time."""
    return Saying(**dict.fromkeys(broken, BROKEN))


@pytest.mark.parametrize(
    ("flow", "broken", "why"),
    [
        (joined("quorum:2", "a", "z"), "a", "2 more branches (join: quorum:2), and only 1"),
        (joined("quorum:2", "a", "b", "z"), "ab", "2 more branches (join: quorum:2), and only 1"),
        (joined("quorum:3", "a", "b", "c", "z"), "bc", "2 more branches (join: quorum:3), and only 1"),
        (joined("quorum:2", "a", "b", more=[edge("z", "b")], others=["z"], entry=["a", "z"]), "a", "and only 1"),
        (joined("quorum:2", "a", "z", more=[edge("z", "END", "false")]), "a", "and only 1"),
        (joined("quorum:2", "a", "z", more=[edge("j", "a", "false"), edge("j", "END")]), "a", "and only 1"),
    ],
    ids=["of two", "of three", "with what has come", "behind another node", "where edges choose", "of a round"],
)
def test_a_failure_by_which_too_few_are_left_fails_the_job_at_once(flow: dict[str, Any], broken: str, why: str) -> None:
    model = only(broken)
    story, statuses = ended(flow, model)
    assert story.view.status == "failed"
    assert why in (story.view.result or "")
    assert f"- {broken[-1]}: broken" in (story.view.result or "")
    assert not model.asked("z"), "the last branch was stopped before it began"
    assert min(statuses.values()) == "cancelled"


@pytest.mark.parametrize(
    "flow",
    [
        joined("quorum:2", "a", "b", "z"),
        joined("any", "a", "z"),
        joined("quorum:2", "a", "z", more=[edge("z", "y"), edge("y", "j")], others=["y"]),
    ],
    ids=["of three", "any", "where one branch becomes two"],
)
def test_a_failure_that_leaves_enough_fails_nothing(flow: dict[str, Any]) -> None:
    story, _ = ended(flow, only("a"))
    assert (story.view.status, story.view.result) == ("done", "j said")


@pytest.mark.parametrize(("broken", "good"), [("a", "z"), ("z", "a")], ids=["fails first", "fails last"])
def test_a_join_to_which_no_branch_comes_fails_nothing_whoever_ends_first(broken: str, good: str) -> None:
    edges = [edge(broken, "j"), edge(good, "j", "false"), edge(good, "END")]
    story, _ = ended(
        graph("a", {"name": "j", "agent": "j", "join": "any"}, "z", edges=edges, entry=["a", "z"]), only(broken)
    )
    assert (story.view.status, story.view.result) == ("done", f"{good} said")


@pytest.mark.parametrize("broken", ["az", "yz"], ids=["one of them after the end", "both after the end"])
def test_a_join_whose_branches_all_fail_fails_nothing_where_another_branch_ends(broken: str) -> None:
    [good] = {"a", "y", "z"} - {*broken}
    join = {"name": "j", "agent": "j", "join": "quorum:2"}
    edges = [*(edge(name, "j") for name in broken), edge(good, "END")]
    story, _ = ended(graph("a", join, "y", "z", edges=edges, entry=["a", "y", "z"]), only(broken))
    assert (story.view.status, story.view.result) == ("done", f"{good} said")


def test_a_join_at_which_a_branch_waits_fails_the_job_at_once_also_where_another_branch_has_ended() -> None:
    more = {"more": [edge("d", "END")], "others": ["d"], "entry": ["a", "b", "c", "d", "z"]}
    model = only("c")
    story, statuses = ended(joined("quorum:4", "a", "b", "c", "z", **more), model)
    assert "2 more branches (join: quorum:4), and only 1" in (story.view.result or "")
    assert not model.asked("z"), "the last branch was stopped before it began"
    assert min(statuses.values()) == "cancelled"


WAYS = ["j", "j? END", "END", "j END?", "j k", "k END?"]
"""Where edges lead from an entry; those with a question mark are never taken."""
MANY = random.Random(913).sample(
    [
        (needed, ways, broken)
        for needed in ("any", "quorum:2")
        for ways in product(WAYS, repeat=3)
        if sum("j" in way for way in ways) > 1
        for broken in ("a", "z", "ay", "az", "yz")
    ],
    40,
)


@pytest.mark.parametrize(("needed", "ways", "broken"), MANY)
def test_what_is_seen_early_ends_no_job_otherwise(
    needed: str, ways: tuple[str, ...], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = []
    for name, way in zip("ayz", ways, strict=True):
        edges += [edge(name, to.rstrip("?"), *(["false"] if "?" in to else [])) for to in way.split()]
    join = {"name": "j", "agent": "j", "join": needed}
    last = ["k"] if any("k" in way for way in ways) else []
    flow = graph("a", join, *last, "y", "z", edges=edges, entry=["a", "y", "z"])
    early, _ = ended(flow, only(broken))
    monkeypatch.setattr(branches, "check_in_reach", lambda *_: None)
    late, _ = ended(flow, only(broken))
    assert early.view.status == late.view.status
    assert early.view.status == "failed" or early.view.result == late.view.result


def test_where_a_loop_may_bring_more_branches_it_is_seen_when_none_is_under_way() -> None:
    again = [edge("z", "z", "z == null", max_rounds=1)]
    story, _ = ended(joined("quorum:2", "a", "z", more=again), only("a"))
    assert story.view.status == "failed"
    assert "waits for 1 more branches (join: quorum:2), and none can come to it any more" in (story.view.result or "")
    assert [one.node for one in story.of(NodeFinished)] == ["a", "z"]


def test_a_join_that_another_one_may_do_without_fails_nothing() -> None:
    last = {"name": "k", "agent": "k", "join": "any"}
    flow = joined(
        "quorum:2", "a", "z", more=[edge("j", "k"), edge("y", "k")], others=["y", last], entry=["a", "y", "z"]
    )
    story, _ = ended(flow, only("a"))
    assert (story.view.status, story.view.result) == ("done", "k said")


def test_a_job_that_failed_by_it_goes_on_with_the_branches_that_it_lacked() -> None:
    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(joined("quorum:2", "a", "z"), *map(agent, "ajz")), Saying(a=failing(1)))
        job = await relay.submit("go", agent="flow")
        assert (await settle(relay, stores, job)).view.status == "failed"
        await relay.retry(job)
        return await settle(relay, stores, job)

    story = on_server(scenario)
    assert (story.view.status, story.view.result) == ("done", "j said")


@pytest.mark.parametrize(
    ("edges", "busy", "most"),
    [
        (["a j", "b j"], "ab", 2),
        (["a j", "b j"], "b", 1),
        (["a j", "b j"], "bb", 2),
        (["a b", "b j"], "a", 1),
        (["a b", "b j"], "ab", 2),
        (["a b", "a c", "b j", "c j"], "a", 2),
        (["j k", "k a", "a j"], "a", 1),
        (["j k", "k a", "a j"], "", 0),
        (["a b", "b a", "b j"], "a", None),
        (["a a", "a j", "b j"], "b", 1),
        (["a k", "b j"], "a", 0),
    ],
)
def test_how_many_branches_can_come_at_most(edges: list[str], busy: str, most: int | None) -> None:
    assert flow_of(edges).most_coming("j", busy) == most


def flow_of(edges: list[str]) -> Graph:
    """A graph with these edges; one whose third word is a condition is taken where that holds."""
    ways = tuple(Edge.model_validate(edge(*one.split())) for one in edges)
    names = tuple(sorted({name for one in edges for name in one.split()[:2]} - {END}))
    return Graph(entry=names, nodes=tuple(Node(name=name, agent=name) for name in names), edges=ways)


@pytest.mark.parametrize(
    ("edges", "busy", "ends"),
    [
        (["a j", "j END"], "a", False),
        (["a j", "b END"], "ab", True),
        (["a j false", "a END"], "a", True),
        (["a j", "a END"], "a", False),
        (["a j", "a END false"], "a", False),
        (["a b", "b j"], "a", False),
        (["a b", "a c", "b j", "c END"], "a", True),
        (["a b", "b a", "b j"], "a", False),
        (["a b", "b j", "b c false", "c END"], "a", False),
        (["a b", "j b"], "a", True),
        (["a j", "b END"], "", False),
    ],
)
def test_whether_a_branch_can_end_while_none_comes_to_a_node(edges: list[str], busy: str, ends: bool) -> None:
    assert flow_of(edges).ends_without("j", busy) is ends
