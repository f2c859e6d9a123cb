from typing import Any

import pytest

from ekiden.shared.conditions import Condition, Expression
from ekiden.shared.definitions.graph import Edge, Graph
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.definitions.graph_templates import filled
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "debug-flow", "description": "Mends bugs."}
OF_THE_SOURCE = {
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


def graph_of(**fields: Any) -> Graph:
    graph = definition_from(NAMED | fields, "").graph
    assert graph is not None
    return graph


def refused(**fields: Any) -> AgentFileError:
    with pytest.raises(AgentFileError) as caught:
        definition_from(NAMED | fields, "")
    return caught.value


def edges(graph: Graph) -> list[tuple[str, str, str]]:
    return [(edge.from_, edge.to, edge.condition) for edge in graph.edges]


def agent(name: str, output: str = "") -> AgentDefinition:
    return definition_from(
        {"name": name, "description": "d"} | ({"output": {"name": output}} if output else {}), "You work."
    )


def test_reads_the_graph_of_an_agent_file() -> None:
    graph = graph_of(graph=OF_THE_SOURCE)

    assert graph.entry == ("analyzer",)
    assert [(node.name, node.kind, node.runner) for node in graph.nodes] == [
        ("analyzer", "agent", "debug-analyzer"),
        ("fixer", "agent", "code-fixer"),
        ("reviewer", "agent", "code-reviewer"),
    ]
    assert edges(graph)[2] == ("analyzer", "END", "analysis.needs_human")


def test_a_definition_with_a_graph_is_stored_and_read_again() -> None:
    definition = definition_from(NAMED | {"graph": OF_THE_SOURCE}, "")

    assert AgentDefinition.from_json(definition.to_json()) == definition


def test_the_digest_of_an_agent_without_a_graph_does_not_know_of_graphs() -> None:
    assert "graph" not in agent("plain").model_dump()


def test_nodes_are_agents_graphs_tools_and_questions() -> None:
    graph = graph_of(
        graph={
            "entry": ["plan", "look"],
            "nodes": [
                "plan",
                {"graph": "inner", "name": "look", "inputs": {"limit": 3, "goal": "plan.goal"}, "retry": 2},
                {"tool": "write_file", "args": {"path": "${plan.path}"}, "for_each": "plan.files", "timeout": 60},
                {"name": "sure", "ask_user": "Is ${plan.path} right?", "join": "quorum:2", "output": "answer"},
            ],
            "edges": [
                {"from": "plan", "to": "write_file"},
                {"from": "write_file", "to": "sure"},
                {"from": "look", "to": "sure"},
            ],
            "state": {"attempts": 0},
        }
    )

    assert [(node.name, node.kind) for node in graph.nodes] == [
        ("plan", "agent"),
        ("look", "graph"),
        ("write_file", "tool"),
        ("sure", "ask_user"),
    ]
    assert graph.by_name["look"].inputs == {"limit": "3", "goal": "plan.goal"}
    assert graph.by_name["sure"].quorum == 2


def test_in_a_sequence_each_agent_follows_the_one_before() -> None:
    graph = graph_of(orchestrate="sequential", agents=["a", {"agent": "b", "retry": 1}, "a"])

    assert graph.entry == ("a",)
    assert edges(graph) == [("a", "b", ""), ("b", "a-2", "")]
    assert graph.by_name["a-2"].agent == "a"
    assert graph.orchestrate == "sequential"


@pytest.mark.parametrize("merge", ["list", "by_name"])
def test_agents_side_by_side_all_begin_the_job(merge: str) -> None:
    graph = graph_of(orchestrate="parallel", agents="a, b", merge=merge)

    assert (graph.entry, graph.edges, graph.merge) == (("a", "b"), (), merge)


def test_an_agent_may_put_the_answers_together() -> None:
    graph = graph_of(orchestrate="parallel", agents=["a", "b"], merge={"agent": "editor"})

    assert edges(graph) == [("a", "editor", ""), ("b", "editor", "")]
    assert graph.by_name["editor"].join == "all"


def test_a_loop_goes_back_until_its_condition_holds_or_its_rounds_are_over() -> None:
    graph = graph_of(orchestrate="loop", agents=["writer", "critic"], until="critic.ok", max_rounds=4)

    assert graph.edges[1:] == (
        Edge(from_="critic", to="writer", condition="!(critic.ok)", max_rounds=3),
        Edge(from_="critic", to="END", default=True),
    )
    assert graph.max_rounds == 4


@pytest.mark.parametrize(
    ("fields", "within", "said"),
    [
        ({"graph": "a -> b"}, (), "'graph' must be an object"),
        ({"graph": {"entry": "a", "nodes": ["a"], "edge": []}}, ("edge",), "Did you mean 'edges'?"),
        ({"graph": {"nodes": ["a"]}}, ("entry",), "'entry' must name the node"),
        ({"graph": {"entry": "a"}}, ("nodes",), "'nodes' must be a list of 1 to 500 nodes"),
        ({"graph": {"entry": "a", "nodes": [{"name": "a"}]}}, ("nodes", 0), "this one has none"),
        ({"graph": {"entry": "a", "nodes": ["b", {"agent": "a", "tool": "t"}]}}, ("nodes", 1), "has agent and tool"),
        ({"graph": {"entry": "a", "nodes": [{"agent": "a", "args": {"x": 1}}]}}, ("nodes", 0, "args"), "no effect"),
        ({"graph": {"entry": "a", "nodes": [{"ask_user": "Sure?"}]}}, ("nodes", 0), "needs a 'name'"),
        ({"graph": {"entry": "a", "nodes": [{"agent": "end"}]}}, ("nodes", 0, "name"), "cannot be named 'end'"),
        ({"graph": {"entry": "a", "nodes": [{"agent": "a", "retries": 2}]}}, ("nodes", 0, "retries"), "'retry'?"),
        ({"graph": {"entry": "a", "nodes": [{"agent": "a", "retry": 99}]}}, ("nodes", 0, "retry"), "between 0 and 10"),
        ({"graph": {"entry": "a", "nodes": [{"agent": "a", "join": "most"}]}}, ("nodes", 0, "join"), "quorum:<n>"),
        (
            {"graph": {"entry": "a", "nodes": [{"agent": "a", "inputs": {"x": "a ="}}]}},
            ("nodes", 0, "inputs", "x"),
            "cannot be read as CEL",
        ),
        (
            {"graph": {"entry": "a", "nodes": [{"tool": "a", "args": {"x": ["${a.b"]}}]}},
            ("nodes", 0, "args"),
            "does not end",
        ),
        ({"graph": OF_THE_SOURCE | {"edges": [{"from": "a"}]}}, ("edges", 0), "an edge needs 'to'"),
        (
            {"graph": OF_THE_SOURCE | {"edges": [{"from": "a", "to": "b", "condition": "a.b and c"}]}},
            ("edges", 0, "condition"),
            "CEL writes '&&'",
        ),
        (
            {"graph": OF_THE_SOURCE | {"edges": [{"from": "a", "to": "b", "condition": True}]}},
            ("edges", 0, "condition"),
            "put it in quotes",
        ),
        (
            {"graph": OF_THE_SOURCE | {"edges": [{"from": "a", "to": "b", "condition": "x", "default": True}]}},
            ("edges", 0),
            "leave one out",
        ),
        ({"graph": OF_THE_SOURCE | {"merge": {"agent": "x"}}}, ("merge",), "list or by_name"),
        ({"graph": OF_THE_SOURCE | {"max_rounds": 0}}, ("max_rounds",), "from 1 to 10000"),
        ({"graph": OF_THE_SOURCE | {"state": {"a b": 1}}}, ("state", "a b"), "a variable's name"),
    ],
)
def test_names_the_place_of_what_cannot_be_meant(fields: dict[str, Any], within: tuple[Any, ...], said: str) -> None:
    error = refused(**fields)

    assert said in str(error)
    assert (error.field, error.within) == ("graph", within)


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"orchestrate": "serial", "agents": ["a"]}, "orchestrate", "must be sequential, parallel, loop"),
        ({"orchestrate": "sequential"}, "agents", "must be a list"),
        ({"orchestrate": "sequential", "agents": ["a"], "until": "a.ok"}, "until", "it is for 'loop'"),
        ({"orchestrate": "loop", "agents": ["a"]}, "orchestrate", "a loop needs 'until'"),
        ({"orchestrate": "loop", "agents": ["a"], "until": "a.ok ="}, "until", "cannot be read as CEL"),
        ({"orchestrate": "loop", "agents": ["a"], "until": "a.ok", "max_rounds": 1}, "until", "Take it out"),
        ({"orchestrate": "parallel", "agents": ["a"], "merge": "sum"}, "merge", "{agent: NAME}"),
        ({"orchestrate": "loop", "graph": OF_THE_SOURCE}, "orchestrate", "leave one out"),
        ({"kind": "graph"}, "kind", "there is no 'graph'"),
    ],
)
def test_a_short_form_is_checked_like_the_long_one(fields: dict[str, Any], field: str, said: str) -> None:
    error = refused(**fields)

    assert said in str(error)
    assert error.field == field


def test_outputs_are_named_by_the_node_else_by_the_agent_else_after_the_node() -> None:
    say_it = {"name": "say-it", "tool": "t", "output": "said"}
    nodes = [*OF_THE_SOURCE["nodes"], say_it]
    graph = graph_of(graph=OF_THE_SOURCE | {"nodes": nodes, "entry": ["analyzer", "say-it"]})
    agents = {"debug-analyzer": agent("debug-analyzer", "analysis"), "code-fixer": agent("code-fixer")}
    channels = Channels.of(graph, agents)

    assert channels.by_node == {
        "analyzer": "analysis",
        "fixer": "fixer",
        "reviewer": "reviewer",
        "say-it": "said",
    }
    variables = channels.variables({"analysis": {"ok": True}}, {"n": 1}, {})
    assert Condition.parse("analysis.ok && analyzer.ok && fixer == null", channels.names).holds(variables)
    assert Expression.parse("outputs['say-it'] == null && say_it == null", channels.names).value(variables)


def test_a_channel_that_is_no_identifier_is_reached_by_its_exact_name() -> None:
    channels = Channels({"分析": "分析", "loop": "loop", "a-b": "a-b", "a_b": "a_b"})
    variables = channels.variables({"分析": {"可": 1}, "loop": 2, "a-b": 3, "a_b": 4}, {}, {})

    assert channels.names == ("a_b", "outputs", "state", "task")
    text = "[outputs['分析']['可'], outputs.loop, outputs['a-b'], a_b]"
    assert Expression.parse(text, channels.names).value(variables) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${fix.files}", ["a.py"]),
        ("look at ${fix.files} and ${fix.path}", 'look at ["a.py"] and b.py'),
        ("${ {'n': fix.n, 's': '}'} }", {"n": 2, "s": "}"}),
        ("$${fix.path}", "${fix.path}"),
        ("a $${fix.n} b ${fix.n}${fix.n} $", "a ${fix.n} b 22 $"),
        ({"deep": ["${fix.n}", 7, None]}, {"deep": [2, 7, None]}),
    ],
)
def test_expressions_within_texts_are_replaced_by_their_values(text: Any, value: Any) -> None:
    assert filled(text, {"fix": {"files": ["a.py"], "path": "b.py", "n": 2}}, ["fix"]) == value
