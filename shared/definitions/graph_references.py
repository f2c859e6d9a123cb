"""Whether what the graph of an agent names is there: agents, graphs, inputs, tools, and outputs in its expressions."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ekiden.shared.conditions import Condition, Expression
from ekiden.shared.definitions.agent_inputs import OBJECTIVE
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_arguments import wrong_arguments
from ekiden.shared.definitions.graph_channels import ITEM, Channels
from ekiden.shared.definitions.graph_outputs import Outputs, asked_at_edges, expressions_of, shared_channels
from ekiden.shared.definitions.graph_shape import place_in
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.tool_arguments import BUILTIN_SCHEMAS
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.errors import DefinitionError
from ekiden.shared.suggestions import nearest

__all__ = ["broken_graphs"]

Place = tuple[str | int, ...]

NONE: Mapping[str, str] = MappingProxyType({})


def broken_graphs(
    agents: Mapping[str, AgentDefinition], known: Collection[str] = (), broken: Mapping[str, str] = NONE
) -> dict[str, list[tuple[Place, str]]]:
    """Return what is wrong with the graphs of agents, by agent: the places in its file, and messages with the remedies.

    Args:
        agents: Those that stand, by name.
        known: The names of all, also of those that were left out.
        broken: Agents that are not there because their files have errors, each with the place of the first one.
    """
    missing = Missing(agents, known, broken)
    found = {name: list(_faults(agent, agents, missing)) for name, agent in sorted(agents.items()) if agent.graph}
    return {name: faults for name, faults in found.items() if faults}


class Missing(NamedTuple):
    """Why an agent is not there."""

    agents: Mapping[str, AgentDefinition]
    known: Collection[str]
    broken: Mapping[str, str]

    def why(self, name: str) -> str:
        """Say it, and what to do."""
        if name in self.known:
            return "which is left out itself. Mend that one"
        if name in self.broken:
            return f"whose file has errors: {self.broken[name]}. Mend that one"
        near = nearest(name, self.agents, n=1)
        return f"which does not exist. {f'Did you mean {near[0]!r}?' if near else 'Add that agent, or name another'}"


def _faults(
    agent: AgentDefinition, agents: Mapping[str, AgentDefinition], missing: Missing
) -> Iterator[tuple[Place, str]]:
    graph = agent.graph
    assert graph is not None
    named = [*_unknown(agent, graph, agents, missing), *_forbidden(agent, graph)]
    if not named:  # without the agents, it is not known what outputs are called
        channels = Channels.of(graph, agents)
        named = [*_inputs(graph, agents), *_arguments(graph), *_expressions(graph, channels, agents)]
        named += [*_nested(agent, agents), *shared_channels(graph, channels), *asked_at_edges(graph, channels, agents)]
    for place, message in named:
        yield place_in(graph, place), message


def _nested(agent: AgentDefinition, agents: Mapping[str, AgentDefinition]) -> Iterator[tuple[Place, str]]:
    passed = {agent.name: ""}
    waiting = [agent.name]
    while waiting:
        above = waiting.pop()
        for below in _run_by(agents[above]) if above in agents else ():
            if below == agent.name:
                text = " → ".join(map(repr, [*_path(above, passed), below]))
                yield ("nodes",), f"{text}: these graphs run each other without end. Take one out of the other"
                return
            if below not in passed:
                passed[below] = above
                waiting.append(below)


def _path(last: str, above: Mapping[str, str]) -> list[str]:
    path = [last]
    while above[path[0]]:
        path.insert(0, above[path[0]])
    return path


def _run_by(agent: AgentDefinition) -> list[str]:
    return [node.runner for node in agent.graph.nodes if node.runner] if agent.graph else []


def _unknown(
    agent: AgentDefinition, graph: Graph, agents: Mapping[str, AgentDefinition], missing: Missing
) -> Iterator[tuple[Place, str]]:
    for number, node in enumerate(graph.nodes):
        place = ("nodes", number, node.kind)
        if not node.runner:
            continue
        if node.runner == agent.name:
            yield place, f"the node {node.name!r} runs {agent.name!r}, whose graph it is part of. Name another"
        elif node.runner not in agents:
            yield place, f"the node {node.name!r} runs {node.runner!r}, {missing.why(node.runner)}"
        elif node.graph and agents[node.graph].graph is None:
            yield place, f"the node {node.name!r} runs the graph of {node.graph!r}, which has none. Write 'agent'"


def _forbidden(agent: AgentDefinition, graph: Graph) -> Iterator[tuple[Place, str]]:
    for number, node in enumerate(graph.nodes):
        if node.tool and not agent.permits(node.tool, only_reads=node.tool not in BUILTIN_TOOLS):
            said = f"the node {node.name!r} calls {node.tool!r}, which 'tools' of {agent.name!r} does not allow"
            yield ("nodes", number, "tool"), f"{said}. Add it there"


def _inputs(graph: Graph, agents: Mapping[str, AgentDefinition]) -> Iterator[tuple[Place, str]]:
    for number, node in enumerate(graph.nodes):
        if not node.runner:
            continue
        schema = agents[node.runner].inputs_schema
        for name in node.inputs:
            if name not in schema["properties"]:
                near = nearest(name, schema["properties"], n=1)
                advice = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(schema['properties'])}"
                said = f"the node {node.name!r} gives {node.runner!r} an input {name!r} that it does not have"
                yield ("nodes", number, "inputs", name), f"{said}. {advice}"
        for name in schema["required"]:
            if name not in node.inputs and name != OBJECTIVE and "default" not in schema["properties"][name]:
                said = f"the node {node.name!r} does not give {node.runner!r} the input {name!r}, which it needs"
                yield ("nodes", number), f"{said}. Add it to 'inputs'"


def _arguments(graph: Graph) -> Iterator[tuple[Place, str]]:
    for number, node in enumerate(graph.nodes):
        if node.tool in BUILTIN_SCHEMAS:
            for place, message in wrong_arguments(node, BUILTIN_SCHEMAS[node.tool]):
                yield ("nodes", number, *place), message


def _expressions(
    graph: Graph, channels: Channels, agents: Mapping[str, AgentDefinition]
) -> Iterator[tuple[Place, str]]:
    outputs = Outputs(graph, channels, agents)
    for number, edge in enumerate(graph.edges):
        if edge.condition and (said := _fault(Condition, edge.condition, channels.names, outputs)):
            yield ("edges", number, "condition"), f"the edge from {edge.from_!r} to {edge.to!r}: {said}"
    for number, node in enumerate(graph.nodes):
        for key, text in expressions_of(node):
            names = (*channels.names, *(ITEM if node.for_each and key[0] != "for_each" else ()))
            if said := _fault(Expression, text, names, outputs):
                yield ("nodes", number, *key), f"the node {node.name!r}: {said}"


def _fault(kind: type[Condition | Expression], text: str, names: tuple[str, ...], outputs: Outputs) -> str:
    try:
        return outputs.fault_in(kind.parse(text, names))
    except DefinitionError as error:
        return str(error)
