"""Jobs that an earlier command left unfinished: never resumed silently."""

import asyncio
import os
import sys
import time
from collections.abc import Collection, Sequence
from typing import Literal

import typer

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.local.locks import RunningCommands
from ekiden.shared.embedded import Attachment
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.ids import parent_of, root_of
from ekiden.shared.redaction import preview
from ekiden.shared.stores.job_reader import Unfinished
from ekiden.shared.terminal_text import note, say, visible

__all__ = ["UnfinishedChoice", "listed_jobs", "settle_unfinished"]

UnfinishedChoice = Literal["resume", "cancel"]
"""What becomes of jobs that an earlier command left unfinished."""

_DYING_S = 6.0
"""How long the pools of a killed command may take to end; a living pool announces itself anew meanwhile."""
_SHOWN = 10
_WHY = "it was ended before they were"
_MEANS = (
    "Resumed, they go on where they were, and are shown behind what you ask for now. "
    "Cancelled, they are over, and what they have changed stays."
)


def settle_unfinished(
    server: Attachment,
    running_commands: RunningCommands,
    choice: UnfinishedChoice | None,
    *,
    is_elsewhere: bool = False,
    may_ask: bool = True,
) -> list[str]:
    """Return the jobs to resume, the oldest first. Pools must not run, nor others ``join``, before this is settled.

    A job that waits for a person is in nobody's way, and does nothing before that person has answered: without a
    choice it is left as it is, and named. ``is_elsewhere``: what comes now is in no session of theirs, where it would
    wait behind them. ``may_ask``: who is at the terminal may be asked.

    Raises:
        InvalidRequest: there are such jobs, no choice was made, and nobody is there to be asked.
        ConfigurationError: one is to be cancelled, and cannot be.
    """
    left = asyncio.run(_left_behind(server)) if running_commands.is_alone else []
    parked = asyncio.run(_parked(server.url, left)) if left and choice is None and is_elsewhere else set()
    if parked:
        few = "1 job waits" if len(parked) == 1 else f"{len(parked)} jobs wait"
        note(f"ekiden: {few} for a person here: `ekiden approvals list` shows what is asked")
    left = [job for job in left if root_of(job.id) not in parked]
    if not left:
        return []
    if (choice or _ask(left, may_ask=may_ask)) == "resume":
        return [job.id for job in _roots(left)]
    asyncio.run(_cancel(server.url, parked))
    return []


def listed_jobs(jobs: Sequence[Unfinished]) -> list[str]:
    """Return lines for people: the jobs, without those that one of them has delegated."""
    roots = _roots(jobs)
    lines = [f"  {job.id}  {job.status}, {job.agent}: {preview(job.summary, 60)}" for job in roots[:_SHOWN]]
    return [visible(line) for line in lines] + ([f"  and {len(roots) - _SHOWN} more"] if roots[_SHOWN:] else [])


def _roots(jobs: Sequence[Unfinished]) -> list[Unfinished]:
    ids = {job.id for job in jobs}
    return [job for job in jobs if parent_of(job.id) not in ids]


async def _left_behind(server: Attachment) -> list[Unfinished]:
    """Return the unfinished jobs, unless pools that somebody started by hand serve them.

    Nobody can serve a server that has only just been started, whatever its data say.
    """
    async with client_of(server.url) as client:
        jobs = [job for job in await client.unfinished() if not job.is_stopped]
        if jobs and not server.started and await _is_served(client):
            return []
        return jobs


async def _parked(url: str, left: Sequence[Unfinished]) -> set[str]:
    """Return the users' requests of which nothing goes on before a person answers."""
    async with client_of(url) as client:
        return {job.id for job in left if job.id == root_of(job.id) and await client.only_waits(job.id)}


async def _is_served(client: Client) -> bool:
    """Whether pools run and go on running; those of a killed command are about to end.

    What counts is that one announces itself anew: data may tell of processes that never were.
    """
    deadline = time.monotonic() + _DYING_S
    before = await client.announced_ms()
    while living := [pool.id for pool in await client.pools() if _lives(pool.pid)]:
        if time.monotonic() > deadline:
            now = await client.announced_ms()
            return any(now.get(pool, 0) > before.get(pool, 0) for pool in living)
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


async def _cancel(url: str, parked: Collection[str]) -> None:
    """Cancel all that has not ended but ``parked``: a job takes those along that it has delegated."""

    async def unfinished() -> list[Unfinished]:
        return [job for job in await client.unfinished() if not job.is_stopped and root_of(job.id) not in parked]

    async with client_of(url) as client:
        while left := _roots(await unfinished()):
            for job in left:
                await client.cancel(job.id)
            tried = {job.id for job in left}
            if tried & {job.id for job in await unfinished()}:
                raise ConfigurationError(f"not all of {', '.join(sorted(tried))} could be cancelled: try it again")


def _ask(left: Sequence[Unfinished], *, may_ask: bool) -> UnfinishedChoice:
    text = "\n".join(
        [f"An earlier command left {len(_roots(left))} unfinished job(s) here: {_WHY}", *listed_jobs(left), _MEANS]
    )
    if not (may_ask and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest(
            f"{text}\nSay what becomes of them: --unfinished resume, or --unfinished cancel "
            f"(one by one: `ekiden job cancel {left[0].id}`)"
        )

    say(text)
    while True:
        answer = typer.prompt("resume or cancel them?").strip().lower()
        if answer in ("resume", "cancel"):
            return "resume" if answer == "resume" else "cancel"
