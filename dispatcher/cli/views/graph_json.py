"""Graphs for programs."""

from typing import Any

from ekiden.dispatcher.journal.graph_states import GraphView, NodeView
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.redaction import redact

__all__ = ["graph_fields", "graph_json"]


def graph_fields(graph: Graph, channels: Channels) -> dict[str, Any]:
    """Return all that is read in a file, with the channel of each node."""
    fields = graph.model_dump(mode="json")
    for node in fields["nodes"]:
        node["channel"] = channels.by_node[node["name"]]
    return fields


def graph_json(view: GraphView) -> dict[str, Any]:
    """Return the same of a graph in a job, with what each node does, and how often each edge was taken."""
    fields = graph_fields(view.graph, view.channels)
    for node, one in zip(fields["nodes"], view.nodes, strict=True):
        node.update(_node(one))
    for edge in fields["edges"]:
        edge["taken"] = view.taken.get((edge["from"], edge["to"]), 0)
    return {"name": view.name, "job": view.job, "status": view.status, "run": view.run, **fields}


def _node(view: NodeView) -> dict[str, Any]:
    items = {"done": view.items[0], "total": view.items[1]} if view.items else None
    about = {"state": view.state, "rounds": view.rounds, "job": view.job or None, "items": items, "asks": view.asks}
    return {**about, "error": redact(view.error) or None}
