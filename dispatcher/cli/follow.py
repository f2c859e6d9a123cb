"""Follow a job to its end: show its journal as it grows, and say what it waits for."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dispatcher.cli.show import View
from shared.errors import UnknownJob
from shared.records import Ended

if TYPE_CHECKING:
    from dispatcher.client import Client

__all__ = ["Interrupted", "follow", "interruptible", "leave_running"]


class Interrupted(Exception):
    """The user pressed Ctrl-C, or somebody asked the program to end."""


async def follow(client: "Client", job: str, view: View, *, is_served: bool = False) -> Ended:
    """Show the journal of ``job`` up to its last record, and return that.

    Args:
        client: The connection.
        job: Whose journal.
        view: Where it is shown.
        is_served: Pools are on their way, so there is no need to look whether anybody serves the job's queue.
    """
    warned: set[str] = set()
    end: Ended | None = None
    async for entry in client.follow(job):
        if entry is not None:
            view.show(entry)
            end = entry.record if isinstance(entry.record, Ended) else end
        elif not is_served:
            await _warn_if_unserved(client, job, view, warned)
    if end is None:
        raise UnknownJob(f"the journal of job {job!r} has no end: it was deleted")
    return end


@asynccontextmanager
async def interruptible() -> AsyncIterator[None]:
    """Turn the first Ctrl-C or SIGTERM inside the block into ``Interrupted``; the second ends the program at once."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    except asyncio.CancelledError:  # asyncio's runner cancels its main task at the first SIGINT
        task.uncancel()
        raise Interrupted from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def leave_running(job: str, view: View) -> None:
    """Say that the job goes on without us, and how to see or end it."""
    view.note(f"job {job} goes on: `ekiden job events {job} --follow` shows it, `ekiden job cancel {job}` ends it")


async def _warn_if_unserved(client: "Client", job: str, view: View, warned: set[str]) -> None:
    """Once per queue: nobody consumes the queue that the job waits in."""
    found = await client.job(job)
    if found.status != "queued" or found.queue in warned:
        return
    if any(found.queue in pool.queues for pool in await client.pools()):
        return
    warned.add(found.queue)
    from shared.relay.message import agent_of

    agent = agent_of(found.queue)
    whom, command = (f"agent {agent!r}", f"worker --agents {agent}") if agent else ("new jobs", "dispatcher")
    view.note(f"the job waits: no running pool serves {whom}; start one with `ekiden {command}`")
