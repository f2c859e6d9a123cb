"""The process's heartbeat: one thread with its own loop and connection renews leases, sweeps and announces."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from shared.errors import EkidenError
from shared.relay.leases import Leases
from shared.relay.sweeper import end_overdue, sweep
from shared.settings import Settings
from shared.stores.base import PoolView
from shared.stores.opening import Stores, open_stores

__all__ = ["Beat", "Chore"]

ANNOUNCE_S = 4.0
TIDY_S = 600.0

log = structlog.get_logger(__name__)


@dataclass
class Chore:
    """Something to do every so often."""

    every_s: float
    work: Callable[[Stores], Awaitable[object]]


class Beat:
    """Runs chores until stopped, each at its own pace: a server that hangs in one of them delays no other.

    Legs on the main loop cannot delay it, a wedged main loop cannot fake it.
    """

    def __init__(self, url: str, settings: Settings, leases: Leases, describe: Callable[[], PoolView] | None) -> None:
        self._url = url
        self._leases = leases
        self._describe = describe
        self._settings = settings
        self._outage = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._beat()), name="beat", daemon=True)
        self._chores = [
            Chore(settings.lease_s / 3, lambda stores: leases.renew(stores.jobs)),
            Chore(settings.lease_s / 20, self._stop_expired),
            Chore(0.0, self._listen),
        ]
        if describe is not None:  # a process that runs a single leg neither sweeps nor announces itself
            self._chores += [
                Chore(settings.sweep_s, self._sweep),
                Chore(TIDY_S, lambda stores: stores.jobs.tidy()),
                Chore(ANNOUNCE_S, lambda stores: stores.pools.announce(describe())),
            ]

    def also(self, chore: Chore) -> None:
        """Add a chore; before ``start``."""
        self._chores.append(chore)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating and take the announcement back."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5)

    async def _beat(self) -> None:
        stores = open_stores(self._url, retries=0)
        repeating = [asyncio.create_task(self._repeat(chore, stores)) for chore in self._chores]
        await asyncio.to_thread(self._stopping.wait)
        for task in repeating:
            task.cancel()
        await asyncio.wait(repeating, timeout=2)
        if (describe := self._describe) is not None:
            await self._do(lambda stores: stores.pools.leave(describe().id), stores)
        await stores.close()

    async def _repeat(self, chore: Chore, stores: Stores) -> None:
        while not self._stopping.is_set():  # redis-py may swallow a cancellation while it drops a connection
            due = time.monotonic() + chore.every_s
            await self._do(chore.work, stores)
            await asyncio.sleep(max(due - time.monotonic(), 0.01))

    async def _do(self, work: Callable[[Stores], Awaitable[object]], stores: Stores) -> None:
        try:
            await work(stores)
            self._outage = ""
        except EkidenError as error:
            self._note_outage(error)
        except Exception:  # the beat must outlive whatever goes wrong in it: without it every lease here is lost
            log.exception("beat_failed")

    def _note_outage(self, error: EkidenError) -> None:
        """Say once what is wrong with the server, not at every beat."""
        if str(error) != self._outage:
            log.warning("beat_missed", error=str(error))
        self._outage = str(error)

    async def _stop_expired(self, _: Stores) -> None:
        self._leases.stop_expired()

    async def _listen(self, stores: Stores) -> None:
        """Hear at once of jobs that somebody stops; whatever is missed here, the next renewal tells."""
        async for job in stores.jobs.stopped():
            self._leases.cancelled(job)

    async def _sweep(self, stores: Stores) -> int:
        settings = self._settings
        await end_overdue(stores.jobs)
        return await sweep(stores.jobs, grace_s=settings.queued_grace_s, max_attempts=settings.max_attempts)
