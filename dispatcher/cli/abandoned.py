"""Jobs that an earlier command left unfinished: never resumed silently."""

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

from dispatcher.cli.neighbours import Neighbours
from dispatcher.cli.options import Abandoned
from dispatcher.cli.output import one_line
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.client import Client
    from shared.stores.base import JobView

__all__ = ["settle_abandoned"]

_DYING_S = 6.0
"""How long the pools of a killed command may take to end."""
_MOST = 10_000


def settle_abandoned(url: str, neighbours: Neighbours, choice: Abandoned | None) -> list[str]:
    """Return the jobs to resume, the oldest first. Pools must not run before this is settled.

    Raises:
        InvalidRequest: there are such jobs, no choice was made, and nobody is there to be asked.
    """
    try:
        left = asyncio.run(_left_behind(url)) if neighbours.is_alone else []
    finally:
        neighbours.join()
    if not left:
        return []
    if choice is None:
        choice = _ask(left)
    if choice == "resume":
        return [job.id for job in left]
    asyncio.run(_cancel(url, left))
    return []


async def _left_behind(url: str) -> "list[JobView]":
    """Return the unfinished jobs, unless pools that somebody started by hand serve them."""
    from dispatcher.client import Client

    async with Client(url) as client:
        jobs = [job for job in await client.jobs(_MOST) if not job.is_over and job.stop is None]
        if jobs and await _is_served(client):
            return []
        return jobs[::-1]


async def _is_served(client: "Client") -> bool:
    """Whether pools run and go on running; those of a killed command are about to end."""
    deadline = time.monotonic() + _DYING_S
    while any(_lives(pool.pid) for pool in await client.pools()):
        if time.monotonic() > deadline:
            return True
        await asyncio.sleep(0.1)
    return False


def _lives(pid: int) -> bool:
    """Whether the process runs: pools of an embedded server run on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def _cancel(url: str, jobs: "list[JobView]") -> None:
    from dispatcher.client import Client

    async with Client(url) as client:
        for job in jobs:
            await client.cancel(job.id)


def _ask(left: "list[JobView]") -> Abandoned:
    listed = [f"  {job.id}  {job.status}, {job.agent}: {one_line(job.summary, 60)}" for job in left[:10]]
    listed += [f"  and {len(left) - 10} more"] if len(left) > 10 else []
    text = "\n".join([f"An earlier command left {len(left)} unfinished job(s) here:", *listed])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest(
            f"{text}\nSay what becomes of them: --abandoned resume, or --abandoned cancel "
            f"(one by one: `ekiden job cancel {left[0].id}`)"
        )
    import typer

    typer.echo(text)
    while True:
        answer = typer.prompt("resume or cancel them?").strip().lower()
        if answer in ("resume", "cancel"):
            return "resume" if answer == "resume" else "cancel"
