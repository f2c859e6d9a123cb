"""Relay time: what leases, timers and deadlines go by. It is the server's time without the jumps of its clock.

Clocks are set: by NTP, by hand, by a failover to a machine with another one. An hour back, and a dead worker's lease
has an hour to go; eight days forward, and every deadline has passed. So scripts count in relay time, which is the
server's time plus an offset that is kept beside the indexes. Whoever sweeps holds it, at each look, against its own
monotonic clock: question and answer of two looks bound what may have passed between them. A difference of more than
``TOLERANCE_S`` is a jump. It goes into the offset, once for all pools (compare-and-set on the number of jumps), and
what was written since the jump is put right (``lua/jump.lua``). A server that has lost that again, because it went
back in time or a replica took its place, has jumped once more for all who look.

While no pool runs, nobody can tell a jump from time that goes by, and it counts as such. Only back relay time never
goes. What people read (journals, lists) is the server's own time, and keys expire by it: a clock that jumps by more
than a month takes all sessions along.
"""

import time
from dataclasses import dataclass

from ekiden.shared.late_logger import LateLogger
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, ms, translated
from ekiden.shared.stores.scripts import VOUCHED_MS, Scripts

__all__ = ["TRIAL_S", "Jump", "RelayClock"]

TOLERANCE_S = 1.0
"""A smaller jump is not corrected: it ends no lease too early."""
TRIAL_S = 2.0
"""A pool that finds a time that nobody vouches for waits this long for another pool to correct it. If none does, there
is no other pool, and it follows the time as it is."""

_NO_POOL = "-"
"""Who looks so follows nothing."""

log = LateLogger(__name__)


@dataclass(frozen=True)
class Jump:
    """The last jump of the server's clock that was taken out of relay time."""

    by_ms: int
    at_ms: int
    """The server's own time just after it."""
    jumps: int
    """How many there have been."""


@dataclass(frozen=True)
class _Reading:
    """Relay time ``at_ms``, read between two moments of our own clock; pools have followed it to ``followed_ms``."""

    at_ms: int
    followed_ms: int
    jumps: int
    asked_s: float
    answered_s: float

    @property
    def is_vouched_for(self) -> bool:
        """Whether a pool has followed relay time until lately, or none ever has."""
        return not self.followed_ms or self.at_ms - self.followed_ms <= VOUCHED_MS

    def jump_since(self, before: "_Reading | None") -> int:
        """Return by how many ms the server's clock has jumped since ``before``; 0 within the tolerance."""
        if before is None:  # all that can be told: it was set back
            jump = min(0, self.at_ms - self.followed_ms)
        elif self.jumps > before.jumps:  # somebody else has taken it out
            jump = 0
        else:
            passed = self.at_ms - before.at_ms
            least, most = ms(self.asked_s - before.answered_s), ms(self.answered_s - before.asked_s)
            jump = passed - min(max(passed, least), most)
        return jump if abs(jump) > ms(TOLERANCE_S) else 0


class RelayClock:
    """Reads relay time and watches over it. One event loop only, as its client."""

    def __init__(self, client: Redis, scripts: Scripts) -> None:
        self._redis = client
        self._scripts = scripts
        self._followed: _Reading | None = None
        self._trial_ends_s = 0.0

    @translated
    async def passed_ms(self) -> int:
        """Return a relay time, in ms, that has certainly come: this very process's clock agrees, or another pool's.

        Raises ``StoreUnavailable``.
        """
        before, reading = self._followed, await self._read()
        if jump_ms := reading.jump_since(before):
            await self._take_out(jump_ms, before, reading)
            before, reading = None, await self._read()
        if reading.is_vouched_for:
            self._trial_ends_s = 0.0
        elif before is None:
            self._trial_ends_s = time.monotonic() + TRIAL_S
        self._followed = reading
        return reading.followed_ms if self._is_on_trial else reading.at_ms

    @translated
    async def unfollowed_ms(self) -> int | None:
        """See ``JobStore``: how far it was followed, where nobody vouches for it now; this is no following."""
        at, followed, _ = map(int, await self._scripts.run("tick", known=_NO_POOL, followed_ms=0))
        return followed if followed and not 0 <= at - followed <= VOUCHED_MS else None

    @translated
    async def last_jump(self) -> Jump | None:
        """Return the last jump of the server's clock; None: none that anybody noticed."""
        fields = await as_any(self._redis.hmget(keys.CLOCK, "jump_ms", "jumped_ms", "jumps"))
        return None if None in fields else Jump(*map(int, fields))

    @property
    def _is_on_trial(self) -> bool:
        return time.monotonic() < self._trial_ends_s

    async def _read(self) -> _Reading:
        """Read relay time, and tell the others up to when we have followed it."""
        told = None if self._is_on_trial else self._followed
        asked_s = time.monotonic()
        known, followed_ms = (told.jumps, told.at_ms) if told else ("", 0)
        at, followed, jumps = await self._scripts.run("tick", known=known, followed_ms=followed_ms)
        return _Reading(int(at), int(followed), int(jumps), asked_s, time.monotonic())

    async def _take_out(self, jump_ms: int, before: _Reading | None, reading: _Reading) -> None:
        """Take a jump out of relay time, unless another pool was quicker."""
        self._followed = None
        since_ms = reading.at_ms - (ms(reading.answered_s - before.asked_s) if before else 0)
        verdict, *taken_out = await self._scripts.run("jump", known=reading.jumps, by_ms=jump_ms, since_ms=since_ms)
        if verdict == "ok":
            log.warning(
                "server_clock_jumped", by_s=int(taken_out[0]) / 1000, action="taken out of leases, timers and deadlines"
            )
