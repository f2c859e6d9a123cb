"""``ekiden graph …``: graphs of agent files as pictures, and as they stand in jobs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.agents.discovery import AgentFile, open_agents
from ekiden.dispatcher.cli.commands.graph_exchange import export, import_
from ekiden.dispatcher.cli.commands.graph_job import GraphJob, show_graph_of
from ekiden.dispatcher.cli.options import AgentsDir, AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_json import graph_fields
from ekiden.dispatcher.cli.views.graph_picture import graph_picture
from ekiden.dispatcher.cli.views.graph_text import print_graph
from ekiden.dispatcher.cli.views.pictures import AsMermaid, AsSvg, only_one, say_picture
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import note, say_json

__all__ = ["app", "visualize"]

app = typer.Typer(help="Look at graphs of agents, and at what they do in a job.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent whose file has the graph.")]


@app.callback()
def group() -> None:
    """Look at graphs of agents, and at what they do in a job."""


app.command()(export)
app.command("import")(import_)


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The agent whose file has the graph. [with --job: the job's]")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="ID", help="The graph as it stands in this job. [without NAME: the newest]"),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show it anew as the job goes on, to its end.")] = False,
    as_mermaid: AsMermaid = False,
    as_svg: AsSvg = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show the graph of an agent: its nodes, and what leads from one to the next.

    With --job, what each node does in that job; the graph is the one that the job began with. Without NAME, or with
    --follow, it is that of the newest job where none is named.
    """
    only_one(json=as_json, mermaid=as_mermaid, svg=as_svg)
    if job is None and name is not None and not follow:
        if redis or data_dir:
            given = "--redis" if redis else "--data-dir"
            raise InvalidRequest(f"{given} is for the graph of a job: name it, as in --job ID, or leave {name!r} out")
        _show_file(name, agents_dir, as_mermaid=as_mermaid, as_svg=as_svg, as_json=as_json)
        return
    if agents_dir:
        raise InvalidRequest("--agents-dir has no effect on the graph of a job, which is the one that it began with")
    if follow and (as_mermaid or as_svg):
        raise InvalidRequest("--follow shows the list, or --json: leave the picture out, or --follow")
    wanted = GraphJob(job, name, as_json=as_json, as_mermaid=as_mermaid, as_svg=as_svg)
    raise typer.Exit(show_graph_of(wanted, redis, data_dir, follow=follow))


def _show_file(name: str, agents_dir: list[Path] | None, *, as_mermaid: bool, as_svg: bool, as_json: bool) -> None:
    file, graph, channels = _graph_of(name, agents_dir)
    if as_json:
        say_json({"name": file.name, "file": str(file.path), **graph_fields(graph, channels)})
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
    only_one(json=as_json, mermaid=as_mermaid, svg=as_svg)
    folders = [*_folders(ctx), *(agents_dir or [])]
    _show_file(name, folders, as_mermaid=as_mermaid, as_svg=as_svg, as_json=as_json)


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
    _, problems = build_catalog(in_force.values(), {**agents.sources, file.name: str(file.path)}, agents.broken)
    for problem in problems:
        if problem.aspect == "graph" and problem.file == str(file.path):
            note(f"ekiden: {problem}")
    return file, file.definition.graph, Channels.of(file.definition.graph, in_force)
