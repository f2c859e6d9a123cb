"""Graphs and teams as lines of text."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_picture import Arrow, Picture, condition_of, marks_of, taken_text, what_runs
from ekiden.dispatcher.cli.views.notices import head_of
from ekiden.dispatcher.journal.graph_states import GraphView, NodeState, NodeView
from ekiden.shared.definitions.graph import Edge, Graph, Node
from ekiden.shared.redaction import preview, redact
from ekiden.shared.terminal_text import one_line

__all__ = ["GraphLine", "edge_line", "graph_lines", "node_line", "print_graph", "print_team"]

_LONGEST = 200
_LONGEST_ERROR = 120
_MARKS: Mapping[NodeState, str] = {"done": "pass", "runs": "runs", "failed": "fault"}
_STYLES: Mapping[NodeState, str] = {
    "open": "dim",
    "waits": "yellow",
    "runs": "bold cyan",
    "done": "green",
    "failed": "red",
    "given_up": "dim",
}


class GraphLine(NamedTuple):
    """A line, and how a terminal shows it."""

    text: str = ""
    style: str = ""


def print_graph(out: Output, name: str, graph: Graph, view: GraphView | None = None) -> None:
    """Print where a graph begins, its nodes, and its edges with their conditions; ``view``: as it stands in a job."""
    for line in graph_lines(out.symbols, name, graph, view):
        out.line(line.text, line.style, hang=4 if line.text.startswith(" ") else 0)


def graph_lines(
    symbols: Mapping[str, str], name: str, graph: Graph, view: GraphView | None = None
) -> Iterator[GraphLine]:
    """Yield the same line by line."""
    form = f" ({graph.orchestrate})" if graph.orchestrate else ""
    yield GraphLine(f"{symbols['chart']} Agent Graph: {name}{form}{_job(symbols, view)}", "bold")
    yield from (GraphLine(), GraphLine(f"Entry: {', '.join(graph.entry)}"), GraphLine(), GraphLine("Nodes:"))
    states = {one.name: one for one in view.nodes} if view else {}
    yield from (node_line(symbols, node, states.get(node.name)) for node in graph.nodes)
    yield from (GraphLine(), GraphLine("Edges:"))
    yield from (edge_line(symbols, edge, view) for edge in graph.edges)
    if not graph.edges:
        yield GraphLine("  none")


def node_line(symbols: Mapping[str, str], node: Node, view: NodeView | None = None) -> GraphLine:
    """Return the line of a node; ``view``: with what it does in a job."""
    marks = f" [{_line(marks_of(node))}]" if marks_of(node) else ""
    what = f"{node.name} ({_line(what_runs(node))}){marks}"
    if view is None:
        return GraphLine(f"  {symbols['bullet']} {what}")
    said = f" {symbols['dot']} ".join([what, *_doing(view)])
    return GraphLine(f"  {symbols[_MARKS.get(view.state, 'open')]} {said}", _STYLES[view.state])


def edge_line(symbols: Mapping[str, str], edge: Edge, view: GraphView | None = None) -> GraphLine:
    """Return the line of an edge; ``view``: with how often it was taken in a job."""
    when = f" [{_line(condition_of(edge))}]" if condition_of(edge) else ""
    text = f"  {edge.from_} {symbols['arrow']} {edge.to}{when}"
    if view is None:
        return GraphLine(text)
    times = view.taken.get((edge.from_, edge.to), 0)
    return GraphLine(f"{text} {symbols['dot']} {taken_text(times)}" if times else text, "" if times else "dim")


def _job(symbols: Mapping[str, str], view: GraphView | None) -> str:
    if view is None:
        return ""
    run = f" (run {view.run} of it)" if view.run > 1 else ""
    return f" {symbols['dot']} job {view.job} {view.status}{run}"


def _doing(view: NodeView) -> Iterator[str]:
    """Yield what there is to say of a node beside its mark."""
    if view.state == "runs" and view.rounds > 1:
        yield f"round {view.rounds}"
    elif view.rounds > 1:
        yield f"{view.rounds} rounds"
    if view.items is not None:
        yield f"{view.items[0]} of {view.items[1]} items"
    if view.asks:
        yield "waits for a person"
    if view.state in ("waits", "given_up"):
        yield view.state.replace("_", " ")
    if view.state == "failed":
        yield f"failed: {preview(head_of(view.error), _LONGEST_ERROR)}"
    if view.state in ("runs", "failed") and view.job:
        yield f"job {view.job}"


def print_team(out: Output, picture: Picture, left_out: int) -> None:
    """Print agents, and who hands over and delegates to whom."""
    out.line(f"{out.symbols['chart']} Team: {len(picture.shapes)} agent{'s' * (len(picture.shapes) != 1)}", "bold")
    out.line()
    for shape in picture.shapes:
        out.line(f"  {out.symbols['bullet']} {shape.name}{f' ({_line(shape.below)})' if shape.below else ''}", hang=4)
    out.line()
    out.line("Edges:")
    for arrow in picture.arrows:
        out.line(f"  {_arrow(out, picture, arrow)}", hang=4)
    if not picture.arrows:
        out.line("  none")
    if left_out:
        rest = (
            "agents pass nothing on, and get nothing" if left_out > 1 else "agent passes nothing on, and gets nothing"
        )
        out.line()
        out.line(f"{left_out} more {rest} (--alone shows them)")


def _arrow(out: Output, picture: Picture, arrow: Arrow) -> str:
    symbol = out.symbols["calls" if arrow.style == "thick" else "arrow"]
    when = "on completion" if arrow.style == "dotted" else ""
    said = "; ".join(filter(None, (when, _line(arrow.label), "" if arrow.label else _line(arrow.about))))
    source, target = (picture.shapes[place].name for place in (arrow.source, arrow.target))
    return f"{source} {symbol} {target}{f' [{said}]' if said else ''}"


def _line(text: str) -> str:
    return one_line(redact(text), _LONGEST)
