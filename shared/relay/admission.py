"""Says whether a pool process takes another message: what it takes must begin within a fraction of a lease."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ekiden.shared.relay.leases import Leases

__all__ = ["Admission"]

LOOK_S = 0.05
"""The loop is asked for its lag at most this often, and after a refusal again this much later."""
LAG_SHARE = 20
"""The loop may lag by a lease divided by this."""
BEGINNING = 64
"""How many legs may be on their way from the queue to their handlers: enough that no connection is idle."""
BUSY_S = 5.0
"""For how long after messages were left in the queue the pool counts as busy."""


class Admission:
    """Lets messages in while the legs' loop keeps up with them; the others stay in the queue, for whoever is free.

    The consumer's thread asks, and never waits for the loop to answer: the time by which an answer is overdue counts as
    lag.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, leases: Leases, in_flight: Callable[[], int]) -> None:
        self._loop = loop
        self._leases = leases
        self._in_flight = in_flight
        self._asked_at = 0.0
        self._is_asked = False
        self._answered_after_s = 0.0
        self._refused_at = -BUSY_S
        self._refuses = False
        self.wake: Callable[[], object] = lambda: None
        """Called on the loop when it is time to ask again after a refusal."""

    def admits(self) -> bool:
        """Tell whether another message may be taken now. An idle process takes one, however slow it is."""
        in_flight = self._in_flight()
        is_behind = self.lag_s >= self._leases.lease_s / LAG_SHARE
        self._refuses = in_flight > 0 and (is_behind or in_flight - self._leases.begun >= BEGINNING)
        now = time.monotonic()
        if self._refuses:
            self._refused_at = now
        if not self._is_asked and (self._refuses or now - self._asked_at >= LOOK_S):
            self._asked_at, self._is_asked = now, True
            with suppress(RuntimeError):  # the pool has stopped: nothing is answered any more
                self._loop.call_soon_threadsafe(self._answer)
        return not self._refuses

    @property
    def room(self) -> int:
        """How many messages may be taken at a time, where one may."""
        return max(1, BEGINNING - (self._in_flight() - self._leases.begun))

    @property
    def lag_s(self) -> float:
        """How long a callback waits for its turn on the legs' loop."""
        overdue_s = time.monotonic() - self._asked_at if self._is_asked else 0.0
        return max(overdue_s, self._answered_after_s)

    @property
    def is_busy(self) -> bool:
        """Whether messages were left in the queue lately."""
        return time.monotonic() - self._refused_at < BUSY_S

    def _answer(self) -> None:
        self._answered_after_s, self._is_asked = time.monotonic() - self._asked_at, False
        if self._refuses:
            self._loop.call_later(LOOK_S, self.wake)
