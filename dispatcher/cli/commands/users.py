"""``ekiden users …``: what is kept of the people who use this deployment."""

import asyncio
import sys
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.forgetting import ForgottenUser

__all__ = ["app"]

app = typer.Typer(help="Forget the people who use this deployment.", no_args_is_help=True)


@app.callback()
def _users() -> None:
    pass  # so that the one command has a name


@app.command()
def forget(
    user: Annotated[str, typer.Argument(metavar="USER", help="The name, as `ekiden sessions list` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Take away all that is kept of a user: sessions, jobs and their journals, notes, lessons. For good."""
    if not user:
        raise InvalidRequest("name the user")
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest("nothing was forgotten: it is for good, so say --yes where nobody can be asked")
        typer.confirm(f"Forget all sessions, jobs and notes of {user!r}, for good?", abort=True)

    async def forgotten() -> ForgottenUser:
        async with connected(redis, data_dir) as client:
            return await client.forget_user(user)

    found = asyncio.run(forgotten())
    if not any(found):
        raise InvalidRequest(f"no session, job, note or lesson is kept of {user!r}: `ekiden sessions list` shows names")
    Output().line(
        f"{user}: {found.sessions} session(s), {found.jobs} job(s), {found.notes} note(s), {found.lessons} lesson(s) "
        "forgotten"
    )
