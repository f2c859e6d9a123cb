"""What pictures show of a graph, or of a whole team: shapes, and arrows between them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ekiden.dispatcher.journal.graph_states import GraphView, NodeState
from ekiden.shared.definitions.graph import END, Edge, Graph, Node
from ekiden.shared.definitions.model import AgentDefinition

__all__ = [
    "COLOURS",
    "Arrow",
    "Picture",
    "Shape",
    "condition_of",
    "graph_picture",
    "marks_of",
    "taken_text",
    "team_picture",
    "what_runs",
]

_BEGIN = "begin"
COLOURS: Mapping[NodeState, str] = {
    "open": "#ffffff",
    "waits": "#fff3cd",
    "runs": "#bfe3ff",
    "done": "#d3f2dc",
    "failed": "#fbd0d0",
    "given_up": "#e4e7ec",
}
"""What the states of nodes look like."""

Style = Literal["solid", "dotted", "thick"]


@dataclass(frozen=True)
class Shape:
    """A box with a name, and smaller what is to be known of it."""

    name: str
    below: str = ""
    is_end: bool = False
    """It is where something begins or ends."""
    state: NodeState | None = None
    """What it does in a job; None: of no job is told."""


@dataclass(frozen=True)
class Arrow:
    """From one shape, by its place in the picture, to another."""

    source: int
    target: int
    label: str = ""
    """When it is taken."""
    about: str = ""
    """What it is for: too much to stand in a picture."""
    style: Style = "solid"


@dataclass(frozen=True)
class Picture:
    """Shapes in their order, and arrows."""

    shapes: tuple[Shape, ...]
    arrows: tuple[Arrow, ...]


def graph_picture(graph: Graph, view: GraphView | None = None) -> Picture:
    """Return the picture of a graph, from where it begins to where it ends; ``view``: as it stands in a job.

    Of that, edges that were taken are thick.
    """
    states = {one.name: one.state for one in view.nodes} if view else {}
    nodes = (Shape(node.name, _below(node), state=states.get(node.name)) for node in graph.nodes)
    shapes = [Shape(_BEGIN, is_end=True), *nodes]
    places = {node.name: number for number, node in enumerate(graph.nodes, start=1)}
    if any(edge.to == END for edge in graph.edges):
        places[END] = len(shapes)
        shapes.append(Shape(END, is_end=True))
    begin = [Arrow(0, places[name]) for name in graph.entry]
    edges = [_edge(edge, places, view.taken if view else {}) for edge in graph.edges]
    return Picture(tuple(shapes), (*begin, *edges))


def team_picture(agents: Mapping[str, AgentDefinition]) -> Picture:
    """Return the picture of all agents: handoffs, dotted where they are automatic, and delegations, thick.

    The parts of a graph are delegations, too.
    """
    places = {name: number for number, name in enumerate(agents)}
    shapes = tuple(Shape(agent.name, agent.title if agent.title != agent.name else "") for agent in agents.values())
    arrows = [
        Arrow(places[name], places[target], label, about, style)
        for name, agent in agents.items()
        for target, label, about, style in _links(agent)
        if target in places
    ]
    return Picture(shapes, tuple(arrows))


def condition_of(edge: Edge) -> str:
    """Return when an edge is taken, in words; empty: always."""
    when = "else" if edge.default else f"if: {edge.condition}" if edge.condition else ""
    most = f"{edge.max_rounds} at most" if edge.max_rounds is not None else ""
    return "; ".join(filter(None, (when, most)))


def what_runs(node: Node) -> str:
    """Return what a node is."""
    match node.kind:
        case "agent":
            return node.agent
        case "ask_user":
            return f"asks: {node.ask_user}"
        case kind:
            return f"{kind} {getattr(node, kind)}"


def marks_of(node: Node) -> str:
    """Return what is not as usual with a node."""
    marks = (
        f"for each: {node.for_each}" if node.for_each else "",
        f"join: {node.join}" if node.join != "all" else "",
        f"retry: {node.retry}" if node.retry else "",
        f"timeout: {node.timeout:g} s" if node.timeout is not None else "",
    )
    return "; ".join(filter(None, marks))


def taken_text(times: int) -> str:
    """Say how often an edge was taken."""
    return "taken once" if times == 1 else f"taken {times} times"


def _edge(edge: Edge, places: Mapping[str, int], taken: Mapping[tuple[str, str], int]) -> Arrow:
    times = taken.get((edge.from_, edge.to), 0)
    label = "; ".join(filter(None, (condition_of(edge), taken_text(times) if times > 1 else "")))
    style: Style = "thick" if times else "dotted" if edge.default else "solid"
    return Arrow(places[edge.from_], places[edge.to], label, style=style)


def _below(node: Node) -> str:
    runs = what_runs(node)
    return "; ".join(filter(None, (runs if runs != node.name else "", marks_of(node))))


def _links(agent: AgentDefinition) -> Iterator[tuple[str, str, str, Style]]:
    for rule in agent.handoffs:
        label = f"if: {rule.condition}" if rule.condition else ""
        yield rule.to, label, rule.description, "dotted" if rule.when == "auto" else "solid"
    for below in agent.subagents:
        yield below.agent, "", below.description, "thick"
    yield from ((name, "", "", "thick") for name in _distinct(agent.graph.nodes if agent.graph else ()))


def _distinct(nodes: Iterable[Node]) -> list[str]:
    return list(dict.fromkeys(node.runner for node in nodes if node.runner))
