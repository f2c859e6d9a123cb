"""Channels: what the conditions and expressions of a graph call the outputs of its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from ekiden.shared.conditions import is_identifier
from ekiden.shared.definitions.graph import Graph, Node
from ekiden.shared.definitions.model import AgentDefinition

__all__ = ["ITEM", "OUTPUTS", "Channels", "channel_of"]

OUTPUTS = "outputs"
"""The variable that has all outputs under the exact names of their channels, and of their nodes."""
ITEM = ("item", "index")
"""What the inputs of a node that is mapped over a list may name beside the channels."""
_OTHERS = (OUTPUTS, "state", "task")
_UNNAMED_OUTPUT = "result"


def channel_of(node: Node, agents: Mapping[str, AgentDefinition]) -> str:
    """Return what the node's output is called: its ``output``, else what its agent's file calls it, else its name."""
    agent = agents.get(node.runner)
    said = agent.output.name if agent is not None and agent.output is not None else _UNNAMED_OUTPUT
    return node.output or (said if said != _UNNAMED_OUTPUT else node.name)


@dataclass(frozen=True)
class Channels:
    """The channels of a graph."""

    by_node: Mapping[str, str]
    """Node to channel. Of nodes that write the same one, the latest output counts."""

    @classmethod
    def of(cls, graph: Graph, agents: Mapping[str, AgentDefinition]) -> Self:
        """Return those of ``graph``, with the definitions in force."""
        return cls({node.name: channel_of(node, agents) for node in graph.nodes})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that an expression may use."""
        return (*self._identifiers, *_OTHERS)

    def variables(
        self, outputs: Mapping[str, Any], state: Mapping[str, Any], task: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the variables of expressions; a channel without an output yet is null.

        Args:
            outputs: Channel to its latest output.
            state: The session's variables.
            task: What is to be known of the job.
        """
        named = {name: outputs.get(channel) for name, channel in self._identifiers.items()}
        nodes = {node: outputs.get(channel) for node, channel in self.by_node.items()}
        exact = {channel: outputs.get(channel) for channel in self.by_node.values()}
        return {**named, OUTPUTS: nodes | exact, "state": dict(state), "task": dict(task)}

    def meant(self, path: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return the channel that a path in an expression leads to, empty: none, and what of the path is left then."""
        if path[0] != OUTPUTS:
            return self._identifiers.get(path[0], ""), path[1:]
        name = path[1] if len(path) > 1 else ""
        return name if name in self.by_node.values() else self.by_node.get(name, ""), path[2:]

    def called(self, channel: str) -> list[str]:
        """Return the variables that are the output of ``channel``."""
        return [name for name, one in self._identifiers.items() if one == channel]

    @cached_property
    def _identifiers(self) -> dict[str, str]:
        """Identifier to channel: what is written so goes before what has ``-`` for ``_``, channels before nodes."""
        pairs = [(channel, channel) for channel in self.by_node.values()] + list(self.by_node.items())
        found: dict[str, str] = {}
        for name, channel in pairs + [(name.replace("-", "_"), channel) for name, channel in pairs]:
            if is_identifier(name) and name not in _OTHERS:
                found.setdefault(name, channel)
        return found
