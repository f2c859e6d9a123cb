"""A graph as the fields of an agent file that say it, in its short form where it has one."""

from typing import Any

from ekiden.shared.definitions.graph import Graph, Node
from ekiden.shared.definitions.graph_short_forms import take_graph
from ekiden.shared.definitions.problems import AgentFileError

__all__ = ["fields_of"]


def fields_of(graph: Graph) -> dict[str, Any]:
    """Return front matter that reads as ``graph``; a short form that is not read so any more is written out."""
    if graph.orchestrate is not None:
        short = {key: value for key, value in _short_form(graph).items() if value is not None}
        if _reads_as(short, graph):
            return short
    dumped = graph.model_dump(mode="json", exclude={"orchestrate"}, exclude_defaults=True)
    dumped["entry"] = graph.entry[0] if len(graph.entry) == 1 else list(graph.entry)
    return {"graph": {"entry": dumped.pop("entry"), **dumped}}


def _short_form(graph: Graph) -> dict[str, Any]:
    nodes = list(graph.nodes)
    fields: dict[str, Any] = {"orchestrate": graph.orchestrate}
    if graph.orchestrate == "parallel" and graph.merge is None:
        fields["merge"] = {"agent": nodes.pop().agent}
    elif graph.orchestrate == "parallel":
        fields["merge"] = graph.merge
    elif graph.orchestrate == "loop":
        fields["max_rounds"] = graph.max_rounds
        fields["until"] = next((edge.condition[2:-1] for edge in graph.edges if edge.condition), None)
    return {**fields, "agents": list(map(_entry, nodes))}


def _entry(node: Node) -> Any:
    fields = node.model_dump(mode="json", exclude_defaults=True)
    return node.agent if fields == {"name": node.agent, "agent": node.agent} else fields


def _reads_as(fields: dict[str, Any], graph: Graph) -> bool:
    try:
        read = take_graph(dict(fields))
    except AgentFileError:
        return False
    return read is not None and Graph(**read) == graph
