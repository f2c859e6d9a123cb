"""Notices a worker that looks healthy and does nothing: its consumer hears no message, or its legs' loop is wedged."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import structlog
from celery.bootsteps import RUN

from ekiden.shared.relay.admission import Admission
from ekiden.shared.relay.leases import Leases
from ekiden.shared.stores.opening import Stores

__all__ = ["LOOK_S", "Watchdog"]

LOOK_S = 2.0
DEAF_S = 10.0
"""How long the oldest message of a queue of ours may wait while we have room for it and receive nothing."""
WEDGED_LEASES = 3
"""For how many leases' length the legs' loop may stand still."""
EXIT_CODE = 70

log = structlog.get_logger(__name__)


class Watchdog:
    """Looks after one worker process. First it makes a deaf consumer connect again; then it ends the process.

    Whoever started the process starts it again, and its legs go on elsewhere, or here, where they were.
    """

    def __init__(self, worker: Any, leases: Leases, admission: Admission, queues: Callable[[], list[str]]) -> None:
        self._worker = worker
        self._leases = leases
        self._admission = admission
        self._queues = queues
        self._received = -1
        self._seen: dict[str, tuple[str, float]] = {}
        self._has_reconnected = False
        self._wedged_since: float | None = None

    async def look(self, stores: Stores) -> None:
        """Look once."""
        if self._worker.blueprint.state != RUN:  # it stops, or has not begun
            return
        if self._is_wedged():
            await self._end("legs_wedged")
        if not await self._is_deaf(stores):
            return
        if self._has_reconnected:
            await self._end("consumer_still_deaf")
        log.error("consumer_deaf", waited_s=DEAF_S, queues=sorted(self._seen), action="connecting again")
        self._has_reconnected = True
        self._seen.clear()
        self._worker.consumer.call_soon(_lose_connection)

    async def _is_deaf(self, stores: Stores) -> bool:
        """Tell whether a message has been the oldest of its queue for too long, though we could have taken it."""
        pool = self._worker.pool
        if pool.received != self._received:
            self._received = pool.received
            self._has_reconnected = False
            self._seen.clear()
        if not pool.has_room or self._admission.is_busy:  # it leaves messages to others on purpose
            self._seen.clear()
            return False
        now = time.monotonic()
        oldest = await stores.pools.oldest(self._queues())
        self._seen = {
            queue: seen if (seen := self._seen.get(queue)) and seen[0] == text else (text, now)
            for queue, text in oldest.items()
        }
        return any(now - since > DEAF_S for _, since in self._seen.values())

    def _is_wedged(self) -> bool:
        if not self._leases.are_wedged:
            self._wedged_since = None
            return False
        self._wedged_since = self._wedged_since or time.monotonic()
        return time.monotonic() - self._wedged_since > WEDGED_LEASES * self._leases.lease_s

    async def _end(self, why: str) -> None:
        log.critical(why, action="ending this process")
        await asyncio.to_thread(self._worker.pool.cancel)  # legs that still can give themselves back
        os._exit(EXIT_CODE)


def _lose_connection() -> None:
    """Raised in the consumer's own loop, this makes it do what it does for any lost connection."""
    raise ConnectionResetError("the consumer receives nothing")
