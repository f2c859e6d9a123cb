"""``ekiden graph …``: graphs of agent files as pictures; no server is needed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.agents.discovery import AgentFile, open_agents
from ekiden.dispatcher.cli.commands.graph_exchange import export, import_
from ekiden.dispatcher.cli.options import AgentsDir, AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_picture import graph_picture
from ekiden.dispatcher.cli.views.graph_text import print_graph
from ekiden.dispatcher.cli.views.pictures import AsMermaid, AsSvg, only_one, say_picture
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import note, say_json

__all__ = ["app", "visualize"]

app = typer.Typer(help="Look at graphs of agents. No server is needed.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent whose file has the graph.")]


@app.callback()
def group() -> None:
    """Look at graphs of agents. No server is needed."""


app.command()(export)
app.command("import")(import_)


@app.command()
def show(
    name: Name,
    as_mermaid: AsMermaid = False,
    as_svg: AsSvg = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Show the graph of an agent: its nodes, and what leads from one to the next."""
    only_one(json=as_json, mermaid=as_mermaid, svg=as_svg)
    file, graph, channels = _graph_of(name, agents_dir)
    if as_json:
        say_json(_fields(file, graph, channels))
    elif as_mermaid or as_svg:
        say_picture(graph_picture(graph), as_svg=as_svg)
    else:
        print_graph(Output(), file.name, graph)


def visualize(
    ctx: typer.Context,
    name: Name,
    as_mermaid: AsMermaid = False,
    as_svg: AsSvg = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Show the graph of an agent; the same as `ekiden graph show`."""
    show(name, as_mermaid, as_svg, as_json, [*_folders(ctx), *(agents_dir or [])])


def _folders(ctx: typer.Context) -> list[Path]:
    """Return the folders that ``ekiden agents --agents-dir`` was given."""
    parent: Any = ctx.parent
    while parent is not None and not isinstance(parent.obj, list):
        parent = parent.parent
    return list(parent.obj) if parent is not None else []


def _graph_of(name: str, agents_dir: list[Path] | None) -> tuple[AgentFile, Graph, Channels]:
    """Return a graph, and what its outputs are called; what is wrong between it and the other agents is noted."""
    agents = open_agents(agents_dir or [])
    file = agents.get(name)
    if file.definition is None:
        raise InvalidRequest("; ".join(str(problem) for problem in file.problems))
    if file.definition.graph is None:
        raise InvalidRequest(f"agent {file.name!r} has no graph: write 'graph' or 'orchestrate' in {str(file.path)!r}")
    in_force = {**agents.in_force, file.name: file.definition}
    _, problems = build_catalog(in_force.values(), {**agents.sources, file.name: str(file.path)})
    for problem in problems:
        if problem.aspect == "graph" and problem.file == str(file.path):
            note(f"ekiden: {problem}")
    return file, file.definition.graph, Channels.of(file.definition.graph, in_force)


def _fields(file: AgentFile, graph: Graph, channels: Channels) -> dict[str, Any]:
    fields = graph.model_dump(mode="json")
    for node in fields["nodes"]:
        node["channel"] = channels.by_node[node["name"]]
    return {"name": file.name, "file": str(file.path), **fields}
