"""The process's heartbeat: one thread with its own loop and connection renews leases, sweeps and announces."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import structlog

from ekiden.shared.errors import EkidenError, IndexOverwritten
from ekiden.shared.hooks.base import NO_HOOKS, Hook
from ekiden.shared.once import Once, StateChange
from ekiden.shared.relay.failover import FailoverDetector
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.queue_gauges import report_queues
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.replication import ReportReplicas
from ekiden.shared.stores.views import PoolView

__all__ = ["Heartbeat", "PeriodicCall"]

ANNOUNCE_S = 4.0
LOOK_S = 1.0
"""How often we look whether the server is still the one that gave us our leases; at once after it was away."""
TIDY_S = 600.0
GAUGES_S = 5.0
AGAIN_S = 0.25
"""A call that failed is made again after this, or after its own period if that is longer."""
CALM_S = 3.0
"""An outage is over once no call has failed for this long: reads may succeed while writes still fail."""

log = structlog.get_logger(__name__)


@dataclass
class PeriodicCall:
    """Something to do every so often."""

    every_s: float
    work: Callable[[Stores], Awaitable[object]]


class _Outage:
    """Says once what is wrong with the server, and once that it is over, however many calls meet it how often."""

    def __init__(self) -> None:
        self._server = StateChange()
        self._kinds = Once()
        self._began = self._last = 0.0

    def goes_on(self, error: EkidenError) -> None:
        """Note a failure."""
        self._last = time.monotonic()
        if self._server.note(is_well=False):
            self._began, self._kinds = self._last, Once()
        if self._kinds.first(type(error).__name__):
            log.warning("server_trouble", error=str(error))

    def may_be_over(self) -> None:
        """Note a success; it counts once nothing has failed for a while."""
        if time.monotonic() - self._last > CALM_S and self._server.note(is_well=True):
            log.warning("server_back", trouble_s=round(self._last - self._began, 1))


class Heartbeat:
    """Makes periodic calls until stopped, each at its own pace: a server that hangs in one of them delays no other.

    Legs on the main loop cannot delay it, a wedged main loop cannot fake it.
    """

    def __init__(
        self,
        url: str,
        settings: Settings,
        leases: Leases,
        describe: Callable[[], PoolView] | None,
        hooks: Hook = NO_HOOKS,
    ) -> None:
        self._url = url
        self._leases = leases
        self._describe = describe
        self._settings = settings
        self._hooks = hooks
        self._outage = _Outage()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._heartbeat()), name="heartbeat", daemon=True)
        self._chores = [
            PeriodicCall(settings.lease_s / 3, lambda stores: leases.renew(stores.jobs)),
            PeriodicCall(settings.lease_s / 20, self._stop_expired),
            PeriodicCall(0.0, self._listen),
            PeriodicCall(min(LOOK_S, settings.lease_s / 5), FailoverDetector(leases).look),
        ]
        if describe is not None:  # a process that runs a single leg neither sweeps nor announces itself
            self._chores += [
                PeriodicCall(settings.sweep_s, self._sweep),
                PeriodicCall(TIDY_S, lambda stores: stores.jobs.tidy()),
                PeriodicCall(TIDY_S, lambda stores: stores.catalogs.keep()),
                PeriodicCall(ANNOUNCE_S, lambda stores: stores.pools.announce(describe())),
                PeriodicCall(GAUGES_S, lambda stores: report_queues(stores, hooks)),
            ]

    def also(self, call: PeriodicCall) -> None:
        """Add a call; before ``start``."""
        self._chores.append(call)

    def start(self) -> None:
        """Start its thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating and take the announcement back."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5)

    async def _heartbeat(self) -> None:
        settings = self._settings
        confirming = ReportReplicas(settings.wait_replicas)
        stores = open_stores(self._url, retries=0, confirming=confirming, signing=settings.signing)
        repeating = [asyncio.create_task(self._repeat(call, stores)) for call in self._chores]
        await asyncio.to_thread(self._stopping.wait)
        await _end(repeating)
        if (describe := self._describe) is not None:
            await self._do(lambda stores: stores.pools.leave(describe().id), stores)
        await stores.close()

    async def _repeat(self, call: PeriodicCall, stores: Stores) -> None:
        while not self._stopping.is_set():  # redis-py may swallow a cancellation while it drops a connection
            due = time.monotonic() + call.every_s
            is_done = await self._do(call.work, stores)
            await asyncio.sleep(max(due - time.monotonic(), 0.01 if is_done else AGAIN_S))

    async def _do(self, work: Callable[[Stores], Awaitable[object]], stores: Stores) -> bool:
        try:
            await work(stores)
        except EkidenError as error:
            self._outage.goes_on(error)
            if isinstance(error, IndexOverwritten):
                await _put_aside(stores, error.key)
        except Exception:  # the heartbeat must outlive whatever goes wrong in it: without it every lease here is lost
            log.exception("beat_failed")
        else:
            self._outage.may_be_over()
            return True
        return False

    async def _stop_expired(self, _: Stores) -> None:
        self._leases.stop_expired()

    async def _listen(self, stores: Stores) -> None:
        """Hear at once of jobs that somebody stops; whatever is missed here, the next renewal tells."""
        async for job in stores.jobs.stopped():
            self._leases.cancelled(job)

    async def _sweep(self, stores: Stores) -> int:
        settings = self._settings
        return await sweep(
            stores.jobs, grace_s=settings.queued_grace_s, max_attempts=settings.max_attempts, hooks=self._hooks
        )


async def _end(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended, two seconds at most: redis-py may swallow a cancellation, see ``_repeat``."""
    for _ in range(20):
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=0.1)
        if not tasks:
            return


async def _put_aside(stores: Stores, key: str) -> None:
    """Put aside what another program has written over an index. What that listed is lost; all else goes on."""
    with suppress(EkidenError):  # the next call that meets it tries again
        if await stores.dead_letters.move_misplaced([key]):
            log.error("index_overwritten", key=key, see="ekiden status --dead-letters")
