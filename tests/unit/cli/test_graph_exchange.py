"""Graphs for LangGraph and from it: ours come back as they were, and what the format does not carry is marked."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.langgraph import exported, imported
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_writing import fields_of
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import InvalidRequest
from tests.unit.cli.test_graph_commands import FLOW, OUTPUTS, write

LANGGRAPH = "LANGGRAPH_PYTHON"
"""The variable that names a Python which has langgraph."""
RICH = {
    "entry": ["plan", "ask"],
    "nodes": [
        {"name": "plan", "agent": "planner", "inputs": {"goal": "task.goal"}, "output": "计划"},
        {"name": "each", "graph": "inner", "for_each": "outputs['计划'].files", "inputs": {"path": "item"}, "retry": 2},
        {"name": "put", "tool": "write_file", "args": {"path": "${each[0]}", "deep": [1, {"a": None}]}, "timeout": 5.5},
        {"name": "ask", "ask_user": "Is ${plan} right?", "join": "quorum:1"},
    ],
    "edges": [
        {"from": "plan", "to": "each"},
        {"from": "each", "to": "put", "condition": "size(each) > 1", "max_rounds": 3},
        {"from": "put", "to": "each", "condition": "has(put.again)"},
        {"from": "put", "to": "END", "default": True},
        {"from": "each", "to": "END", "default": True},
    ],
    "state": {"attempts": 0},
    "max_rounds": 7,
    "merge": "list",
}
GRAPHS: list[dict[str, Any]] = [
    {"graph": FLOW},
    {"graph": RICH},
    {"orchestrate": "sequential", "agents": ["a", {"name": "twice", "agent": "a", "retry": 1}]},
    {"orchestrate": "parallel", "agents": ["a", "b"], "merge": "list"},
    {"orchestrate": "parallel", "agents": ["a", "b"], "merge": {"agent": "editor"}},
    {"orchestrate": "loop", "agents": ["a", "b"], "until": "b.ok && a.n > 1", "max_rounds": 4},
    {"orchestrate": "loop", "agents": ["a"], "max_rounds": 1},
]


def graph_of(fields: dict[str, Any]) -> Graph:
    graph = definition_from({"name": "flow", "description": "d", **fields}, "").graph
    assert graph is not None
    return graph


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent files of a project, which is the current folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".gemini" / "agents"
    folder.mkdir(parents=True)
    for name, output in OUTPUTS.items():
        write(folder, name, output={"name": output})
    return folder


def ekiden(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, words, input=typed)


def fine(*words: str, typed: str | None = None) -> Result:
    result = ekiden(*words, typed=typed)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*words: str, typed: str | None = None) -> str:
    error = ekiden(*words, typed=typed).exception
    assert isinstance(error, InvalidRequest)
    return str(error)


def document(*edges: dict[str, Any], nodes: str = "abc", **of_a: Any) -> str:
    """What LangGraph gives of a graph of these nodes."""
    found = [{"id": one, "type": "runnable", "data": {"name": one}} | (of_a if one == "a" else {}) for one in nodes]
    ends = [{"id": "__start__", "type": "schema"}, {"id": "__end__"}]
    return json.dumps({"nodes": [*found, *ends], "edges": list(edges)})


def way(source: str, target: str, label: str | None = None, *, conditional: bool = False) -> dict[str, Any]:
    said = {"data": label} if label else {}
    return {"source": source, "target": target} | said | ({"conditional": True} if conditional else {})


@pytest.mark.parametrize("fields", GRAPHS)
def test_the_fields_that_a_graph_is_written_in_read_as_it_and_as_it_was_written(fields: dict[str, Any]) -> None:
    written = fields_of(graph_of(fields))

    assert graph_of(written) == graph_of(fields)
    assert written.keys() == fields.keys()


@pytest.mark.parametrize("fields", GRAPHS)
def test_what_is_exported_is_imported_as_it_was(fields: dict[str, Any]) -> None:
    graph, file = graph_of(fields), {"name": "flow", "description": "流程", "tools": ["write_file"]}
    found = imported(json.loads(json.dumps(exported(graph, file))))

    assert graph_of({"graph": found.graph}).model_copy(update={"orchestrate": found.orchestrate}) == graph
    assert (found.file, found.notes) == (file, [])


def test_a_file_is_written_again_word_for_word_but_for_its_name(agents: Path) -> None:
    write(agents, "flow", kind="graph", graph=FLOW, version="2", limits={"max_turns": 5})
    text = fine("graph", "export", "flow", "--format", "langgraph").stdout
    said = fine("graph", "import", "-", "--name", "again", typed=text)

    first, second = (load_file(agents / f"{name}.md", "project")[0] for name in ("flow", "again"))
    assert first is not None
    assert second is not None
    assert second.model_copy(update={"name": "flow", "title": first.title}) == first
    assert "✅ Agent written" in said.stdout
    assert said.stderr == ""


def test_what_langgraph_shows_stands_in_its_places() -> None:
    found = exported(graph_of({"graph": FLOW}), {})

    assert [node["id"] for node in found["nodes"]] == ["__start__", "analyzer", "fixer", "reviewer", "__end__"]
    edges = [(one["source"], one["target"], one.get("data"), one.get("conditional")) for one in found["edges"]]
    assert edges == [
        ("__start__", "analyzer", None, None),
        ("analyzer", "fixer", "analysis.can_auto_fix", True),
        ("fixer", "reviewer", "fix.applied", True),
        ("analyzer", "__end__", "analysis.needs_human", True),
    ]


def test_conditions_that_are_functions_are_marked_and_the_file_is_not_used_until_they_are_written(
    agents: Path, tmp_path: Path
) -> None:
    text = document(
        way("__start__", "a"),
        way("a", "b", "yes", conditional=True),
        way("a", "b", "maybe", conditional=True),
        way("a", "__end__", "no", conditional=True),
        way("b", "c"),
        metadata={"__interrupt": "before"},
    )
    (tmp_path / "My_Graph.json").write_text(text)
    said = fine("graph", "import", "My_Graph.json")
    file = agents / "my-graph.md"

    assert "a → b (yes, maybe): when is it taken?" in said.stderr
    assert "'a' stops before it runs, for a person" in said.stderr
    assert "It is not used until it is complete" in said.stdout
    assert "# To complete: a → b (yes, maybe): when is it taken?" in file.read_text("utf-8")
    lines = file.read_text("utf-8").splitlines()
    _, problems = load_file(file, "project")
    assert [one.line for one in problems] == [1 + n for n, line in enumerate(lines) if "TODO" in line]
    assert "the condition 'TODO: yes, maybe' is to be completed" in problems[0].message

    for label in ("yes, maybe", "no"):
        file.write_text(file.read_text("utf-8").replace(f"'TODO: {label}'", "a.ok"), "utf-8")
    definition, problems = load_file(file, "project")
    assert definition is not None
    assert problems == []


def test_a_function_that_decides_where_a_graph_begins_becomes_an_agent() -> None:
    text = document(
        way("__start__", "a", "x", conditional=True),
        way("__start__", "b", conditional=True),
        way("a", "c"),
        way("b", "c"),
    )
    found = imported(json.loads(text))

    assert found.graph["entry"] == "start"
    assert found.graph["nodes"][0] == {"name": "start", "agent": "start"}
    assert found.graph["edges"][0] == {"from": "start", "to": "a", "condition": "TODO: x"}
    assert "a function decides where it begins" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "it is not what LangGraph's get_graph().to_json() gives"),
        ('{"nodes": [], "edges": {}}', "an object with the lists 'nodes' and 'edges'"),
        ('{"nodes": [{}], "edges": []}', "a node has no 'id'"),
        (document(way("__start__", "d")), "the target of an edge is 'd', which is no node"),
        (document(way("a", "b")), "no edge leads from '__start__'"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_no_graph_is_refused_and_nothing_is_written(agents: Path, text: str, said: str) -> None:
    before = sorted(agents.iterdir())

    assert said in refused("graph", "import", "-", typed=text)
    assert sorted(agents.iterdir()) == before


def test_an_agent_that_is_there_is_not_written_over(agents: Path) -> None:
    text = document(way("__start__", "a"), nodes="a")

    assert "exists already" in refused("graph", "import", "-", "--name", "code-fixer", typed=text)
    assert "it must be kebab-case" in refused("graph", "import", "-", "--name", "../code", typed=text)


IN_LANGGRAPH = """
import json, sys
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    x: int

graph = StateGraph(State)
for name in ("a", "b", "c"):
    graph.add_node(name, lambda state: state)
graph.add_edge(START, "a")
graph.add_conditional_edges("a", lambda state: "yes", {"yes": "b", "no": END})
graph.add_conditional_edges("b", lambda state: "c", ["c", "a"])
graph.add_edge("c", END)
theirs = graph.compile(interrupt_before=["c"]).get_graph().to_json()

ours = json.load(sys.stdin)
again = StateGraph(State)
names = {"__start__": START, "__end__": END}
by_source = {}
for node in ours["nodes"]:
    if node["id"] not in names:
        again.add_node(node["id"], lambda state: state, metadata=node["metadata"])
for edge in ours["edges"]:
    source, target = (names.get(edge[key], edge[key]) for key in ("source", "target"))
    if edge.get("conditional"):
        by_source.setdefault(source, {})[edge["data"]] = target
    else:
        again.add_edge(source, target)
for source, labels in by_source.items():
    again.add_conditional_edges(source, lambda state: "", labels)
print(json.dumps({"theirs": theirs, "ours": again.compile().get_graph().to_json()}))
"""


@pytest.mark.skipif(LANGGRAPH not in os.environ, reason=f"{LANGGRAPH} names no Python that has langgraph")
def test_langgraph_itself_reads_what_we_write_and_we_read_what_it_writes() -> None:
    ours = exported(graph_of({"graph": FLOW}), {})
    done = subprocess.run(
        [os.environ[LANGGRAPH], "-c", IN_LANGGRAPH], input=json.dumps(ours), capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)

    theirs = imported(found["theirs"])
    assert theirs.graph["edges"] == [
        {"from": "a", "to": "END", "condition": "TODO: no"},
        {"from": "a", "to": "b", "condition": "TODO: yes"},
        {"from": "b", "to": "a", "condition": "TODO"},
        {"from": "b", "to": "c", "condition": "TODO"},
        {"from": "c", "to": "END"},
    ]
    assert any("'c' stops before it runs" in one for one in theirs.notes)
    edges = {(one["source"], one["target"], one.get("data")) for one in found["ours"]["edges"]}
    assert edges >= {(one["source"], one["target"], one.get("data")) for one in ours["edges"]}
    assert {node["id"] for node in ours["nodes"]} == {node["id"] for node in found["ours"]["nodes"]}
