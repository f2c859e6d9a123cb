"""Whether a graph can be gone through: what is wrong with its nodes and edges as such, told with its place."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ekiden.shared.definitions.graph import END, Edge, Graph
from ekiden.shared.definitions.graph_parsing import fault
from ekiden.shared.definitions.problems import together
from ekiden.shared.suggestions import nearest

__all__ = ["check_shape", "place_in"]

Place = tuple[str | int, ...]


def check_shape(graph: Graph) -> None:
    """Refuse a graph with a node that nothing reaches, an edge to nowhere, a round without an end, and the like.

    Raises:
        AgentFileError: the first of them, with its place in the file and the remedy, and with the others.
    """
    if faults := [fault(message, place_in(graph, place)) for place, message in _faults(graph)]:
        raise together(faults)


def place_in(graph: Graph, place: Place) -> Place:
    """Return the place in the file of what is at ``place`` in the graph: a short form has its nodes elsewhere."""
    if graph.orchestrate is None:
        return ("graph", *place)
    return ("agents", *place[1:]) if place[:1] == ("nodes",) else ("orchestrate",)


def _faults(graph: Graph) -> Iterator[tuple[Place, str]]:
    yield from _twice(graph)
    names = [node.name for node in graph.nodes]
    for name in graph.entry:
        if name not in names:
            yield ("entry",), f"'entry' is {name!r}, which is no node{_near(name, names)}"
    for number, edge in enumerate(graph.edges):
        yield from _dangling(edge, names, ("edges", number))
    yield from _unreached(graph)
    yield from _unsatisfied(graph)
    yield from _endless(graph)


def _twice(graph: Graph) -> Iterator[tuple[Place, str]]:
    seen: set[str] = set()
    for number, node in enumerate(graph.nodes):
        if node.name in seen:
            yield ("nodes", number, "name"), f"two nodes are named {node.name!r}. Rename one"
        seen.add(node.name)
    for name, times in Counter(graph.entry).items():
        if times > 1:
            yield ("entry",), f"'entry' names {name!r} twice. Remove one"
    ways: set[tuple[str, str]] = set()
    defaults: set[str] = set()
    for number, edge in enumerate(graph.edges):
        if (edge.from_, edge.to) in ways:
            said = f"two edges lead from {edge.from_!r} to {edge.to!r}: merge them, their conditions with '||'"
            yield ("edges", number), said
        if edge.default and edge.from_ in defaults:
            yield ("edges", number), f"two edges of {edge.from_!r} are its 'default': only one can be"
        ways.add((edge.from_, edge.to))
        defaults |= {edge.from_} if edge.default else set()


def _dangling(edge: Edge, names: list[str], place: Place) -> Iterator[tuple[Place, str]]:
    if edge.from_ == END:
        yield (*place, "from"), f"an edge leads from {END}, behind which nothing is. Remove it"
    elif edge.from_ not in names:
        yield (*place, "from"), f"an edge leads from {edge.from_!r}, which is no node{_near(edge.from_, names)}"
    if edge.to != END and edge.to not in names:
        yield (*place, "to"), f"an edge leads to {edge.to!r}, which is no node{_near(edge.to, [*names, END])}"


def _unreached(graph: Graph) -> Iterator[tuple[Place, str]]:
    reached = _reachable(graph.entry, _ways(graph.edges))
    for number, node in enumerate(graph.nodes):
        if node.name not in reached:
            said = f"no way leads from 'entry' to the node {node.name!r}. Add an edge to it, or remove it"
            yield ("nodes", number), said


def _unsatisfied(graph: Graph) -> Iterator[tuple[Place, str]]:
    for number, node in enumerate(graph.nodes):
        ways = len(graph.edges_to(node.name)) + (node.name in graph.entry)
        if node.quorum > ways:
            said = f"the node {node.name!r} waits for {node.quorum} branches, and only {ways} can come to it"
            yield ("nodes", number, "join"), f"{said}: its 'join' is never satisfied. Write quorum:{ways}, or less"


def _endless(graph: Graph) -> Iterator[tuple[Place, str]]:
    always = [edge for edge in graph.edges if graph.always_takes(edge)]
    if round_ := _round_in(_ways(always)):
        number = next(n for n, edge in enumerate(graph.edges) if (edge.from_, edge.to) == (round_[-1], round_[0]))
        text = " → ".join(map(repr, [*round_, round_[0]]))
        yield ("edges", number), f"{text}: nothing ends this round. Give one of its edges a 'condition'"
    backwards = _reversed(_ways(graph.edges))
    ends = [node.name for node in graph.nodes if not graph.edges_from(node.name)]
    ending = _reachable([END, *ends], backwards)
    for number, node in enumerate(graph.nodes):
        if node.name not in ending:
            said = f"no way leads from the node {node.name!r} to an end. Add an edge to {END} with a condition"
            yield ("nodes", number), f"{said}, or one with 'default: true'"


def _ways(edges: Iterable[Edge]) -> dict[str, list[str]]:
    ways: dict[str, list[str]] = {}
    for edge in edges:
        ways.setdefault(edge.from_, []).append(edge.to)
    return ways


def _reversed(ways: Mapping[str, list[str]]) -> dict[str, list[str]]:
    back: dict[str, list[str]] = {}
    for name, targets in ways.items():
        for target in targets:
            back.setdefault(target, []).append(name)
    return back


def _reachable(begin: Iterable[str], ways: Mapping[str, list[str]]) -> set[str]:
    found, waiting = set(begin), list(begin)
    while waiting:
        new = set(ways.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def _round_in(ways: Mapping[str, list[str]]) -> list[str]:
    """Return the nodes of a round, in its order; empty: there is none."""
    done: set[str] = set()
    for begin in ways:
        path: dict[str, Iterator[str]] = {begin: iter(ways[begin])} if begin not in done else {}
        while path:  # a recursion would go as deep as the graph is long
            last = next(reversed(path))
            target = next(path[last], None)
            if target is None:
                done.add(last)
                del path[last]
            elif target in path:
                names = list(path)
                return names[names.index(target) :]
            elif target not in done:
                path[target] = iter(ways.get(target, ()))
    return []


def _near(name: str, names: Iterable[str]) -> str:
    known = list(names)
    near = [one for one in known if one.casefold() == name.casefold()] or nearest(name, known, n=1)
    return f". Did you mean {near[0]!r}?" if near else f". There are {', '.join(map(repr, known[:10]))}"
