"""Whether the outputs of a graph are what its file takes them for: their channels, their fields, their way on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ekiden.shared.conditions import Condition, Expression
from ekiden.shared.definitions.graph import END, Graph, Node
from ekiden.shared.definitions.graph_channels import ITEM, OUTPUTS, Channels
from ekiden.shared.definitions.graph_templates import expressions_in
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import DefinitionError
from ekiden.shared.suggestions import nearest

__all__ = ["Outputs", "asked_at_edges", "expressions_of", "readers_of", "shared_channels"]

Place = tuple[str | int, ...]

_OPEN = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Keywords by which a value may have fields that ``properties`` does not name."""


class Outputs:
    """What is known of the outputs of a graph before it runs."""

    def __init__(self, graph: Graph, channels: Channels, agents: Mapping[str, AgentDefinition]) -> None:
        self._channels = channels
        self._written: dict[str, list[Node]] = {}
        """Channel to the nodes that write it."""
        for node in graph.nodes:
            self._written.setdefault(channels.by_node[node.name], []).append(node)
        self._agents = agents

    def fault_in(self, expression: Condition | Expression) -> str:
        """Say which field ``expression`` names that no output has, by the schemas of agents' files; empty: none."""
        for path in sorted(expression.paths):
            channel, rest = self._channels.meant(path)
            nodes = self._written.get(channel, ())
            lacking = [found for node in nodes if (found := _lacking(self._schema(node), rest)) is not None]
            if nodes and len(lacking) == len(nodes):
                return _told(path, nodes[-1], *lacking[-1])
            if nodes and rest and all(map(self._is_text, nodes)):
                said = (
                    f"{'.'.join(path)!r} is nothing that agent {nodes[-1].runner!r} gives: its file has no 'output', "
                )
                return f"{said}so that it is a text, which has no {rest[0]!r}. Add an 'output' with a 'schema' there"
        return ""

    def _is_text(self, node: Node) -> bool:
        """Tell whether a node gives a text for sure: nobody else answers for its agent, and nothing gives it a form."""
        agent = self._agents.get(node.runner)
        is_plain = agent is not None and agent.output is None and agent.graph is None and not agent.handoffs
        return is_plain and not node.for_each

    def _schema(self, node: Node) -> Mapping[str, Any]:
        agent = self._agents.get(node.runner)
        return {} if node.for_each or agent is None or agent.output is None else agent.output.schema_


def shared_channels(graph: Graph, channels: Channels) -> list[tuple[Place, str]]:
    """Return the nodes whose outputs have one channel though their file does not say so: one would hide the other."""
    by_channel: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        by_channel.setdefault(channels.by_node[node.name], []).append(number)
    found: list[tuple[Place, str]] = []
    for channel, numbers in by_channel.items():
        nodes = [graph.nodes[number] for number in numbers]
        if len(nodes) > 1 and not all(node.output for node in nodes):
            named = " and ".join(repr(node.name) for node in nodes)
            text = f"the nodes {named} write one channel, {channel!r}, in which only the latest output counts. Give "
            text += "each an 'output' of its own; the same one, where that is what you want"
            found += ((("nodes", number), text) for number in numbers)
    return found


def expressions_of(node: Node) -> Iterator[tuple[Place, str]]:
    """Yield the expressions by which a node is given something, each with its place in the node."""
    if node.for_each:
        yield ("for_each",), node.for_each
    for name, text in node.inputs.items():
        yield ("inputs", name), text
    for name, value in node.args.items():
        for text in expressions_in(value):
            yield ("args", name), text
    for text in expressions_in(node.ask_user):
        yield ("ask_user",), text


def readers_of(graph: Graph, channels: Channels, name: str) -> list[str]:
    """Return the nodes that can be given what node ``name`` has given by an expression, whatever edges there are."""
    channel = channels.by_node[name]
    names = {OUTPUTS, *channels.called(channel)}
    return [
        node.name
        for node in graph.nodes
        if any(any(one in text for one in names) and _reads(text, channels, channel) for _, text in _read(node))
    ]


def _read(node: Node) -> list[tuple[Place, str]]:
    with suppress(DefinitionError):  # of a file that nobody has checked: then nothing is given by it
        return list(expressions_of(node))
    return []


def _reads(text: str, channels: Channels, channel: str) -> bool:
    """Tell whether an expression can say something of a channel; of ``outputs`` without a name, of any."""
    with suppress(DefinitionError):  # as above
        paths = Expression.parse(text, (*channels.names, *ITEM)).paths
        return any(path == (OUTPUTS,) or channels.meant(path)[0] == channel for path in paths)
    return False


def asked_at_edges(graph: Graph, channels: Channels, agents: Mapping[str, AgentDefinition]) -> list[tuple[Place, str]]:
    """Return the nodes whose agents want a person to be asked about what they hand over: at edges nobody is."""
    found: list[tuple[Place, str]] = []
    for number, node in enumerate(graph.nodes):
        rails = agents[node.runner].guardrails if node.runner else ()
        asking = [rail for rail in rails if rail.policy == "ask" and "handoff" in rail.on]
        if asking and (_leads_on(graph, node) or readers_of(graph, channels, node.name)):
            for rail in asking:
                text = f"the guardrail {rail.name!r} of agent {node.runner!r} has a person asked about what it hands "
                text += "over, and at the edges of a graph nobody is. Give it another policy, or the node another agent"
                found.append((("nodes", number, node.kind), text))
    return found


def _leads_on(graph: Graph, node: Node) -> bool:
    return any(edge.to != END for edge in graph.edges_from(node.name))


def _lacking(schema: Mapping[str, Any], path: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the first name of ``path`` that values of ``schema`` have no field for, and the fields there are."""
    for name in path:
        fields = schema.get("properties")
        is_open = any(key in schema for key in _OPEN) or schema.get("additionalProperties", False) is not False
        if not isinstance(fields, Mapping) or not fields or is_open:
            return None
        if name not in fields:
            return name, list(fields)
        schema = fields[name] if isinstance(fields[name], Mapping) else {}
    return None


def _told(path: Sequence[str], node: Node, name: str, known: Sequence[str]) -> str:
    near = nearest(name, known, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(known[:10])}"
    said = (
        f"{'.'.join(path)!r} is nothing that agent {node.runner!r} gives: the 'schema' of its 'output' has no {name!r}"
    )
    return f"{said}. {advice}"
