import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.graph_references import broken_graphs
from ekiden.shared.definitions.loader import load_file, load_folder
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from, read_definition
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.strict_yaml import parse


def agent(name: str, **fields: Any) -> AgentDefinition:
    return definition_from({"name": name, "description": "d", **fields}, "You work.")


def flow(nodes: list[Any], edges: list[str], name: str = "flow", **fields: Any) -> AgentDefinition:
    """An agent with a graph whose edges are written ``a > b`` or ``a > b if CONDITION``."""
    return definition_from(
        {"name": name, "description": "d", "graph": {"entry": "a", "nodes": nodes, "edges": list(map(edge, edges))}}
        | fields,
        "",
    )


def edge(text: str) -> dict[str, Any]:
    way, _, condition = text.partition(" if ")
    ends = dict(zip(("from", "to"), way.split(" > "), strict=True))
    return ends | ({"default": True} if condition == "none" else {"condition": condition} if condition else {})


def problems_of(*agents: AgentDefinition) -> list[str]:
    return [problem.message for problem in build_catalog(agents)[1]]


@pytest.mark.parametrize(
    ("nodes", "edges", "within", "said"),
    [
        (["a", "b", "a"], ["a > b"], ("nodes", 2, "name"), "two nodes are named 'a'"),
        (["b"], [], ("entry",), "'entry' is 'a', which is no node. There are 'b'"),
        (["a", "b"], ["a > b", "a > b if a.ok"], ("edges", 1), "two edges lead from 'a' to 'b': merge them"),
        (["a", "fixer"], ["a > fixr"], ("edges", 0, "to"), "which is no node. Did you mean 'fixer'?"),
        (["a"], ["a > end"], ("edges", 0, "to"), "which is no node. Did you mean 'END'?"),
        (["a", "b"], ["a > b", "c > b"], ("edges", 1, "from"), "leads from 'c', which is no node"),
        (["a"], ["END > a"], ("edges", 0, "from"), "leads from END"),
        (["a", "b", "c"], ["a > b"], ("nodes", 2), "no way leads from 'entry' to the node 'c'"),
        (["a", "b"], ["a > b", "b > a"], ("edges", 1), "'a' → 'b' → 'a': nothing ends this round"),
        (["a", "b"], ["a > b", "b > b"], ("edges", 1), "'b' → 'b': nothing ends this round"),
        (["a", "b"], ["a > b", "b > a if none"], ("edges", 1), "nothing ends this round"),
        (["a", "b"], ["a > b", "b > a if b.again"], ("nodes", 0), "no way leads from the node 'a' to an end"),
        (["a", {"agent": "b", "join": "quorum:2"}], ["a > b"], ("nodes", 1, "join"), "only 1 can come to it"),
        (["a", "b"], ["a > b if none", "a > END if none"], ("edges", 1), "only one can be"),
    ],
)
def test_refuses_a_graph_that_cannot_be_gone_through(
    nodes: list[Any], edges: list[str], within: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(AgentFileError) as caught:
        flow(nodes, edges)

    assert said in str(caught.value)
    assert caught.value.within == within


def test_all_that_is_wrong_with_the_form_of_a_graph_is_told_each_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "flow.md"
    lines = [
        "name: flow",
        "description: d",
        "graph:",
        "  entry: a",
        "  nodes:",
        "    - {name: a, agent: w, for_each: 'size(', inputs: {x: 'b >'}, joim: any}",
        "    - {name: q, ask_user: ''}",
        "  edges:",
        "    - {from: a, to: q, when: 'true'}",
        "    - {from: q, to: END, condition: 'size(a) >'}",
        "  merge: lost",
    ]
    path.write_text("---\n" + "\n".join(lines) + "\n---\n")

    told = [(one.line, one.message.partition(". ")[0]) for one in load_file(path, "project")[1]]

    assert [line for line, _ in told] == [7, 8, 10, 11, 12]
    assert [said for _, said in told][:3] == [
        "'joim' of a node is not known",
        "'ask_user' of a node is empty: say what it is, or leave it out",
        "'when' of an edge is not known",
    ]
    path.write_text(path.read_text().replace(", joim: any", ""))
    assert [one.line for one in load_file(path, "project")[1]][:3] == [7, 7, 8], "two of one node"


def test_all_that_is_wrong_with_the_ways_of_a_graph_is_told() -> None:
    with pytest.raises(AgentFileError) as caught:
        flow(["a", "b", "c"], ["a > d", "a > END", "e > b"])
    told = [str(caught.value), *map(str, caught.value.others)]
    assert len(told) == 4
    assert "'d', which is no node" in told[0]
    assert "'e', which is no node" in told[1]


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (["a", "b"], ["a > b", "b > a if b.again", "b > END if none"]),
        (["a", "b", "c"], ["a > b", "a > c", "b > c"]),
        (["a", "b"], ["a > b", "b > a if none", "b > END if b.done"]),
        (["a", "b", {"agent": "c", "join": "quorum:2"}], ["a > b", "b > c", "a > c"]),
        (["a"], []),
    ],
)
def test_takes_a_graph_that_ends(nodes: list[Any], edges: list[str]) -> None:
    assert flow(nodes, edges).graph is not None


def test_a_graph_of_five_hundred_nodes_in_a_row_is_checked() -> None:
    names = ["a", *(f"n{number}" for number in range(499))]

    assert flow(names, [f"{one} > {other}" for one, other in pairwise(names)]).graph is not None


PLAIN = agent("a", output={"name": "analysis"})
ASKING = agent("b", inputs={"path": {"required": True}, "depth": {"type": "integer"}})


@pytest.mark.parametrize(
    ("nodes", "edges", "place", "said"),
    [
        (
            [{"name": "a", "agent": "aa"}],
            [],
            ("nodes", 0, "agent"),
            "runs 'aa', which does not exist. Did you mean 'a'?",
        ),
        ([{"name": "a", "agent": "flow"}], [], ("nodes", 0, "agent"), "runs 'flow', whose graph it is part of"),
        ([{"name": "a", "graph": "a"}], [], ("nodes", 0, "graph"), "the graph of 'a', which has none. Write 'agent'"),
        (["a", "c"], ["a > c if analysi.ok"], ("edges", 0, "condition"), "'analysi.ok' is unknown"),
        (["a", "c"], ["a > c if fix.ok"], ("edges", 0, "condition"), "The variables are analysis, c, a, outputs"),
        (["a", "b"], ["a > b"], ("nodes", 1), "does not give 'b' the input 'path', which it needs"),
        (
            ["a", {"agent": "b", "inputs": {"path": "a.x", "dept": 1}}],
            ["a > b"],
            ("nodes", 1, "inputs", "dept"),
            "Did you mean 'depth'?",
        ),
        (
            ["a", {"tool": "bash", "args": {}}],
            ["a > bash"],
            ("nodes", 1, "tool"),
            "calls 'bash', which 'tools' of 'flow'",
        ),
        (
            ["a", {"tool": "read_file", "args": {"path": "${item.x}"}}],
            ["a > read_file"],
            ("nodes", 1, "args", "path"),
            "'item.x' is unknown",
        ),
        (["a", {"name": "q", "ask_user": "${q.x + y}?"}], ["a > q"], ("nodes", 1, "ask_user"), "'y' is unknown"),
    ],
)
def test_an_agent_whose_graph_names_what_is_not_there_is_left_out(
    nodes: list[Any], edges: list[str], place: tuple[Any, ...], said: str
) -> None:
    catalog, problems = build_catalog([PLAIN, ASKING, agent("c"), flow(nodes, edges)])

    assert "flow" not in catalog
    assert said in problems[0].message
    assert problems[0].message.endswith("Agent 'flow' is left out")
    assert problems[0].place == ("graph", *place)


@pytest.mark.parametrize(
    ("node", "within", "said"),
    [
        (
            {"args": {"path": "a", "limits": 3}},
            ("args", "limits"),
            "'limits' that it does not take. Did you mean 'limit'?",
        ),
        (
            {"args": {"path": "${analysis.path}", "limit": 0}},
            ("args", "limit"),
            "limit: 0 is less than the minimum of 1",
        ),
        ({"args": {"path": ["a"]}}, ("args", "path"), "path: ['a'] is not of type 'string'"),
        ({"args": {"file_path": "${item}"}, "for_each": "['a']"}, ("args", "file_path"), "Did you mean 'path'?"),
        ({}, ("tool",), "without the argument 'path', which it needs. Add it to 'args'"),
    ],
)
def test_a_node_that_gives_a_tool_what_it_does_not_take_is_told(
    node: dict[str, Any], within: tuple[str, ...], said: str
) -> None:
    agents = [PLAIN, flow(["a", {"tool": "read_file", **node}], ["a > read_file"])]
    [(place, message), *_] = broken_graphs({one.name: one for one in agents})["flow"]
    assert said in message
    assert place == ("graph", "nodes", 1, *within)


def test_what_expressions_give_a_tool_is_left_to_the_job() -> None:
    nodes = ["a", {"tool": "read_file", "args": {"path": "${analysis.path}", "limit": "${analysis.limit}"}}]
    assert problems_of(PLAIN, flow(nodes, ["a > read_file"])) == []


def schema(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


FLAG = {"type": "boolean"}
FIELDS = schema(ok=FLAG, cause=schema(known=FLAG))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "analysis.okay",
            "'analysis.okay' is nothing that agent 'a' gives: the 'schema' of its 'output' has no 'okay'",
        ),
        ("analysis.okay", "Did you mean 'ok'?"),
        ("a.zzz || true", "It has ok, cause"),
        ("outputs['analysis']['cause'].zzz", "has no 'zzz'. It has known"),
        ("has(analysis.cause.knwon)", "Did you mean 'known'?"),
    ],
)
def test_a_condition_on_a_field_that_no_output_has_is_told_with_the_fields_there_are(condition: str, said: str) -> None:
    one = agent("a", output={"name": "analysis", "schema": FIELDS})

    found = problems_of(one, agent("c"), flow(["a", "c"], [f"a > c if {condition}"]))

    assert said in found[0]


@pytest.mark.parametrize(
    "output",
    [
        FIELDS | {"additionalProperties": True},
        {"anyOf": [FIELDS, schema(okay=FLAG)]},
        {"type": "object"},
        schema(okay={"type": "array", "items": FIELDS}),
        {},
    ],
)
def test_a_condition_may_name_what_the_schema_of_an_output_leaves_open(output: dict[str, Any]) -> None:
    one = agent("a", output={"name": "analysis", "schema": output})

    assert problems_of(one, agent("c"), flow(["a", "c"], ["a > c if analysis.okay[0].x"])) == []


def test_the_fields_of_an_output_are_not_those_of_a_list_or_of_a_variable_of_its_name() -> None:
    one = agent("a", output={"name": "analysis", "schema": FIELDS})
    each = {"name": "a", "agent": "a", "for_each": "state.files"}
    condition = "state.names.exists(analysis, analysis.length == 3) || analysis.exists(one, one.okay)"

    assert problems_of(one, agent("c"), flow([each, "c"], [f"a > c if {condition}"])) == []


def test_nodes_that_write_one_channel_are_both_told_unless_their_file_wants_it_so() -> None:
    both = [agent(name, output={"name": "report"}) for name in ("a", "b")]
    catalog, problems = build_catalog([*both, flow(["a", "b"], ["a > b"])])

    assert "flow" not in catalog
    assert [problem.place for problem in problems] == [("graph", "nodes", 0), ("graph", "nodes", 1)]
    assert "the nodes 'a' and 'b' write one channel, 'report'" in problems[0].message
    wanted = [{"agent": name, "output": "report"} for name in ("a", "b")]
    assert problems_of(*both, flow(wanted, ["a > b"])) == []
    assert problems_of(*both, flow(["a", {"agent": "b", "output": "other"}], ["a > b"])) == []


def test_an_agent_that_has_people_asked_about_a_handoff_is_no_node_that_others_follow() -> None:
    asks = agent("a", guardrails=[{"name": "sure", "on": "handoff", "max_length": 9, "policy": "ask"}])

    [found] = problems_of(asks, agent("c"), flow(["a", "c"], ["a > c"]))

    assert "the guardrail 'sure' of agent 'a' has a person asked about what it hands over" in found
    last = [{"name": "a", "agent": "c"}, {"name": "b", "agent": "a"}]
    assert problems_of(asks, agent("c"), flow(last, ["a > b"])) == []

    reads = {"name": "d", "agent": "c", "inputs": {"objective": "b"}}
    [found] = problems_of(asks, agent("c"), flow([*last, "c", reads], ["a > b", "a > c", "c > d"]))
    assert "the guardrail 'sure' of agent 'a'" in found


def test_what_a_node_is_mapped_over_is_known_to_its_inputs() -> None:
    each = {"agent": "b", "for_each": "analysis.files", "inputs": {"path": "item.path", "depth": "index + state.n"}}

    assert problems_of(PLAIN, ASKING, flow(["a", each], ["a > b"])) == []


def test_a_tool_that_the_file_allows_may_be_a_node() -> None:
    nodes = ["a", {"tool": "bash", "args": {"command": "ls ${analysis.path}"}}]

    assert problems_of(PLAIN, flow(nodes, ["a > bash"], tools=["bash"])) == []


def test_graphs_that_run_each_other_are_both_left_out() -> None:
    one = flow([{"name": "a", "graph": "two"}], [], "one")
    two = flow([{"name": "a", "agent": "three"}], [], "two")
    three = flow([{"name": "a", "agent": "one"}], [], "three")
    catalog, problems = build_catalog([one, two, three, agent("x", handoffs=["one"])])

    assert catalog.names == ("x",)
    assert "'one' → 'two' → 'three' → 'one': these graphs run each other without end" in problems[0].message
    assert catalog.definition("x").handoffs == ()


def test_a_graph_around_one_that_is_left_out_is_left_out_and_says_why() -> None:
    _, problems = build_catalog([flow([{"name": "a", "agent": "inner"}], []), flow(["a"], [], "inner")])

    assert [problem.file for problem in problems] == ["inner", "flow"]
    assert "runs 'inner', which is left out itself" in problems[1].message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"guardrails": [{"name": "r", "on": "delegation", "validator": "no_pii"}]},
            "write 'handoff', which is at each",
        ),
        ({"guardrails": [{"name": "r", "validator": "no_pii", "policy": "ask"}]}, "add a node with 'ask_user'"),
        ({"guardrails": [{"name": "r", "on": "handoff", "validator": "no_pii", "policy": "ask"}]}, "write 'reject'"),
        ({"handoffs": ["b"]}, "add a node for 'b', and an edge to it in the place of END"),
        ({"output": {"state": {"x": "y"}}}, "'state' of 'output' of an agent with a graph would not be heeded"),
        ({"output": {"process": "json"}}, "write it into the agent that answers"),
    ],
)
def test_what_guards_or_decides_beside_a_graph_is_refused_since_nothing_would_heed_it(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(AgentFileError) as caught:
        flow(["a"], [], **fields)

    assert said in str(caught.value)
    assert caught.value.field == next(iter(fields))


def test_guardrails_and_the_schema_of_the_answer_stand_beside_a_graph() -> None:
    rail = {"name": "clean", "on": ["input", "output", "handoff", "tool_input"], "validator": "no_secrets"}
    asks = {"name": "sure", "on": "tool_input", "max_length": 10, "policy": "ask"}
    output = {"name": "report", "schema": {"type": "object"}}

    made = flow(["a"], [], guardrails=[rail, asks], output=output)

    assert [one.name for one in made.guardrails] == ["clean", "sure"]
    assert made.output is not None


def test_the_model_beside_a_graph_is_the_one_that_its_guardrails_ask() -> None:
    front = {
        "name": "flow",
        "description": "d",
        "orchestrate": "sequential",
        "agents": ["a"],
        "model": "gemini-2.5-pro",
    }
    rail = {"name": "kind", "on": "output", "prompt": "It is kind."}

    assert [field for field, _ in read_definition(front, "").notes] == ["model"]
    assert read_definition({**front, "guardrails": [rail]}, "").notes == []


@pytest.mark.parametrize(
    "fields",
    [{"model": "gemini-2.5-pro"}, {"memory": True}, {"complete_task": True}, {"temperature": 1}, {"subagents": "b"}],
)
def test_what_a_graph_leaves_nothing_to_do_for_is_told(fields: dict[str, Any]) -> None:
    front = {"name": "flow", "description": "d", "orchestrate": "sequential", "agents": ["a"], **fields}
    [(field, said)] = read_definition(front, "").notes

    assert field == next(iter(fields))
    assert "has no effect in an agent with a graph" in said
    assert [at for at, _ in read_definition({**front, field: None}, "You work.").notes] == ["graph"]


GRAPH = """---
name: flow
description: d
graph:
  entry: a
  nodes:
    - name: a
      agent: {agent}
    - {{name: 修复, agent: a}}
  edges:
    - {{from: a, to: 修复,
       condition: "{condition}"}}
---
"""


@pytest.mark.parametrize(
    ("agent", "condition", "line", "said"),
    [
        ("a", "a.ok &", 12, "cannot be read as CEL"),
        ("b", "a.ok", 8, "'b', which does not exist"),
        ("a", "fix.ok", 12, "'fix.ok' is unknown"),
    ],
)
def test_an_error_has_the_line_of_the_node_or_edge(
    tmp_path: Path, agent: str, condition: str, line: int, said: str
) -> None:
    file = tmp_path / "flow.md"
    file.write_text(GRAPH.format(agent=agent, condition=condition), encoding="utf-8")
    (tmp_path / "a.md").write_text("---\nname: a\ndescription: d\n---\nYou work.\n")
    loaded = load_folder(tmp_path, "project")
    _, problems = build_catalog(loaded.definitions, loaded.sources)

    [problem] = [*loaded.problems, *problems]
    assert (problem.file, problem.line) == (str(file), line)
    assert said in problem.message


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("!a.ok", "a text that begins with '!', such as a condition, is put in quotes"),
        ("'x' in a.list", "a text that begins with a quote ends with one: put the whole of it in quotes"),
    ],
)
def test_a_condition_that_yaml_takes_for_something_else_is_told_to_be_put_in_quotes(
    tmp_path: Path, condition: str, said: str
) -> None:
    file = tmp_path / "flow.md"
    edge = f"edges:\n    - from: a\n      to: END\n      condition: {condition}\n"
    file.write_text(f"---\nname: flow\ndescription: d\ngraph:\n  entry: a\n  nodes: [a]\n  {edge}---\n", "utf-8")
    definition, [problem] = load_file(file, "project")

    assert definition is None
    assert problem.line == 10
    assert said in problem.message


def test_a_file_with_a_graph_needs_no_body(tmp_path: Path) -> None:
    file = tmp_path / "flow.md"
    file.write_text(GRAPH.format(agent="a", condition="a.ok"), encoding="utf-8")

    definition, problems = load_file(file, "project")

    assert definition is not None
    assert problems == []


def test_the_graphs_of_the_documents_are_sound() -> None:
    text = (Path(__file__).parents[3] / "docs" / "graphs.md").read_text("utf-8")
    blocks = [parse(block.strip("-\n"), 1).fields for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    blocks = [
        one if one.keys() & {"graph", "orchestrate"} else blocks[0] | one for one in blocks
    ]  # it stands beside one
    flows = [definition_from({"name": f"flow-{n}", "description": "d", **one}, "") for n, one in enumerate(blocks)]
    names = {node.runner for one in flows for node in (one.graph.nodes if one.graph else ())}
    outputs = {"debug-analyzer": "analysis", "code-fixer": "fix"}

    assert len(flows) == 5
    assert problems_of(*flows, *(agent(name, output={"name": outputs.get(name, "result")}) for name in names)) == []


def test_an_expression_with_a_name_that_is_not_ascii_says_how_it_is_written() -> None:
    with pytest.raises(AgentFileError, match=r"in brackets and quotes: outputs\[\"分析\"\]\[\"原因\"\]"):
        flow(["a", "b"], ['a > b if outputs["分析"].原因'])
    flow(["a", "b"], ['a > b if outputs["分析"]["原因"]'])


@pytest.mark.parametrize("field", ["agents", "until", "max_rounds", "merge"])
def test_what_belongs_to_an_orchestrator_is_told_without_one(field: str) -> None:
    fields = {"name": "flow", "description": "d", field: "a"}
    notes = read_definition(fields, "You work.").notes
    assert [text for key, text in notes if key == field] == [
        f"'{field}' has no effect without 'orchestrate': add 'orchestrate', or leave it out"
    ]
    beside = read_definition(fields | {"graph": {"entry": "a", "nodes": ["a"]}}, "").notes
    assert f"'{field}' has no effect without 'orchestrate': write it into 'graph'" in [text for _, text in beside]


def test_a_field_of_an_agent_that_gives_a_text_is_an_error_and_what_may_have_one_is_none() -> None:
    [said] = problems_of(flow(["a", "b"], ["a > b if a.lenght > 3", "a > END if none"]), agent("a"), agent("b"))
    assert "'a.lenght' is nothing that agent 'a' gives: its file has no 'output', so that it is a text" in said
    for other in (agent("a", handoffs=["b"]), agent("a", output={"name": "a", "schema": {"type": "object"}})):
        assert not problems_of(flow(["a", "b"], ["a > b if a.lenght > 3", "a > END if none"]), other, agent("b"))
    mapped = {"name": "a", "agent": "a", "for_each": "task.inputs.list"}
    for nodes, condition in (([mapped, "b"], "a[0].x == 1"), (["a", "b"], "a.contains('x') && a.size() > 3")):
        assert not problems_of(flow(nodes, [f"a > b if {condition}", "a > END if none"]), agent("a"), agent("b"))
