"""``ekiden status``: who is there, and what waits."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.commands.dead_letters import show_dead_letters
from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.status import StatusSnapshot, read_status, show_status, status_json
from ekiden.dispatcher.cli.views.status_watch import watch_status
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import say

__all__ = ["status"]


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Go on, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(metavar="S", min=0.1, help="With --watch: how often.")] = 2.0,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Show what was found in queues and is no message, and why.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="With --dead-letters: forget those that are shown.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show the pools that run, and the queues with what waits in them."""
    if clear and not dead_letters:
        raise InvalidRequest("--clear forgets dead letters: give it together with --dead-letters")
    if dead_letters and watch:
        raise InvalidRequest("--dead-letters and --watch exclude each other")
    if dead_letters:
        show_dead_letters(redis, data_dir, clear=clear, as_json=as_json)
        return
    if watch:
        asyncio.run(watch_status(redis, data_dir, interval, as_json=as_json))
        return
    found = asyncio.run(_look_once(redis, data_dir))
    if as_json:
        say(status_json(found))
        return

    show_status(Output(), found)


async def _look_once(redis: str | None, data_dir: Path | None) -> StatusSnapshot:
    async with connected(redis, data_dir) as client:
        return await read_status(client)
