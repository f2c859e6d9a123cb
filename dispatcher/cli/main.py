"""``ekiden``: the commands, and the one place that turns errors into a line and an exit code.

Importing this costs no more than typer: a command is imported when it is called.
"""

import errno
import os
import re
import sys
from typing import Annotated, Any, NoReturn

import typer

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, UNREAD
from ekiden.dispatcher.cli.lazy import LazyGroup
from ekiden.dispatcher.cli.plugin_commands import Plugged
from ekiden.shared.errors import EkidenError
from ekiden.shared.terminal_text import note, say

__all__ = ["COMMANDS", "app", "run"]

COMMANDS = {
    "init": (
        "ekiden.dispatcher.cli.commands.init:init",
        "Make a team of your own: agents, a tool, settings, and a script by which it works without a key.",
    ),
    "run": (
        "ekiden.dispatcher.cli.commands.run:run",
        "Route a request, hand it from agent to agent, and print the answer.",
    ),
    "chat": (
        "ekiden.dispatcher.cli.commands.chat:chat",
        "Talk to the agents: every line is a request of the same session. Reads lines where there is no terminal.",
    ),
    "up": ("ekiden.dispatcher.cli.commands.up:up", "Run the embedded server, a dispatcher and a worker until Ctrl-C."),
    "dispatcher": (
        "ekiden.dispatcher.cli.commands.dispatcher:dispatcher",
        "Serve new jobs: route every request to its first agent, among those of the catalog in force.",
    ),
    "submit": ("ekiden.dispatcher.cli.commands.submit:submit", "Submit a request and print its job's id."),
    "jobs": ("ekiden.dispatcher.cli.commands.jobs:jobs", "List the newest jobs, newest first."),
    "usage": ("ekiden.dispatcher.cli.commands.usage:usage", "Show the tokens and the money that models have taken."),
    "job": ("ekiden.dispatcher.cli.commands.job:app", "Look at one job, cancel it, let it go on, or fork it."),
    "approvals": (
        "ekiden.dispatcher.cli.commands.approvals:app",
        "See what waits for people, and answer it.",
    ),
    "sessions": (
        "ekiden.dispatcher.cli.commands.sessions:app",
        "Look at conversations, say who goes on with them, clear or export them.",
    ),
    "memory": (
        "ekiden.dispatcher.cli.commands.memory:app",
        "Look at what agents remember from job to job, add to it, forget.",
    ),
    "users": ("ekiden.dispatcher.cli.commands.users:app", "Forget the people who use this deployment."),
    "trace": (
        "ekiden.dispatcher.cli.commands.trace:app",
        "See where a job's time and tokens went; export it, play it again.",
    ),
    "status": (
        "ekiden.dispatcher.cli.commands.status:status",
        "Show the pools that run, and the queues with what waits in them.",
    ),
    "doctor": (
        "ekiden.dispatcher.cli.doctor.command:doctor",
        (
            "Check the server, the pools, the agents, the models and the collector; say what to do where something is "
            "wrong."
        ),
    ),
    "models": (
        "ekiden.dispatcher.cli.commands.models:models",
        "Show the models that agents can use here, and why the others cannot be used.",
    ),
    "agents": ("ekiden.dispatcher.cli.agents.group:app", "Make, show, change and check agents."),
    "graph": ("ekiden.dispatcher.cli.commands.graph:app", "Look at graphs of agents, and at what they do in a job."),
    "team": ("ekiden.dispatcher.cli.commands.team:app", "Look at all agents together. No server is needed."),
    "catalog": (
        "ekiden.dispatcher.cli.commands.catalog:app",
        "Put agents in force, see which are, go back to those before.",
    ),
    "mcp": (
        "ekiden.dispatcher.cli.commands.mcp:app",
        "MCP: servers whose tools agents use, and your agents as a server.",
    ),
    "route": (
        "ekiden.dispatcher.cli.commands.route:app",
        "Show who would get a request, and why; measure how well your agents are told apart.",
    ),
    "policy": (
        "ekiden.dispatcher.cli.commands.policy:app",
        "See what holds of a call, test a policy, and replay it against what your agents did.",
    ),
    "guardrails": (
        "ekiden.dispatcher.cli.commands.guardrails:app",
        "See what an agent's guardrails would have said of what it did.",
    ),
    "eval": ("ekiden.dispatcher.cli.commands.evals:app", "Hold what a team does against a suite of requests."),
    "config": ("ekiden.dispatcher.cli.commands.config:app", "Read and change settings."),
    "trust": (
        "ekiden.dispatcher.cli.commands.trust:trust",
        "Show what a folder asks for beyond reading and routing, and grant it. With --json alone, it is only shown.",
    ),
    "acl": (
        "ekiden.dispatcher.cli.commands.acl:acl",
        "Print the users that a Redis or Valkey server needs for Ekiden, each with its rights.",
    ),
    "help": ("ekiden.dispatcher.cli.commands.help:help_", "Explain a command, as its --help does."),
    "adopt": (
        "ekiden.dispatcher.cli.commands.adopt:adopt",
        "Copy the jobs that lie in a folder to where Ekiden keeps those of this project. Unfinished ones do not go on.",
    ),
}
"""The commands of this package: where each one is, and what ``--help`` says of it without importing it."""
_CHOICE = re.compile(r"'(.*)' is not one of (.*)\.", re.DOTALL)
_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
EPILOG = (
    "File tools stay in their workspace; the tool bash, of an agent that has it, runs any command as you: ekiden "
    "doctor says what confines it. "
    "Exit codes: 0 done; 1 the job failed, or is unfinished; 2 bad input or configuration; 3 no server, or no "
    "dispatcher; 4 no such job; 5 no agent matched the request; 6 done, but not confirmed by as many "
    "replicas as are waited for; "
    "7 the Redis user may not do that; 8 the job waits for a person, and nobody could be asked; 9 somebody has decided "
    "that before; 130 cancelled or interrupted; 141 nobody reads the output any more."
)


def _is_request(word: str) -> bool:
    return any(mark.isspace() for mark in word.strip()) or word.startswith("@") or not word.isascii()


_PLUGGED = Plugged(frozenset(COMMANDS))


class _Commands(LazyGroup):
    """The commands of this package, then those of others."""

    lazy = COMMANDS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no name of a command but a sentence, or names an agent, is a request: ``ekiden "the tests fail"``."""
        if args and _is_request(args[0]) and self.get_command(ctx, args[0]) is None:
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def instead_of(self, name: str) -> str:
        return super().instead_of(name) or "A request is put in quotes, or behind `ekiden run`."

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_PLUGGED.names()]

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Here help is written; click would take a reader that has gone for a failure."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:
            sys.exit(_unwritten(error))

    def invoke(self, ctx: Any) -> Any:
        """A question that was answered with Ctrl-C, or with a no that ends the command, is a cancelled command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            sys.exit(_unwritten(error))
        except typer.BadParameter as error:
            error.message = _said_plainly(error.message)
            raise
        except typer.Abort:
            note("Aborted")
            raise typer.Exit(INTERRUPTED) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _PLUGGED.command(cmd_name)


def _said_plainly(message: str) -> str:
    """Return what is wrong with an argument without pydantic's words, and with what may have been meant."""
    from ekiden.shared.faults import in_plain_words
    from ekiden.shared.suggestions import nearest

    text = in_plain_words(message)
    chosen = _CHOICE.fullmatch(text)
    near = nearest(chosen[1], re.findall(r"'([^']*)'", chosen[2]), 1) if chosen else []
    return f"{text} Did you mean {near[0]!r}?" if near else text


app = typer.Typer(
    name="ekiden",
    cls=_Commands,
    help="Teams of LLM agents over a real job queue: routed, handed over, recovered.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from ekiden.shared.version import VERSION

        say(f"ekiden {VERSION}")
        raise typer.Exit


@app.callback()
def _ekiden(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> NoReturn:
    """Run the command line and exit. Foreseeable errors become one line on stderr and their exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        getattr(sys, name).reconfigure(errors="replace")  # never die of a character
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        app()
    except SystemExit as end:  # how typer ends; usage errors are written already
        return _flushed(end.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except EkidenError as error:
        return _complain(error)
    except OSError as error:
        return _unwritten(error)
    return 0


def _flushed(code: object) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    if isinstance(code, str):  # what Celery's start-up steps end with
        note(code)
        return 1
    return code if isinstance(code, int) else 0


def _complain(error: EkidenError) -> int:
    note(f"ekiden: {error}")
    return error.exit_code


def _unwritten(error: OSError) -> int:
    """Return the exit code of a command whose output nobody reads any more, or nobody can keep."""
    if error.errno not in _OUTPUT:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes at its end
    if isinstance(error, BrokenPipeError):
        return UNREAD
    note(f"ekiden: the output cannot be written: {error.strerror}")
    return 1
