"""What ``ekiden submit`` prints for scripts: data on standard output, all else on standard error."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from ekiden.dispatcher.cli.connection import connected, tell_if_unserved
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import waits_behind
from ekiden.shared.errors import NotConfirmed
from ekiden.shared.terminal_text import note, say

__all__ = ["Watching", "print_data", "submit_and_print", "submit_plainly"]

Watching = Callable[[Client], Awaitable[int]]
"""Submits on a connection, and watches the job to its end; returns the exit code."""


async def submit_and_print(
    asked: CliRequest, redis: str | None, data_dir: Path | None, watching: Watching | None, *, as_json: bool
) -> int:
    """Submit, and print the job's id, unless ``watching`` does it all; return the exit code."""
    async with connected(redis, data_dir, may_start=False) as client:
        if watching is not None:
            return await watching(client)
        job = await submit_plainly(client, asked, as_json=as_json)
        if (text := await waits_behind(client, job)) is not None:
            note(text)
        await tell_if_unserved(client, redis, data_dir)
    print_data({"job": job} if as_json else job)
    return 0


async def submit_plainly(client: Client, asked: CliRequest, *, as_json: bool) -> str:
    """Submit, and return the job's id; one that replicas do not have is printed as such, where JSON is wanted."""
    try:
        return await asked.submit(client, note)
    except NotConfirmed as error:
        if as_json:
            print_data({"job": error.job, "confirmed": False, "request_id": error.request_id})
        raise


def print_data(value: object) -> None:
    """Print a text as it is, anything else as JSON."""
    say(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
