"""``ekiden graph show --job``: a graph as it stands in a job, or as that goes on."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.dispatcher.cli.connection import connected, job_named
from ekiden.dispatcher.cli.exit_codes import exit_code_of
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_json import graph_json
from ekiden.dispatcher.cli.views.graph_picture import graph_picture
from ekiden.dispatcher.cli.views.graph_text import edge_line, graph_lines, node_line, print_graph
from ekiden.dispatcher.cli.views.pictures import say_picture
from ekiden.dispatcher.journal.graph_states import GraphView
from ekiden.dispatcher.journal.graphs import graph_of, graph_views
from ekiden.shared.terminal_text import note, say_json, visible

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["GraphJob", "graph_block", "show_graph_of"]

_PER_SECOND = 8
"""How often a terminal is drawn anew."""

Show = Callable[[GraphView], None]


@dataclass(frozen=True)
class GraphJob:
    """What to show of which job, without one of the newest. ``name`` None: the graph that it came to first."""

    job: str | None
    name: str | None = None
    as_json: bool = False
    as_mermaid: bool = False
    as_svg: bool = False


def show_graph_of(wanted: GraphJob, redis: str | None, data_dir: Path | None, *, follow: bool) -> int:
    """Show the graph as it stands, or until its job ends; return the exit code: of a job that is followed, its own."""
    return asyncio.run((_follow if follow else _show)(wanted, redis, data_dir))


async def _show(wanted: GraphJob, redis: str | None, data_dir: Path | None) -> int:
    async with connected(redis, data_dir) as client:
        view = await graph_of(client, await job_named(client, wanted.job), wanted.name)
    if wanted.as_json:
        say_json(graph_json(view))
    elif wanted.as_mermaid or wanted.as_svg:
        say_picture(graph_picture(view.graph, view), as_svg=wanted.as_svg)
    else:
        print_graph(Output(), view.name, view.graph, view)
    return 0


async def _follow(wanted: GraphJob, redis: str | None, data_dir: Path | None) -> int:
    async with connected(redis, data_dir) as client:
        job = await job_named(client, wanted.job)
        views = graph_views(client, job, wanted.name, note=lambda text: note(f"ekiden: {text}"))
        with _screen(as_json=wanted.as_json) as show:
            async with aclosing(views):
                async for view in views:
                    show(view)
        end = await client.job(job)
    return exit_code_of(end.status, end.reason)


@contextlib.contextmanager
def _screen(*, as_json: bool) -> Iterator[Show]:
    """Yield what shows a view: in place of the one before on a terminal; elsewhere what has changed, line by line."""
    out = Output()
    if as_json:
        yield lambda view: say_json(graph_json(view))
    elif not out.is_terminal:
        yield _Changes(out).show
    else:
        from rich.live import Live

        with Live(refresh_per_second=_PER_SECOND, vertical_overflow="crop") as live:
            yield lambda view: live.update(graph_block(view, out))


def graph_block(view: GraphView, out: Output) -> "Text":
    """Return the lines of a graph for a terminal, coloured."""
    from rich.text import Text

    lines = graph_lines(out.symbols, view.name, view.graph, view)
    parts = [(f"{visible(line.text)}\n", line.style) for line in lines]
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


class _Changes:
    """Writes a line for each node and each edge of which there is something new, and for the job's end."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._shown: list[str] = []

    def show(self, view: GraphView) -> None:
        symbols = self._out.symbols
        nodes = zip(view.graph.nodes, view.nodes, strict=True)
        lines = [next(iter(graph_lines(symbols, view.name, view.graph, view)))]
        lines += [node_line(symbols, node, one) for node, one in nodes if one.state not in ("open", "waits")]
        lines += [edge_line(symbols, edge, view) for edge in view.graph.edges if (edge.from_, edge.to) in view.taken]
        for line in lines:
            if line.text not in self._shown:
                self._out.line(line.text, line.style)
        self._shown = [line.text for line in lines]
