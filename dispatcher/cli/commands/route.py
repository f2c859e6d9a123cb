"""``ekiden route``: who would get a request, and how well a catalog routes. No server is needed."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ekiden.dispatcher.cli.options import AsJson, Strategy
from ekiden.dispatcher.cli.running.request import prompt_of
from ekiden.dispatcher.cli.views.route_analysis import (
    Analysis,
    analysed,
    measured,
    print_analysis,
    print_measured,
)
from ekiden.dispatcher.playable import playable_of, played, why_not_all
from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.llm.models import ModelValues
from ekiden.shared.llm.stand_in import announcement, played_by
from ekiden.shared.logs import configure_logs
from ekiden.shared.terminal_text import note, say

__all__ = ["app"]

_ASK = "ask"
_NO_ROUTE = 5


class _RouteGroup(TyperGroup):
    """Takes what is no command for the request to route: ``ekiden route "the tests fail"``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_command = not args or args[0] in self.commands or args[0] in ("-h", "--help")
        return list(super().parse_args(ctx, args if is_command else [_ASK, *args]))


app = typer.Typer(
    cls=_RouteGroup,
    help="Show who would get a request, and why; measure how well your agents are told apart.",
    no_args_is_help=True,
)

Agents = Annotated[
    Path | None,
    typer.Option("--agents", metavar="DIR", help="The agent files of this folder alone. [those in force]"),
]


@app.command(_ASK)
def ask(
    prompt: Annotated[str, typer.Argument(help="The request; - reads standard input.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Every stage's candidates, with their arithmetic.")
    ] = False,
    strategy: Strategy = None,
    agents: Agents = None,
    as_json: AsJson = False,
) -> None:
    """Route a request without running it; `ask` itself may be left out."""
    configure_logs(is_for_people=True)
    analysis = asyncio.run(analysed(prompt_of(prompt), strategy, agents, explain=explain))
    if as_json:
        say(json.dumps(analysis.as_json(), ensure_ascii=False, indent=2))
    else:
        print_analysis(analysis)
        _tell_who_plays(analysis)
    raise typer.Exit(0 if analysis.result.route is not None else _NO_ROUTE)


def _tell_who_plays(analysis: Analysis) -> None:
    """Say it where no job goes to the agent that was found: without a model, only some can be played."""
    values = ModelValues.of(analysis.settings, shipped_agents_dir() / "_scripts")
    playable = playable_of(analysis.catalog, played_by([announcement(values, os.environ)]))
    if analysis.result.route is not None and analysis.result.route.agent not in playable:
        instead = played(analysis.result, playable).route
        goes = f"a job goes to {instead.agent} instead" if instead else "no job goes there"
        note(f"ekiden: {goes}. {why_not_all(analysis.catalog, playable)}")


@app.command("eval")
def eval_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="One JSON object a line: text, label (an agent or oos).")
    ],
    strategy: Strategy = None,
    agents: Agents = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well requests reach their agents: accuracy, refusals, confusions, times."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read: {error}") from error
    configure_logs(is_for_people=True)
    figures = asyncio.run(measured(lines, strategy, agents))
    if as_json:
        say(json.dumps(figures, ensure_ascii=False))
    else:
        print_measured(figures)
