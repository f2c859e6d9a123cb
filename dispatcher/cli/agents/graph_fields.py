"""The graph of a new agent, said by options or asked for: its nodes, and what leads from one to the next."""

from collections.abc import Sequence
from typing import Any

from ekiden.shared.definitions.graph import END
from ekiden.shared.errors import InvalidRequest

__all__ = ["edge_of", "graph_of", "node_of"]


def graph_of(entry: str | None, nodes: Sequence[str], edges: Sequence[str]) -> dict[str, Any]:
    """Return ``graph`` of an agent's file; without an entry, that is the first node. Raises ``InvalidRequest``."""
    made = [node_of(text) for text in nodes]
    if not made:
        raise InvalidRequest("a graph has nodes: add --node NAME=AGENT")
    names = [one["name"] for one in made]
    graph: dict[str, Any] = {"entry": entry or names[0], "nodes": made, "edges": [edge_of(one, names) for one in edges]}
    if graph["entry"] not in names:
        raise InvalidRequest(f"the graph begins at {entry!r}, which is none of its nodes: {', '.join(names)}")
    return graph


def node_of(text: str) -> dict[str, str]:
    """Return the node that ``NAME=AGENT`` says; ``AGENT`` alone has the agent's name."""
    name, is_named, agent = (part.strip() for part in text.partition("="))
    if not name or (is_named and not agent):
        raise InvalidRequest(f"{text!r} is no node: give NAME=AGENT")
    return {"name": name, "agent": agent or name}


def edge_of(text: str, nodes: Sequence[str]) -> dict[str, str]:
    """Return the edge that ``FROM=TO`` or ``FROM=TO: CONDITION`` says, between nodes or to ``END``."""
    begin, _, rest = (part.strip() for part in text.partition("="))
    end, _, condition = (part.strip() for part in rest.partition(":"))
    if not begin or not end:
        raise InvalidRequest(f"{text!r} is no edge: give FROM=TO, or FROM=TO: CONDITION")
    for name, allowed in ((begin, nodes), (end, [*nodes, END])):
        if name not in allowed:
            raise InvalidRequest(f"{name!r} is no node of the graph: there are {', '.join(allowed)}")
    return {"from": begin, "to": end, **({"condition": condition} if condition else {})}
