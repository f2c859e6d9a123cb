"""What ``ekiden agents create`` takes beyond the basic fields: every option, read by the real loader."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.agents.extended import payload_of
from ekiden.dispatcher.cli.agents.group import app
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.memory import LongTerm
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import EkidenError
from tests.unit.cli.test_agents import ours, project

__all__ = ["project"]

SCHEMA = '{"type": "object", "properties": {"analysis": {"type": "string"}}}'


def made(*words: str) -> AgentDefinition:
    result = CliRunner().invoke(app, ["create", "flow", "--description", "Works.", *words])
    assert result.exit_code == 0, (result.output, result.exception)
    definition, problems = load_file(ours(Path.cwd()) / "flow.md", "project")
    assert problems == []
    assert definition is not None
    return definition


def test_a_handoff_has_its_condition_and_what_it_carries() -> None:
    flow = made(
        *("--handoff", "reviewer=When it is done.", "--when", "reviewer=task.status == 'done'"),
        *("--payload", 'reviewer={"files": ["a"], "count": 1, "by": {"name": "李"}, "is_done": true, "more": null}'),
    )
    (rule,) = flow.handoffs
    assert (rule.description, rule.condition) == ("When it is done.", "task.status == 'done'")
    assert rule.payload is not None
    assert rule.payload["properties"]["files"] == {"type": "array", "items": {"type": "string"}}
    assert rule.payload["properties"]["by"]["required"] == ["name"]
    assert rule.payload["required"] == ["files", "count", "by", "is_done", "more"]


def test_what_is_said_of_one_agent_stays_out_of_the_next_one_from_the_same_template() -> None:
    own = Path.home() / ".gemini" / "agents" / "templates"
    own.mkdir(parents=True)
    (own / "desk.md").write_text("---\ndescription: Takes requests.\nhandoffs: [{to: reviewer}]\n---\n\nAsk.\n")
    first = made("--template", "desk", "--when", "reviewer=task.status == 'done'")
    (ours(Path.cwd()) / "flow.md").unlink()
    second = made("--template", "desk")

    assert [rule.condition for agent in (first, second) for rule in agent.handoffs] == ["task.status == 'done'", ""]


def test_answers_are_held_to_a_schema() -> None:
    (rail,) = made("--schema", SCHEMA, "--on-violation", "repair").guardrails
    assert (rail.on, rail.policy) == (("output",), "repair")
    assert rail.schema_ is not None
    assert rail.schema_["properties"] == {"analysis": {"type": "string"}}


@pytest.mark.parametrize(
    ("notes", "meant"),
    [
        ("user", LongTerm(namespace="user")),
        ("shared: 商店", LongTerm(namespace="shared", shared="商店")),
    ],
)
def test_variables_and_notes_are_remembered(notes: str, meant: LongTerm) -> None:
    memory = made("--session-keys", "current_task, files", "--notes", notes).memory
    assert (memory.session, memory.long_term) == (("current_task", "files"), meant)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--trace", "llm,tool"], {"enabled": True, "events": ["llm", "tool"]}),
        (["--trace", ""], {"enabled": False}),
        (["--trace-backend", "console"], {"enabled": True, "backend": "console"}),
    ],
)
def test_tracing_is_narrowed(words: list[str], meant: dict[str, Any]) -> None:
    assert made(*words).extra["tracing"] == meant


def test_a_graph_runs_in_the_place_of_instructions() -> None:
    flow = made(
        *("--node", "analyzer=debugger", "--node", "reviewer"),
        *("--edge", "analyzer=reviewer: analyzer.ok == true", "--edge", "analyzer=END", "--edge", "reviewer=END"),
    )
    assert flow.graph is not None
    assert (flow.kind, flow.instructions.strip(), flow.graph.entry) == ("graph", "", ("analyzer",))
    assert [(node.name, node.agent) for node in flow.graph.nodes] == [
        ("analyzer", "debugger"),
        ("reviewer", "reviewer"),
    ]
    assert [(edge.from_, edge.to, edge.condition) for edge in flow.graph.edges] == [
        ("analyzer", "reviewer", "analyzer.ok == true"),
        ("analyzer", "END", ""),
        ("reviewer", "END", ""),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--when", "reviewer=true"], "nothing is handed over: add --handoff reviewer"),
        (["--handoff", "reviewer", "--when", "reviewer"], "is not NAME="),
        (["--handoff", "reviewer", "--when", "reviewer=state.a ="], "cannot be read as CEL"),
        (["--handoff", "reviewer", "--payload", "reviewer={"], "the payload's schema is no JSON"),
        (["--handoff", "reviewer", "--payload", "reviewer=[1]"], "must be a JSON object"),
        (["--subagent", "nobody"], "delegates to 'nobody'"),
        (["--pattern", "(?=x)"], "not a regular expression of RE2"),
        (["--schema", '{"type": "objct"}'], "the schema of 'valid-output'"),
        (["--schema", "{}"], "must be a JSON Schema"),
        (["--schema", SCHEMA, "--on-violation", "shout"], "'shout'"),
        (["--on-violation", "warn"], "give that, too"),
        (["--session-keys", "two words"], "letters, digits"),
        (["--notes", "everybody"], "agent, user, team or shared:NAME"),
        (["--notes", "shared:"], "must be a name"),
        (["--trace", "llm,tokens"], "'tokens' is nothing that is traced"),
        (["--trace-backend", "langsmith"], "is a setting of the deployment"),
        (["--entry", "a"], "add --node NAME=AGENT"),
        (["--node", "a="], "is no node: give NAME=AGENT"),
        (["--node", "a=debugger", "--entry", "b"], "begins at 'b', which is none of its nodes: a"),
        (["--node", "a=debugger", "--edge", "a=b"], "'b' is no node of the graph: there are a, END"),
        (["--node", "a=debugger", "--edge", "a"], "is no edge: give FROM=TO"),
        (["--node", "a=debugger", "--edge", "a=END: a.b ="], "cannot be read as CEL"),
        (["--node", "a=debuger"], "'debuger'"),
        (["--extended"], "nobody is there to be asked"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["create", "flow", "--description", "Works.", *words])
    assert isinstance(result.exception, EkidenError), result.output
    assert result.exception.exit_code == 2
    assert said in str(result.exception)
    assert not (ours(Path.cwd()) / "flow.md").exists()


def test_what_is_a_schema_already_stays_as_it_is() -> None:
    assert payload_of(SCHEMA)["properties"] == {"analysis": {"type": "string"}}
    assert payload_of('{"$ref": "#/$defs/a", "$defs": {"a": {}}}')["$ref"] == "#/$defs/a"
    assert payload_of('{"type": "bug"}')["properties"] == {"type": {"type": "string"}}
