"""``ekiden route``: who would get a request, and how well a catalog routes. Only what was learned needs a server."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from ekiden.dispatcher.cli.lazy import LazyGroup
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Strategy
from ekiden.dispatcher.cli.running.request import prompt_of
from ekiden.dispatcher.cli.views.route_analysis import Analysis, analysed, measured, print_analysis
from ekiden.dispatcher.cli.views.route_figures import print_compared, print_measured
from ekiden.dispatcher.playable import playable_of, played, why_not_all
from ekiden.shared.late_logger import set_up_logs_late
from ekiden.shared.lessons import Lesson
from ekiden.shared.llm.models import ModelValues
from ekiden.shared.llm.stand_in import announcement, played_by
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.terminal_text import note, say_json

__all__ = ["RouteGroup", "app"]

_ASK = "ask"
_NO_ROUTE = 5


class RouteGroup(LazyGroup):
    """Takes what is no command for the request to route: ``ekiden route "the tests fail"``."""

    lazy: ClassVar = {
        "learn": (
            "ekiden.dispatcher.cli.commands.route_learn:learn",
            "Show what ended jobs teach about whose a request is; accept, refuse or forget it.",
        )
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click: an argument may be the request."""
        is_command = not args or args[0] in self.commands or args[0] in ("-h", "--help")
        return list(super().parse_args(ctx, args if is_command else [_ASK, *args]))


app = typer.Typer(
    cls=RouteGroup,
    help="Show who would get a request, and why; measure how well your agents are told apart.",
    no_args_is_help=True,
)

Agents = Annotated[
    Path | None,
    typer.Option("--agents", metavar="DIR", help="The agent files of this folder alone. [those in force]"),
]

Learned = Annotated[
    bool, typer.Option("--learned", help="With what was learned from requests; see `ekiden route learn`.")
]


@app.command(_ASK)
def ask(
    prompt: Annotated[list[str], typer.Argument(metavar="PROMPT…", help="The request; - reads standard input.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Every stage's candidates, with their arithmetic.")
    ] = False,
    strategy: Strategy = None,
    agents: Agents = None,
    learned: Learned = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Route a request without running it; `ask` itself may be left out."""
    set_up_logs_late(_logs)
    lessons: Sequence[Lesson] = ()
    if learned:
        from ekiden.dispatcher.cli.commands.route_learn import lessons_that_count  # with a client: half a second

        lessons = lessons_that_count(redis, data_dir)
    analysis = asyncio.run(analysed(prompt_of(prompt), strategy, agents, explain=explain, lessons=lessons))
    if as_json:
        say_json(analysis.as_json())
    else:
        print_analysis(analysis)
        _tell_who_plays(analysis)
    raise typer.Exit(0 if analysis.result.route is not None else _NO_ROUTE)


def _logs() -> None:
    from ekiden.shared.logs import configure_logs  # with structlog: a quarter of a second

    configure_logs(is_for_people=True)


def _tell_who_plays(analysis: Analysis) -> None:
    """Say it where no job goes to the agent that was found: without a model, only some can be played."""
    if analysis.result.route is None:
        return
    values = ModelValues.of(analysis.settings, shipped_agents_dir() / "_scripts")
    playable = playable_of(analysis.catalog, played_by([announcement(values, os.environ)]))
    if analysis.result.route.agent not in playable:
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
    learned: Learned = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Measure how well requests reach their agents: accuracy, refusals, confusions, times.

    With --learned twice: by the agent files alone, and with all that was learned and nobody has refused.
    """
    set_up_logs_late(_logs)
    figures = [asyncio.run(measured(file, strategy, agents))]
    if learned:
        from ekiden.dispatcher.cli.commands.route_learn import lessons_not_refused  # as above

        lessons = lessons_not_refused(redis, data_dir)
        after = asyncio.run(measured(file, strategy, agents, lessons))
        figures = [{"learned": 0, **figures[0]}, {"learned": len(lessons), **after}]
    if as_json:
        for one in figures:
            say_json(one)
    elif learned:
        print_compared(figures[0], figures[1])
    else:
        print_measured(figures[0])
