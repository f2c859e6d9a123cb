"""Keeps the leases of one process: one thread, one call for all legs, and only while the event loop ticks."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ekiden.shared.hooks.base import NO_HOOKS, Hook
from ekiden.shared.processes.grace_periods import TAKEOVER_S
from ekiden.shared.stores.base import JobStore, Lease

__all__ = ["HeldLease", "Leases", "StopCause"]

StopCause = Literal["lost", "cancelled"]


@dataclass
class HeldLease:
    """A lease in use. ``stop`` says why its leg was told to stop, if it was."""

    lease: Lease
    task: "asyncio.Task[object]"
    loop: asyncio.AbstractEventLoop
    valid_until: float
    stop: StopCause | None = None
    has_begun: bool = False
    """Whether its handler has been called."""
    prolonged: set[Callable[[], None]] = field(default_factory=set)
    """Told of each renewal, in the heartbeat's thread: processes live no longer than the lease under which they run."""

    def prolong(self, until: float) -> None:
        """Note a renewal."""
        self.valid_until = until
        for tell in list(self.prolonged):
            tell()


class Leases:
    """The legs that run in this process. ``renew`` is called by the heartbeat, the rest by the legs' event loop."""

    def __init__(self, lease_s: float, hooks: Hook = NO_HOOKS) -> None:
        self.lease_s = lease_s
        self._hooks = hooks
        self.granted_s = lease_s + TAKEOVER_S
        """The lease that the server is asked for: longer, so that a leg has ended here before anybody takes it over."""
        self._held: dict[str, HeldLease] = {}
        self.begun = 0
        """How many legs run whose handler has been called: the others are still being opened."""
        self._renewed_at = time.monotonic()
        self._ticked: dict[asyncio.AbstractEventLoop, float] = {}

    def __len__(self) -> int:
        """Return how many legs run."""
        return len(self._held)

    @contextmanager
    def holding(self, lease: Lease, sent_at: float) -> Iterator[HeldLease]:
        """Renew ``lease`` while the block runs. ``sent_at``: the monotonic time just before the claim was sent."""
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        held = HeldLease(lease, task, loop, sent_at + self.lease_s)
        self._tick(loop)
        self._held[lease.job] = held
        try:
            yield held
        finally:
            self.begun -= held.has_begun
            if self._held.get(lease.job) is held:
                del self._held[lease.job]

    def begin(self, held: HeldLease) -> None:
        """Note that the handler of a leg is called now."""
        held.has_begun = True
        self.begun += 1

    async def renew(self, store: JobStore) -> None:
        """Renew every lease whose loop ticks; stop the legs that lost theirs or whose job was cancelled.

        Raises ``StoreUnavailable``: then none is renewed.
        """
        held = [one for one in list(self._held.values()) if one.stop is None and self._ticks(one.loop)]
        asked_at = time.monotonic()
        if (late_s := asked_at - self._renewed_at - self.lease_s / 2) > 0 and held:  # a third of it would be in time
            self._hooks.leases_renewed_late(late_s)
        self._renewed_at = asked_at
        stops = await store.renew([one.lease for one in held], self.granted_s)
        for one in held:
            if (cause := stops.get(one.lease.job)) is None:
                one.prolong(asked_at + self.lease_s)
            else:
                self._stop(one, cause)

    def cancelled(self, job: str) -> None:
        """Stop ``job``'s leg if it runs here: somebody stopped the job."""
        if (one := self._held.get(job)) is not None:
            self._stop(one, "cancelled")

    def stop_expired(self) -> None:
        """Stop legs by our own clock before the server lets another worker take them."""
        margin = self.lease_s / 10
        for one in list(self._held.values()):
            if one.stop is None and time.monotonic() > one.valid_until - margin:
                self._stop(one, "lost")

    @property
    def are_wedged(self) -> bool:
        """Whether legs run on a loop that has not ticked for the length of a lease."""
        return not all(self._ticks(one.loop) for one in list(self._held.values()))

    def _ticks(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether ``loop`` has run lately, and ask it to say so again: a wedged loop loses its leases."""
        loop.call_soon_threadsafe(self._tick, loop)
        return time.monotonic() - self._ticked.get(loop, 0.0) < self.lease_s

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticked[loop] = time.monotonic()

    def _stop(self, one: HeldLease, cause: StopCause) -> None:
        """Cancel a leg's task once: a second time would hit it while it commits its end."""
        if one.stop is None and self._held.get(one.lease.job) is one:
            one.stop = cause
            one.loop.call_soon_threadsafe(one.task.cancel)
