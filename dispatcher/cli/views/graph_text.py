"""Graphs and teams as lines of text."""

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_picture import Arrow, Picture, condition_of, marks_of, what_runs
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line

__all__ = ["print_graph", "print_team"]

_LONGEST = 200


def print_graph(out: Output, name: str, graph: Graph) -> None:
    """Print where a graph begins, its nodes, and its edges with their conditions."""
    bullet, arrow = out.symbols["bullet"], out.symbols["arrow"]
    form = f" ({graph.orchestrate})" if graph.orchestrate else ""
    out.line(f"{out.symbols['chart']} Agent Graph: {name}{form}", "bold")
    out.line()
    out.line(f"Entry: {', '.join(graph.entry)}")
    out.line()
    out.line("Nodes:")
    for node in graph.nodes:
        marks = f" [{_line(marks_of(node))}]" if marks_of(node) else ""
        out.line(f"  {bullet} {node.name} ({_line(what_runs(node))}){marks}", hang=4)
    out.line()
    out.line("Edges:")
    for edge in graph.edges:
        when = f" [{_line(condition_of(edge))}]" if condition_of(edge) else ""
        out.line(f"  {edge.from_} {arrow} {edge.to}{when}", hang=4)
    if not graph.edges:
        out.line("  none")


def print_team(out: Output, picture: Picture, left_out: int) -> None:
    """Print agents, and who hands over and delegates to whom."""
    out.line(f"{out.symbols['chart']} Team: {len(picture.shapes)} agents", "bold")
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
        out.line()
        out.line(f"{left_out} more agents pass nothing on, and get nothing (--alone shows them)")


def _arrow(out: Output, picture: Picture, arrow: Arrow) -> str:
    symbol = out.symbols["calls" if arrow.style == "thick" else "arrow"]
    when = "on completion" if arrow.style == "dotted" else ""
    said = "; ".join(filter(None, (when, _line(arrow.label), "" if arrow.label else _line(arrow.about))))
    source, target = (picture.shapes[place].name for place in (arrow.source, arrow.target))
    return f"{source} {symbol} {target}{f' [{said}]' if said else ''}"


def _line(text: str) -> str:
    return one_line(redact(text), _LONGEST)
