"""``ekiden``: the commands, and the one place that turns errors into a line and an exit code.

Importing this costs no more than typer: redis, celery, pydantic and the embedded server are imported by the commands
that need them, when they run.
"""

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from dispatcher.cli import (
    acl,
    adopt,
    agents,
    catalog,
    chat,
    config,
    doctor,
    job,
    jobs,
    models,
    route,
    serve,
    sessions,
    status,
    submit,
    trace,
    trust,
    up,
)
from dispatcher.cli import run as run_command
from shared.errors import ConfigurationError, EkidenError
from shared.visible import say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["app", "run"]

PLUGINS = "ekiden.commands"
"""The entry-point group of commands that other packages bring, such as the workers'."""
INTERRUPTED = 130
EPILOG = (
    "File tools stay in their workspace; the tool bash, of an agent that has it, runs any command as you: nothing "
    "confines it. "
    "Exit codes: 0 done; 1 the job failed; 2 bad input or configuration; 3 no server, or no dispatcher; 4 no such job; "
    "5 no agent matched the request; 6 done, but not confirmed by as many replicas as are waited for; "
    "7 the Redis user may not do that; 130 cancelled or interrupted."
)


class _Commands(TyperGroup):
    """The commands of this package, then those of entry points, which are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_plugins())]

    def invoke(self, ctx: Any) -> Any:
        """A question that was answered with Ctrl-C, or with a no that ends the command, is a cancelled command."""
        try:
            return super().invoke(ctx)
        except typer.Abort:
            say("Aborted", is_error=True)
            raise typer.Exit(INTERRUPTED) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = super().get_command(ctx, cmd_name)
        if known is not None or (entry := _plugins().get(cmd_name)) is None:
            return known
        return _loaded(entry)


app = typer.Typer(
    name="ekiden",
    cls=_Commands,
    help="Teams of LLM agents over a real job queue: routed, handed over, recovered.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run_command.run)
app.command("chat")(chat.chat)
app.command("up")(up.up)
app.command("dispatcher")(serve.dispatcher)
app.command("submit")(submit.submit)
app.command("jobs")(jobs.jobs)
app.add_typer(job.app, name="job")
app.add_typer(sessions.app, name="sessions")
app.add_typer(trace.app, name="trace")
app.command("status")(status.status)
app.command("doctor")(doctor.doctor)
app.command("models")(models.models)
app.add_typer(agents.app, name="agents")
app.add_typer(catalog.app, name="catalog")
app.add_typer(route.app, name="route")
app.add_typer(config.app, name="config")
app.command("trust")(trust.trust)
app.command("adopt")(adopt.adopt)
app.command("acl")(acl.acl)


def run() -> NoReturn:
    """Run the command line and exit. Foreseeable errors become one line on stderr and their exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # never die of a character
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        app()
    except SystemExit as end:  # how typer ends; usage errors are written already
        return _flushed(end.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 1
    except EkidenError as error:
        return _complain(error)
    return 0


def _flushed(code: object) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    if isinstance(code, str):  # what Celery's start-up steps end with
        say(code, is_error=True)
        return 1
    return code if isinstance(code, int) else 0


def _complain(error: EkidenError) -> int:
    say(f"ekiden: {error}", is_error=True)
    return error.exit_code


def _drop_output() -> None:
    """Nobody reads any more: keep the interpreter from complaining about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plugins() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=PLUGINS)}


def _loaded(entry: "EntryPoint") -> Any:
    """Return the command that the entry point names: a function that typer understands."""
    try:
        function = entry.load()
    except ImportError as error:
        raise ConfigurationError(f"the command {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    one = typer.Typer(add_completion=False)
    one.command(entry.name, context_settings={"help_option_names": ["-h", "--help"]})(function)
    return typer.main.get_command(one)
