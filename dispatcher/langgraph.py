"""Graphs in the format of LangGraph's ``get_graph().to_json()``, and from it.

``{nodes: [{id, type, data: {id, name}, metadata?}], edges: [{source, target, data?, conditional?}]}``, from
``__start__`` to ``__end__`` (langchain_core.runnables.graph, version 1.8). The format has no conditions: what decides
is a function, of which there is the label of its answer at most, in ``data``. Ours has the condition there, and in
``metadata.ekiden`` what else the format cannot say, so that what was exported is imported as it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.shared.definitions.graph import END, Edge, Graph, Node
from ekiden.shared.definitions.graph_parsing import TO_COMPLETE
from ekiden.shared.errors import InvalidRequest

__all__ = ["Imported", "exported", "imported"]

_START, _END, _OURS, _INTERRUPT = "__start__", "__end__", "ekiden", "__interrupt"


def exported(graph: Graph, file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a graph in LangGraph's format.

    Args:
        graph: The graph.
        file: What else its file says: the front matter without the graph.
    """
    rest = graph.model_dump(mode="json", exclude={"entry", "nodes", "edges"}, exclude_defaults=True)
    begin = {**_runnable(_START, "graph"), "metadata": {_OURS: {"file": dict(file), **rest}}}
    nodes = [begin, *map(_exported_node, graph.nodes)]
    if any(edge.to == END for edge in graph.edges):
        nodes.append({"id": _END})
    entry = [{"source": _START, "target": name} for name in graph.entry]
    return {"nodes": nodes, "edges": entry + list(map(_exported_edge, graph.edges))}


def _exported_node(node: Node) -> dict[str, Any]:
    said = node.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
    asks = {_INTERRUPT: "before"} if node.ask_user else {}
    return {**_runnable(node.name, node.kind), "metadata": {_OURS: said, **asks}}


def _runnable(name: str, kind: str) -> dict[str, Any]:
    return {"id": name, "type": "runnable", "data": {"id": [_OURS, kind], "name": name}}


def _exported_edge(edge: Edge) -> dict[str, Any]:
    said = edge.model_dump(mode="json", exclude={"from_", "to", "condition"}, exclude_defaults=True)
    is_conditional = bool(edge.condition or edge.default)
    label = {"data": edge.condition or "else", "conditional": True} if is_conditional else {}
    ends = {"source": edge.from_, "target": _END if edge.to == END else edge.to}
    return {**ends, **label, "metadata": {_OURS: said}}


@dataclass
class Imported:
    """What a file in LangGraph's format says.

    Attributes:
        graph: As ``graph`` of an agent file has it.
        file: What else the agent's file said, where the file comes from here.
        orchestrate: The short form in which the graph was written; None: it was not.
        notes: What is to be completed, and what was read in another way than it stands there.
    """

    graph: dict[str, Any]
    file: dict[str, Any] = field(default_factory=dict)
    orchestrate: str | None = None
    notes: list[str] = field(default_factory=list)


def imported(document: Any) -> Imported:
    """Read LangGraph's format. Raises ``InvalidRequest`` where it is another."""
    nodes, edges = _lists(document)
    names = {_name(node): node for node in nodes}
    notes: list[str] = []
    ours = _metadata(names.get(_START, {})).get(_OURS, {})
    file, rest = dict(ours.get("file", {})), {key: value for key, value in ours.items() if key != "file"}
    read = [_imported_node(name, node, notes) for name, node in names.items() if name not in (_START, _END)]
    ways = [(_end(edge, "source", names), _end(edge, "target", names), edge) for edge in edges]
    begin = [(to, edge) for source, to, edge in ways if source == _START]
    if not begin:
        raise InvalidRequest(f"no edge leads from {_START!r}: nothing says where the graph begins")
    merged = _merged([way for way in ways if way[0] != _START])
    if any(edge.get("conditional") for _, edge in begin):
        name = _free("start", names)
        notes.append(f"a function decides where it begins: the node {name!r} is an agent that is to decide it")
        read.insert(0, {"name": name, "agent": name})
        merged = {**_merged([(name, to, edge) for to, edge in begin]), **merged}
        entry = [name]
    else:
        entry = [to for to, _ in begin]
    graph = {"entry": entry[0] if len(entry) == 1 else entry, "nodes": read}
    graph["edges"] = [_imported_edge(source, to, found, notes) for (source, to), found in merged.items()]
    form = rest.pop("orchestrate", None)
    return Imported({**graph, **rest}, file, form, notes)


def _lists(document: Any) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    match document:
        case {"nodes": list(nodes), "edges": list(edges)} if all(isinstance(one, Mapping) for one in nodes + edges):
            return nodes, edges
    raise InvalidRequest(
        "it is not what LangGraph's get_graph().to_json() gives: an object with the lists 'nodes' and 'edges'"
    )


def _name(node: Mapping[str, Any]) -> str:
    if not isinstance(node.get("id"), str | int):
        raise InvalidRequest(f"a node has no 'id': {node!r:.80}")
    return str(node["id"])


def _end(edge: Mapping[str, Any], key: str, names: Mapping[str, Any]) -> str:
    name = str(edge.get(key))
    if name not in names and name != _END:
        raise InvalidRequest(f"the {key} of an edge is {edge.get(key)!r}, which is no node: {dict(edge)!r:.120}")
    return END if name == _END else name


def _metadata(thing: Mapping[str, Any]) -> dict[str, Any]:
    found = thing.get("metadata")
    return dict(found) if isinstance(found, Mapping) else {}


def _imported_node(name: str, node: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    metadata = _metadata(node)
    if isinstance(said := metadata.get(_OURS), Mapping):
        return {"name": name, **said}
    if when := metadata.get(_INTERRUPT):
        notes.append(f"{name!r} stops {when} it runs, for a person: add a node with 'ask_user' there")
    return {"name": name, "agent": name}


def _merged(
    ways: list[tuple[str, str, Mapping[str, Any]]],
) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the edges by their ends: the format has one for each label that leads to a node."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for source, to, edge in ways:
        found.setdefault((source, to), []).append(edge)
    return found


def _imported_edge(source: str, to: str, edges: list[Mapping[str, Any]], notes: list[str]) -> dict[str, Any]:
    ends = {"from": source, "to": to}
    said = _metadata(edges[0]).get(_OURS)
    if isinstance(said, Mapping):
        is_plain = said.get("default") or not edges[0].get("conditional")
        return {**ends, **({} if is_plain else {"condition": str(edges[0].get("data", ""))}), **said}
    if not all(edge.get("conditional") for edge in edges):
        return ends
    labels = ", ".join(str(edge["data"]) for edge in edges if edge.get("data"))
    label = f" ({labels})" if labels else ""
    notes.append(f"{source} → {to}{label}: when is it taken? A function decides it, which the format does not carry")
    return {**ends, "condition": f"{TO_COMPLETE}: {labels}" if labels else TO_COMPLETE}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return next(one for one in _numbered(name) if one not in taken)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
