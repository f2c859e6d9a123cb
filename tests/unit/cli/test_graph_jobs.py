"""What people see of a graph in a job: its steps by node, and its picture with what each node does."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands import graph_job
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.chain import chain_json
from ekiden.dispatcher.cli.views.graph_text import graph_lines
from ekiden.dispatcher.cli.views.jobs import rows_of
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.cli.views.waterfall import UNICODE, waterfall
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.actors import Actor, Actors
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.graph_states import GraphStates, GraphView
from ekiden.dispatcher.journal.graphs import graph_of, graph_views
from ekiden.dispatcher.journal.replay import totals
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import InvalidRequest, ModelError
from ekiden.shared.prices import Prices
from ekiden.shared.stores.opening import Stores
from tests.doubles.otlp import read_document
from tests.scenarios.relay import Relay, team
from tests.unit.cli.graph_jobs import AGENTS, Journals, ran, says, steps_of
from tests.unit.cli.test_follower import impatient, run
from tests.unit.workers.test_graphs import ByLeg, agent, edge, graph
from tests.unit.workers.world import said, tool_named

__all__ = ["impatient"]  # a fixture


def shown(journals: Journals) -> list[str]:
    job = next(iter(journals))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    show_job_tree(job, in_order(journals), TerminalView(job, Output(stream)), None)
    stream.seek(0)
    return stream.read().replace(job, "J").splitlines()


def seen(catalog: Catalog, journals: Journals, name: str | None = None) -> GraphView:
    job = next(iter(journals))
    states = GraphStates(job, catalog.agents)
    for one, entry in in_order(journals):
        states.note(one, entry)
    found = states.view(name)
    assert found is not None
    return found


def states_of(view: GraphView) -> dict[str, str]:
    return {node.name: node.state for node in view.nodes}


def listed(view: GraphView) -> list[str]:
    symbols = Output(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).symbols
    return [line.text.replace(view.job, "J") for line in graph_lines(symbols, view.name, view.graph, view)]


NESTED = [
    graph({"name": "one", "graph": "inner"}, {"name": "two", "graph": "inner"}, edges=[edge("one", "two")]),
    {**graph({"name": "draft", "agent": "writer"}, "writer", edges=[edge("draft", "writer")]), "name": "inner"},
    agent("writer"),
]


def test_steps_are_told_by_node_so_that_two_of_one_agent_are_told_apart() -> None:
    lines = shown(ran()[1][-1])
    for line in (
        "draft (writer): one",
        "🧩 flow ⇒ check, length (2 child jobs)",
        "  🧩 check: write · job J.1",
        "  🧩 check ⇒ check[0] (checker), check[1] (checker) (2 child jobs)",
        "    ✅ check[1] (checker): right",
        "  ✅ length: measure()",
        "revise (writer): two",
        "draft (writer): three",
        '✅ decide (editor): {"good": true}',
    ):
        assert line in lines, lines


def test_the_nodes_of_a_graph_within_a_graph_are_told_with_the_node_around_them() -> None:
    _, steps = steps_of(*NESTED, replies={"writer": [said(word) for word in ("a", "b", "c", "d")]})
    lines = shown(steps[-1])

    assert [line for line in lines if line.startswith(("one/", "two/"))] == [
        "one/draft (writer): a",
        "one/writer: b",
        "two/draft (writer): c",
        "two/writer: d",
    ]


def test_chain_and_trace_tell_nodes_and_count_no_models_where_there_are_none() -> None:
    journals = ran()[1][-1]
    story = job_tree_story(next(iter(journals)), journals)
    lines = [line.text for line in waterfall(story, 160, UNICODE)]

    assert "10 model calls" in lines[0]  # and not those of the two calls that the graph makes itself
    assert "8 graph steps" in lines[0]
    assert lines[1].startswith(
        "user → flow → draft (writer) → flow → revise (writer) → decide (editor) → draft (writer)"
    )
    assert "handoff" not in lines[0]
    assert not [line for line in lines if "next:" in line or "graph 0 in" in line]
    assert any(line.startswith("  draft → check, length ") for line in lines)
    assert totals([story]) == "4 agents, 4 tools, 8 graph steps, 8 child jobs"
    legs = chain_json(story)["legs"]
    assert [(leg["node"], leg["agent"]) for leg in legs[:3]] == [("", "flow"), ("draft", "writer"), ("", "flow")]
    assert [child["node"] for child in legs[2]["children"]] == ["check", "length"]


def test_a_call_that_a_graph_makes_itself_is_no_span_of_a_model() -> None:
    journals = ran()[1][-1]
    spans = read_document(otlp_trace(journals, 0, Prices(), content=False))
    names = [span.name for span in spans]

    assert names.count("execute_tool measure") == 2
    assert [name for name in names if name.split()[0] in ("chat", "generate_content")] == ["chat test"] * 10


def test_a_job_that_is_shown_names_the_nodes_of_its_children(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: object) -> list[tuple[str, object]]:
        job = await in_hand(stores, 5)
        actors = Actors()
        for entry in await client.entries(job):
            actors.note(entry.record)
        return rows_of(await client.job(job), await client.children(job), [], actors)

    rows = run(valkey_url, scenario)
    assert [str(value).split(" ", 1)[1] for name, value in rows if name == "child"] == [
        "check suspended",
        "length queued",
    ]


def test_a_node_whose_tool_has_failed_is_told_as_failed_and_the_last_line_names_the_node_that_ended() -> None:
    assert Actor("", ("length",)).ended("unfinished") == "failed"
    assert Actor("writer", ("draft",)).ended("unfinished") == "unfinished"
    lines = shown(ran()[1][-1])
    assert lines[-1].startswith("user → flow → decide (editor) · ")


def test_who_follows_the_job_of_a_node_that_is_a_tool_is_told_of_no_model() -> None:
    journals = ran()[1][-1]
    job = f"{next(iter(journals))}.2"
    assert [line for line in shown({job: journals[job]}) if "measure" in line]
    assert not [line for line in shown({job: journals[job]}) if "Model:" in line]


def test_without_a_name_and_a_job_it_is_the_graph_of_the_newest_job(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = run(valkey_url, lambda stores, *_: in_hand(stores, 2))
    result = CliRunner().invoke(app, ["graph", "show", "--json", "--redis", valkey_url])
    found = json.loads(result.stdout)
    assert (found["job"], found["name"], found["status"]) == (job, "flow", "running")


def test_who_was_delegated_to_by_a_model_is_no_node() -> None:
    assert str(Actor("writer", ("edit", "draft"))) == "edit/draft (writer)"
    assert str(Actor("writer", ("edit", "writer"))) == "edit/writer"
    assert str(Actor("", ("length",))) == "length"
    assert str(Actor("writer")) == "writer"


def test_each_node_is_seen_to_run_to_wait_and_to_be_done() -> None:
    catalog, steps = ran()
    views = [seen(catalog, journals) for journals in steps if len(journals[next(iter(journals))]) > 4]
    told = [states_of(view) for view in views]

    assert told[0] == dict.fromkeys(["check", "length", "revise", "decide"], "open") | {"draft": "runs"}
    assert {"draft": "done", "check": "runs", "length": "runs", "revise": "open", "decide": "open"} in told
    assert {"draft": "done", "check": "runs", "length": "done", "revise": "open", "decide": "open"} in told
    assert told[-1] == dict.fromkeys(["draft", "check", "length", "revise", "decide"], "done")
    checks = [view.nodes[1] for view in views]
    assert list(dict.fromkeys(one.items for one in checks if one.rounds == 1)) == [(0, 2), (1, 2), (2, 2)]


def test_the_list_of_a_graph_says_what_each_node_does_and_how_often_edges_were_taken() -> None:
    catalog, steps = ran()

    assert listed(seen(catalog, steps[-1])) == [
        "📊 Agent Graph: flow · job J done",
        "",
        "Entry: draft",
        "",
        "Nodes:",
        "  ✓ draft (writer) · 2 rounds",
        "  ✓ check (checker) [for each: ['a', 'b']] · 2 rounds · 2 of 2 items",
        "  ✓ length (tool measure) · 2 rounds",
        "  ✓ revise (writer) · 2 rounds",
        "  ✓ decide (editor) · 2 rounds",
        "",
        "Edges:",
        "  draft → check · taken 2 times",
        "  draft → length · taken 2 times",
        "  check → revise · taken 2 times",
        "  length → revise · taken 2 times",
        "  revise → decide · taken 2 times",
        "  decide → draft [if: !verdict.good; 1 at most] · taken once",
        "  decide → END [else] · taken once",
    ]


def test_a_node_that_fails_is_marked_with_why_and_what_is_not_reached_stays_open() -> None:
    flow = graph({"name": "work", "agent": "a", "timeout": 60}, "b", edges=[edge("work", "b")])
    catalog, steps = steps_of(flow, agent("a"), agent("b"), replies={"a": [ModelError("no such model")]})
    view = seen(catalog, steps[-1])

    assert (view.status, states_of(view)) == ("failed", {"work": "failed", "b": "open"})
    assert "  ✗ work (a) [timeout: 60 s] · failed: no such model · job J.1" in listed(view)


def test_a_node_that_waits_for_a_person_says_so() -> None:
    flow = graph("a", {"name": "sure", "ask_user": "Is it right?"}, edges=[edge("a", "sure")])
    catalog, steps = steps_of(flow, agent("a"), replies={"a": [said("yes")]})

    assert "  ▶ sure (asks: Is it right?) · waits for a person · job J.1" in listed(seen(catalog, steps[-1]))
    assert any(line.startswith("  ⏳ sure waits for a person: ask_user (approval") for line in shown(steps[-1]))


def test_what_a_join_does_without_is_given_up() -> None:
    flow = graph(
        *("a", "b", {"name": "c", "join": "any", "agent": "c"}),
        edges=[edge("a", "c"), edge("b", "c")],
        entry=["a", "b"],
    )
    replies = {name: [said(name)] for name in "abc"}
    catalog, steps = steps_of(flow, *(agent(name) for name in "abc"), replies=replies)

    assert sorted(states_of(seen(catalog, steps[-1])).values()) == ["done", "done", "given_up"]


def test_of_several_graphs_the_first_is_shown_unless_one_is_named() -> None:
    catalog, steps = steps_of(*NESTED, replies={"writer": [said(word) for word in ("a", "b", "c", "d")]})

    assert seen(catalog, steps[-1]).name == "flow"
    inner = seen(catalog, steps[-1], "inner")
    assert (inner.run, [node.rounds for node in inner.nodes]) == (2, [1, 1])
    assert listed(inner)[0] == "📊 Agent Graph: inner · job J done (run 2 of it)"


def test_what_a_server_has_lost_does_not_count() -> None:
    catalog, steps = ran()
    journals = steps[-1]
    job = next(iter(journals))
    states = GraphStates(job, catalog.agents)
    for one, entry in in_order(journals):
        states.note(one, entry)
    for entry in journals[job][4:8]:  # again, from there on
        states.note(job, entry)
    short = seen(catalog, {job: journals[job][:8]})

    assert states.view() == short


async def in_hand(stores: Stores, steps: int, first: str = "flow") -> str:
    """A job on this server that has taken so many steps."""
    job, relay = await begun(stores, first)
    for _ in range(steps):
        await relay.step()
    return job


async def begun(stores: Stores, first: str = "flow") -> tuple[str, Relay]:
    relay = Relay(stores, team(*AGENTS), ByLeg(says()), tools=[tool_named("measure")])
    return await relay.submit("write", agent=first), relay


def test_a_graph_that_is_followed_is_given_each_time_that_it_changes(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: object) -> list[GraphView]:
        job, relay = await begun(stores)
        views = graph_views(client, job)
        first = asyncio.create_task(anext(views))
        await relay.step()
        await relay.step()
        async with asyncio.timeout(60):
            found = [await first]
            await relay.drain()
            return [*found, *[view async for view in views]]

    views = run(valkey_url, scenario)
    assert views[0].status == "running"
    assert views[-1].status == "done"
    assert len({id(view) for view in views}) == len(views) > 20
    assert all(one != other for one, other in pairwise(views))


def test_a_node_that_could_not_even_begin_is_marked_with_why_in_a_line() -> None:
    each = {"name": "each", "agent": "b", "for_each": "work"}
    flow = graph({"name": "work", "agent": "a"}, each, edges=[edge("work", "each")])
    catalog, steps = steps_of(flow, agent("a"), agent("b"), replies={"a": [said("no list " * 40)]})
    view = seen(catalog, steps[-1])

    assert (view.status, states_of(view)) == ("failed", {"work": "done", "each": "failed"})
    [line] = [line for line in listed(view) if "each (b)" in line]
    assert "· failed: graph 'flow': 'for_each' of node 'each' is " in line
    assert len(line) < 200


def test_the_state_that_is_told_of_a_graph_within_another_is_its_own() -> None:
    outer = graph({"name": "one", "graph": "inner"}, {"name": "two", "agent": "writer"}, edges=[edge("one", "two")])
    catalog, steps = steps_of(outer, *NESTED[1:], replies={"writer": [said(word) for word in ("a", "b", "c")]})
    of_inner = []
    for journals in steps:
        states = GraphStates(job := next(iter(journals)), catalog.agents)
        for entry in journals[job]:
            states.note(job, entry)
        if "inner" in states.names:
            views = [states.view(name) for name in ("flow", "inner")]
            of_inner.append(tuple(view.status for view in views if view))

    assert list(dict.fromkeys(of_inner)) == [("running", "running"), ("running", "done"), ("done", "done")]


def test_a_job_that_failed_before_anybody_got_it_says_so(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: object) -> str:
        relay = Relay(stores, team(agent("writer")), ByLeg({}))
        job = await relay.submit("write", agent="nobody-of-this-name")
        await relay.drain()
        with pytest.raises(InvalidRequest) as error:
            await graph_of(client, job)
        return str(error.value)

    assert "has come to no graph: failed (" in run(valkey_url, scenario)


@pytest.mark.parametrize(
    ("steps", "first", "below", "name", "why"),
    [
        (6, "flow", "", "other", "job J has not come to a graph 'other': it has flow"),
        (6, "flow", ".2", None, "job J.2 does node 'length' of graph 'flow', and no graph: `ekiden graph show flow"),
        (2, "writer", "", None, "job J has come to no graph, but to writer"),
        (0, "flow", "", None, "job J has come to no graph: nobody has got it yet"),
    ],
)
def test_a_job_without_the_graph_says_what_it_has(
    valkey_url: str, steps: int, first: str, below: str, name: str | None, why: str
) -> None:
    async def scenario(stores: Stores, client: Client, _: object) -> str:
        job = await in_hand(stores, steps, first)
        with pytest.raises(InvalidRequest) as error:
            await graph_of(client, f"{job}{below}", name)
        return str(error.value).replace(job, "J")

    assert run(valkey_url, scenario).startswith(why)


def test_who_follows_a_job_that_comes_to_no_graph_is_told_at_its_end(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: object) -> None:
        job = await in_hand(stores, 2, "writer")
        with pytest.raises(InvalidRequest, match="has come to no graph, but to writer"):
            await anext(graph_views(client, job))

    run(valkey_url, scenario)


Ekiden = Callable[..., Result]


@pytest.fixture
def ekiden(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Ekiden:
    """``graph show`` of a job that has ended."""

    async def make(stores: Stores, client: Client, _: object) -> str:
        return await in_hand(stores, 100)

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Client]:
        async with Client(valkey_url) as client:
            yield client

    job = run(valkey_url, make)
    monkeypatch.setattr(graph_job, "connected", connected)
    return lambda *words: CliRunner().invoke(app, ["graph", "show", "--job", job, *words])


def test_the_command_shows_a_job_in_every_form(ekiden: Ekiden) -> None:
    assert "  ✓ draft (writer) · 2 rounds\n" in ekiden("flow").stdout
    found = json.loads(ekiden("--json").stdout)
    assert (found["name"], found["status"], found["run"]) == ("flow", "done", 1)
    assert (found["nodes"][1]["state"], found["nodes"][1]["rounds"]) == ("done", 2)
    assert found["nodes"][1]["items"] == {"done": 2, "total": 2}
    assert (found["edges"][5]["condition"], found["edges"][5]["taken"]) == ("!verdict.good", 1)
    chart = ekiden("--mermaid").stdout
    assert '    n1 ==>|"taken 2 times"| n2\n' in chart
    assert "    class n1,n2,n3,n4,n5 done\n" in chart
    drawn = ElementTree.fromstring(ekiden("--svg").stdout)
    assert sum(node.get("fill") == "#d3f2dc" for node in drawn.iter()) == 5


def test_off_a_terminal_each_change_is_a_line(ekiden: Ekiden) -> None:
    lines = ekiden("--follow").stdout.splitlines()

    assert lines[0].endswith(" running")
    assert lines[1:4] == ["  ▶ draft (writer)", "  ✓ draft (writer)", "  draft → check · taken once"]
    assert "  ▶ draft (writer) · round 2" in lines
    assert lines[-1].endswith(" done")
    every = [json.loads(line) for line in ekiden("--follow", "--json").stdout.splitlines()]
    assert every[0]["nodes"][0]["state"] in ("waits", "runs")
    assert every[-1]["status"] == "done"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("flow", "--redis", "redis://x"), "--redis is for the graph of a job"),
        (("--job", "x", "--follow", "--svg"), "--follow shows the list, or --json"),
        (("--job", "x", "--agents-dir", "."), "--agents-dir has no effect on the graph of a job"),
    ],
)
def test_options_that_say_nothing_together_are_refused(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, ["graph", "show", *words]).exception

    assert isinstance(error, InvalidRequest)
    assert why in str(error)
