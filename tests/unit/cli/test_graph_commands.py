"""Pictures of graphs and teams, in this process, on a project of their own."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import ConfigurationError, InvalidRequest

FLOW = {
    "entry": "analyzer",
    "nodes": [
        {"name": "analyzer", "agent": "debug-analyzer"},
        {"name": "fixer", "agent": "code-fixer"},
        {"name": "reviewer", "agent": "code-reviewer"},
    ],
    "edges": [
        {"from": "analyzer", "to": "fixer", "condition": "analysis.can_auto_fix"},
        {"from": "fixer", "to": "reviewer", "condition": "fix.applied"},
        {"from": "analyzer", "to": "END", "condition": "analysis.needs_human"},
    ],
}
OUTPUTS = {"debug-analyzer": "analysis", "code-fixer": "fix", "code-reviewer": "review"}
AS_THE_SOURCE_SHOWS_IT = """\
📊 Agent Graph: debug-flow

Entry: analyzer

Nodes:
  • analyzer (debug-analyzer)
  • fixer (code-fixer)
  • reviewer (code-reviewer)

Edges:
  analyzer → fixer [if: analysis.can_auto_fix]
  fixer → reviewer [if: fix.applied]
  analyzer → END [if: analysis.needs_human]
"""


@pytest.fixture(autouse=True)
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent files of a project, which is the current folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".gemini" / "agents"
    folder.mkdir(parents=True)
    for name, output in OUTPUTS.items():
        write(folder, name, output={"name": output})
    write(folder, "debug-flow", kind="graph", graph=FLOW)
    return folder


def write(folder: Path, name: str, **fields: object) -> None:
    front = yaml.safe_dump({"name": name, "description": f"Does {name}.", **fields}, allow_unicode=True)
    body = "" if "graph" in fields or "orchestrate" in fields else "You work.\n"
    (folder / f"{name}.md").write_text(f"---\n{front}---\n{body}", "utf-8")


def ekiden(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def fine(*words: str) -> str:
    result = ekiden(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.mark.parametrize("words", [("agents", "graph", "visualize"), ("graph", "show")])
def test_a_graph_is_printed_as_the_source_shows_it(words: tuple[str, ...]) -> None:
    assert fine(*words, "debug-flow") == AS_THE_SOURCE_SHOWS_IT


def test_what_is_not_as_usual_with_a_node_or_an_edge_stands_in_brackets(agents: Path) -> None:
    nodes = [
        {"name": "plan", "agent": "code-fixer"},
        {"name": "look", "tool": "read_file", "args": {"path": "${item}"}, "for_each": "fix.files", "retry": 2},
        {"name": "sure", "ask_user": "Is it right?", "join": "any", "timeout": 60},
    ]
    edges = [
        {"from": "plan", "to": "look"},
        {"from": "look", "to": "plan", "condition": "size(look) > 1", "max_rounds": 3},
        {"from": "look", "to": "sure", "default": True},
    ]
    write(agents, "other", graph={"entry": ["plan", "sure"], "nodes": nodes, "edges": edges})
    said = fine("graph", "show", "other")

    assert "Entry: plan, sure\n" in said
    assert "  • look (tool read_file) [for each: fix.files; retry: 2]\n" in said
    assert "  • sure (asks: Is it right?) [join: any; timeout: 60 s]\n" in said
    assert "  look → plan [if: size(look) > 1; 3 at most]\n  look → sure [else]\n" in said


def test_a_short_form_is_shown_as_the_graph_that_it_is(agents: Path) -> None:
    write(agents, "both", orchestrate="parallel", agents=["code-fixer", "code-reviewer"])

    said = fine("graph", "show", "both")

    assert said.startswith("📊 Agent Graph: both (parallel)\n\nEntry: code-fixer, code-reviewer\n")
    assert said.endswith("Edges:\n  none\n")


def test_as_json_each_node_has_its_channel() -> None:
    found = json.loads(fine("graph", "show", "debug-flow", "--json"))

    assert [node["channel"] for node in found["nodes"]] == ["analysis", "fix", "review"]
    assert found["edges"] == FLOW["edges"]
    assert found["file"].endswith("debug-flow.md")


def test_mermaid_shows_texts_that_steer_nothing(agents: Path) -> None:
    nodes = [{"name": 'a"] --> b', "agent": "code-fixer"}]
    write(agents, "odd", graph={"entry": 'a"] --> b', "nodes": nodes})

    assert fine("graph", "show", "odd", "--mermaid") == (
        'flowchart TD\n    n0(["begin"])\n    n1["a#34;#93; --#62; b<br/>code-fixer"]\n    n0 --> n1\n'
    )


def test_mermaid_shows_where_a_graph_ends() -> None:
    said = fine("graph", "show", "debug-flow", "--mermaid")

    assert '    n4(["END"])\n' in said
    assert '    n1 -->|"if#58; analysis#46;needs#95;human"| n4\n' in said


def test_svg_shows_every_node_and_condition_as_text(agents: Path) -> None:
    write(agents, "修复流程", graph={"entry": "<b>修复</b>", "nodes": [{"name": "<b>修复</b>", "agent": "code-fixer"}]})
    flow = ElementTree.fromstring(fine("graph", "show", "debug-flow", "--svg"))
    texts = [node.text for node in flow.iter() if node.text and node.text.strip()]

    assert {"begin", "analyzer", "debug-analyzer", "END", "if: fix.applied"} <= set(texts)
    odd = ElementTree.fromstring(fine("graph", "show", "修复流程", "--svg"))
    assert "<b>修复</b>" in [node.text for node in odd.iter()]


def test_svg_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphlay", None)
    error = ekiden("graph", "show", "debug-flow", "--svg").exception

    assert isinstance(error, ConfigurationError)
    assert "pip install 'ekiden[svg]'" in str(error)


def test_one_form_is_shown() -> None:
    error = ekiden("graph", "show", "debug-flow", "--svg", "--json").exception

    assert isinstance(error, InvalidRequest)
    assert "--json and --svg are two forms" in str(error)


def test_an_agent_without_a_graph_is_named_with_its_file() -> None:
    error = ekiden("graph", "show", "code-fixer").exception

    assert isinstance(error, InvalidRequest)
    assert "code-fixer.md" in str(error)


def test_a_graph_that_names_what_is_not_there_is_shown_with_what_is_wrong(agents: Path) -> None:
    write(agents, "broken", graph={"entry": "a", "nodes": [{"name": "a", "agent": "nobody"}]})
    result = ekiden("graph", "show", "broken")

    assert "  • a (nobody)\n" in result.stdout
    assert "broken.md:" in result.stderr
    assert "'nobody', which does not exist" in result.stderr


def test_a_team_is_shown_with_its_handoffs_and_delegations(agents: Path) -> None:
    write(
        agents,
        "lead",
        handoffs=[{"to": "code-fixer", "condition": "state.ok"}, {"to": "code-reviewer", "when": "auto"}],
        subagents=["debug-analyzer"],
    )
    write(agents, "alone")
    said = fine("team", "show")

    assert "  lead → code-fixer [if: state.ok]\n" in said
    assert "  lead → code-reviewer [on completion]\n" in said
    assert "  lead ⇒ debug-analyzer\n" in said
    assert "  debug-flow ⇒ code-fixer\n" in said
    assert "alone (" not in said
    assert "• alone\n" in fine("team", "show", "--alone")


def test_a_team_is_drawn_and_told_as_json(agents: Path) -> None:
    auto = {"to": "code-fixer", "when": "auto", "condition": "state.ok"}
    write(agents, "lead", handoffs=[auto], subagents=[{"agent": "debug-analyzer", "description": "Ask it why."}])
    found = json.loads(fine("team", "show", "--json"))

    own = [edge for edge in found["edges"] if edge["from"] == "lead"]
    assert [(edge["to"], edge["kind"]) for edge in own] == [
        ("code-fixer", "automatic handoff"),
        ("debug-analyzer", "delegation"),
    ]
    assert [(edge["condition"], edge["description"]) for edge in own] == [("state.ok", ""), ("", "Ask it why.")]
    assert {"name": "debug-flow", "title": "debug-flow", "graph": True} in found["agents"]
    assert "-.->" in fine("team", "show", "--mermaid")
    assert ElementTree.fromstring(fine("team", "show", "--svg")).tag.endswith("svg")


def test_an_agent_with_a_graph_is_shown_with_it_and_has_no_prompt() -> None:
    assert "3 nodes, 3 edges (`ekiden graph show debug-flow`)" in fine("agents", "show", "debug-flow")
    error = ekiden("agents", "show", "debug-flow", "--prompt").exception

    assert isinstance(error, InvalidRequest)
    assert "has a graph, which runs in its place, and no prompt" in str(error)


def test_whoever_deletes_a_part_of_a_graph_is_told(agents: Path) -> None:
    assert "Agent 'debug-flow' still has a graph with 'debug-analyzer'" in fine(
        "agents", "delete", "debug-analyzer", "--yes"
    )


def test_a_part_of_a_graph_need_not_be_found_by_requests(agents: Path) -> None:
    vague = {"description": "It.", "triggers": {}}
    for name in ("part", "alone"):
        write(agents, name, **vague)
    write(agents, "whole", orchestrate="sequential", agents=["part"], description="Bakes bread and cakes.")
    found = json.loads(ekiden("agents", "validate", "--json").stdout)
    checks = {agent["name"]: [check["check"] for check in agent["checks"]] for agent in found["agents"]}

    assert "Found by requests" not in checks["part"]
    assert "Found by requests" in checks["alone"]


def test_the_label_of_an_edge_that_leads_back_stands_on_its_line(agents: Path) -> None:
    """The layout has it beside the picture, as far as that is wide."""
    nodes = ["code-fixer", "debug-analyzer", "code-reviewer"]
    edges = [
        {"from": "code-fixer", "to": "debug-analyzer"},
        {"from": "code-fixer", "to": "code-reviewer"},
        {"from": "code-reviewer", "to": "code-fixer", "condition": "!review.good_enough_to_be_printed"},
        {"from": "code-reviewer", "to": "END", "default": True},
    ]
    write(agents, "back", graph={"entry": "code-fixer", "nodes": nodes, "edges": edges})
    root = ElementTree.fromstring(fine("graph", "show", "back", "--svg"))
    places = {node.text: float(node.get("x", "nan")) for node in root.iter() if node.text and node.get("x")}
    boxes = [places[name] for name in nodes]

    assert min(boxes) - 120 <= places["if: !review.good_enough_to_be_printed"] <= max(boxes) + 120


def test_what_names_an_agent_whose_file_is_broken_says_so_and_the_team_does_too(agents: Path) -> None:
    (agents / "broken.md").write_text("---\nname: broken\ndescription: d\nlimits: {max_turns: many}\n---\nYou work.\n")
    write(agents, "needing", graph={"entry": "broken", "nodes": ["broken"]})
    write(agents, "passing", handoffs=["broken"])

    for name, where in (("needing", "runs 'broken', whose file has errors: "), ("passing", "hands over to 'broken', ")):
        said = " ".join(ekiden("agents", "validate", name).stdout.split())
        assert where in said
        assert "broken.md:4" in said
        assert "does not exist" not in said
    told = ekiden("team", "show").stderr
    assert "not shown, since their files have errors: broken, needing. `ekiden agents validate`" in told
