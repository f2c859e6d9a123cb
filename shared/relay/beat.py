"""The process's heartbeat: one thread with its own loop and connection renews leases, sweeps and announces."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from shared.errors import EkidenError
from shared.relay.leases import Leases
from shared.relay.sweeper import sweep
from shared.settings import Settings
from shared.stores.base import PoolView
from shared.stores.opening import Stores, open_stores

__all__ = ["Beat", "Chore"]

ANNOUNCE_S = 4.0

log = structlog.get_logger(__name__)


@dataclass
class Chore:
    """Something to do every so often."""

    every_s: float
    work: Callable[[Stores], Awaitable[object]]
    due: float = 0.0


class Beat:
    """Runs chores until stopped. Legs on the main loop cannot delay it, a wedged main loop cannot fake it."""

    def __init__(self, url: str, settings: Settings, leases: Leases, describe: Callable[[], PoolView]) -> None:
        self._url = url
        self._leases = leases
        self._describe = describe
        self._settings = settings
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._beat()), name="beat", daemon=True)
        self._chores = [
            Chore(settings.lease_s / 3, lambda stores: leases.renew(stores.jobs)),
            Chore(settings.sweep_s, self._sweep),
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
        self._thread.join(5)

    async def _beat(self) -> None:
        stores = open_stores(self._url, retries=0)
        while not self._stopping.is_set():
            for chore in self._chores:
                await self._do(chore, stores)
            await asyncio.sleep(self._pause())
        await self._do(Chore(0, lambda stores: stores.pools.leave(self._describe().id)), stores)
        await stores.close()

    async def _do(self, chore: Chore, stores: Stores) -> None:
        if time.monotonic() < chore.due:
            return
        chore.due = time.monotonic() + chore.every_s
        try:
            await chore.work(stores)
        except EkidenError as error:
            log.warning("beat_missed", error=str(error))
        except Exception:  # the beat must outlive whatever goes wrong in it: without it every lease here is lost
            log.exception("beat_failed")

    def _pause(self) -> float:
        wait = min(chore.due for chore in self._chores) - time.monotonic()
        return min(max(wait, 0.01), 0.1)  # short, so that stop() is quick

    async def _sweep(self, stores: Stores) -> int:
        settings = self._settings
        return await sweep(stores.jobs, grace_s=settings.queued_grace_s, max_attempts=settings.max_attempts)
