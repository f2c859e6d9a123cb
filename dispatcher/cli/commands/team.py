"""``ekiden team …``: all agents, and who passes work on to whom; no server is needed."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.options import AgentsDir, AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.graph_picture import Picture, team_picture
from ekiden.dispatcher.cli.views.graph_text import print_team
from ekiden.dispatcher.cli.views.pictures import AsMermaid, AsSvg, only_one, say_picture
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.terminal_text import note, say_json

__all__ = ["app"]

app = typer.Typer(help="Look at all agents together. No server is needed.", no_args_is_help=True)

_KINDS = {"solid": "handoff", "dotted": "automatic handoff", "thick": "delegation"}


@app.callback()
def group() -> None:
    """Look at all agents together. No server is needed."""


@app.command()
def show(
    as_mermaid: AsMermaid = False,
    as_svg: AsSvg = False,
    as_json: AsJson = False,
    alone: Annotated[
        bool, typer.Option("--alone", help="Also the agents that pass nothing on, and get nothing.")
    ] = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Show which agents hand over and delegate to each other."""
    only_one(json=as_json, mermaid=as_mermaid, svg=as_svg)
    found = open_agents(agents_dir or [])
    catalog, _ = build_catalog(found.in_force.values(), found.sources, found.broken)
    agents = catalog.agents
    _tell_of_absent(dict.fromkeys([*found.broken, *(name for name in found.in_force if name not in agents)]))
    shown = agents if alone or as_json else _together(agents)
    picture = team_picture(shown)
    if as_json:
        say_json(_fields(agents, picture))
    elif as_mermaid or as_svg:
        say_picture(picture, as_svg=as_svg)
    else:
        print_team(Output(), picture, len(agents) - len(shown))


def _tell_of_absent(names: Iterable[str]) -> None:
    if absent := ", ".join(names):
        note(f"ekiden: not shown, since their files have errors: {absent}. `ekiden agents validate` says which")


def _together(agents: Mapping[str, AgentDefinition]) -> dict[str, AgentDefinition]:
    """Return the agents that an arrow leads to, or from."""
    arrows = team_picture(agents).arrows
    places = {place for arrow in arrows for place in (arrow.source, arrow.target)}
    return {name: agent for number, (name, agent) in enumerate(agents.items()) if number in places}


def _fields(agents: Mapping[str, AgentDefinition], picture: Picture) -> dict[str, Any]:
    names = list(agents)
    return {
        "agents": [{"name": agent.name, "title": agent.title, "graph": bool(agent.graph)} for agent in agents.values()],
        "edges": [
            {"from": names[one.source], "to": names[one.target], "kind": _KINDS[one.style]}
            | {"condition": one.label.removeprefix("if: "), "description": one.about}
            for one in picture.arrows
        ],
    }
