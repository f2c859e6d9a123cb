"""``ekiden agents graph …``: the commands, each imported when it is called."""

from typing import ClassVar

import typer

from ekiden.dispatcher.cli.lazy import LazyGroup

__all__ = ["app"]


class Group(LazyGroup):
    """The commands, and what is said of them without importing them."""

    lazy: ClassVar = {
        "visualize": (
            "ekiden.dispatcher.cli.commands.graph:visualize",
            "Show the graph of an agent: its nodes, and what leads from one to the next.",
        ),
        "replay": (
            "ekiden.dispatcher.cli.commands.trace:replay",
            "Play a job again as it was seen when it ran, or all jobs of a session.",
        ),
    }


app = typer.Typer(cls=Group, help="Look at what a team of agents did, as a whole.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at what a team of agents did, as a whole."""
