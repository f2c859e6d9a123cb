"""``ekiden agents …``: the commands, each imported when it is called."""

from typing import ClassVar

import typer

from ekiden.dispatcher.cli.lazy import LazyGroup
from ekiden.dispatcher.cli.options import AgentsDir

__all__ = ["Group", "app"]


class Group(LazyGroup):
    """The commands, and what is said of them without importing them."""

    lazy: ClassVar = {
        "create": ("ekiden.dispatcher.cli.agents.commands:create", "Make a new agent."),
        "list": ("ekiden.dispatcher.cli.agents.commands:list_", "List the agents of every level, the nearest first."),
        "show": ("ekiden.dispatcher.cli.agents.commands:show", "Show one agent as Ekiden reads it."),
        "edit": (
            "ekiden.dispatcher.cli.agents.commands:edit",
            "Edit an agent with $VISUAL or $EDITOR; what would not load is refused and kept beside.",
        ),
        "delete": ("ekiden.dispatcher.cli.agents.commands:delete", "Delete an agent's file."),
        "suggest": (
            "ekiden.dispatcher.cli.agents.suggest:suggest",
            "Suggest keywords and examples that an agent can be found by.",
        ),
        "validate": (
            "ekiden.dispatcher.cli.agents.commands:validate",
            "Check agent files. Exit codes: 0 all is well, 1 there are errors, 2 there is no such agent or file.",
        ),
        "run": (
            "ekiden.dispatcher.cli.agents.run:run",
            "Run one agent: once with -p, else as a chat. Its sessions are its own: --continue finds the newest.",
        ),
        "route": (
            "ekiden.dispatcher.cli.commands.route:app",
            "Show who would get a request, and why; measure how well your agents are told apart.",
        ),
        "config": (
            "ekiden.dispatcher.cli.commands.config:of_agents",
            "Show the settings of agents, or change one: as `ekiden config` with keys that begin with `agents.`.",
        ),
        "graph": ("ekiden.dispatcher.cli.agents.graph:app", "Look at what a team of agents did, as a whole."),
        "trace": (
            "ekiden.dispatcher.cli.commands.trace:app",
            "See where a job's time and tokens went; export it, play it again.",
        ),
        "handoff-chain": (
            "ekiden.dispatcher.cli.commands.job:chain",
            "Show who had a job and why, what each agent took, whom it was refused and whom it called.",
        ),
    }


app = typer.Typer(cls=Group, help="Make, show, change and check agents.", no_args_is_help=True)


@app.callback()
def _shared(ctx: typer.Context, agents_dir: AgentsDir = None) -> None:
    """Make, show, change and check agents. No server is needed."""
    ctx.obj = agents_dir or []
