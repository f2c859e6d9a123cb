"""Limits of models that all workers keep together: what is used, who waits. Counted by the server, in its time."""

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.shared.ids import session_of
from ekiden.shared.messages import MOST_TOKENS
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, ms, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["LimitState", "ModelLimit", "RedisModelLimitStore", "Reserved", "Wait"]

GRANT_S = 60.0
"""How long a reservation waits for the job that was woken for it."""
_LOOKED_AT = 500
"""How many of the jobs that wait for a limit are looked at, and woken, at once."""


@dataclass(frozen=True)
class ModelLimit:
    """How much of a model all workers with one key may use together; None: any amount."""

    key: str
    """Names the limit in the store: whose key, which model."""
    name: str
    """The model's, for people."""
    rpm: int | None = None
    """Calls in any minute."""
    tpm: int | None = None
    """Tokens in any minute, of input and output."""
    concurrent: int | None = None
    """Calls at the same time."""


@dataclass(frozen=True)
class Reserved:
    """A call that may be made now. ``held`` is what the store knows it by."""

    limit: ModelLimit
    job: str
    held: str
    estimate: int

    @property
    def size(self) -> int:
        """The tokens that are reserved: more than was estimated, where calls mostly take more."""
        return int(self.held.split()[1])


@dataclass(frozen=True)
class Wait:
    """There is no room for a call."""

    wait_s: float
    """For how long, about; with those who come first."""
    part: str
    """Of which part of the limit: ``rpm``, ``tpm``, ``concurrent``; ``blocked``: the provider wants to be left alone;
    empty: of none, but others come first."""
    look_s: float
    """When it is worth asking again, for whoever does not queue."""
    others: bool = False
    """Whether others come first, who wait already."""


@dataclass(frozen=True)
class LimitState:
    """How much of a limit is used, and who waits for it."""

    calls: int
    """In the last minute, as are tokens."""
    tokens: int
    running: int
    waiting: int
    blocked_s: float
    """For how long the provider wants to be left alone."""


class RedisModelLimitStore:
    """Counts calls of models."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)

    @translated
    async def take(
        self, limit: ModelLimit, job: str, estimate: int, *, queues: bool, fence: str = ""
    ) -> Reserved | Wait:
        """Reserve a call of ``estimate`` tokens for ``job``; where there is no room, take a place (``queues``).

        ``fence``: of the job's claim. What an earlier one holds was a worker's that is gone, and is in nobody's way;
        where there is a later one, there is no room. A call is under way for as long as its claim owns the job.
        """
        verdict, *rest = await self._scripts.run(
            "limit_take",
            limit=keys.limit(limit.key),
            id=job,
            fence=fence,
            session=keys.session(session_of(job)),
            name=limit.name,
            rpm=_given(limit.rpm),
            tpm=_given(limit.tpm),
            concurrent=_given(limit.concurrent),
            estimate=estimate,
            queues=int(queues),
        )
        if verdict == "ok":
            return Reserved(limit, job, rest[0], estimate)
        told_ms, part, look_ms = rest
        return Wait(int(told_ms) / 1000, part, int(look_ms) / 1000, others=verdict == "behind")

    @translated
    async def leave(self, limits: Sequence[ModelLimit], job: str, *, fence: str = "") -> None:
        """Give up what ``job`` has at these limits: a place, a call that it was woken for or that is over."""
        await self._scripts.run("limit_leave", limits=[keys.limit(limit.key) for limit in limits], id=job, fence=fence)

    async def settle(self, reserved: Reserved, used: int) -> None:
        """Count what the call has used, in tokens, as far as that can be true."""
        await self._settle(reserved, used=min(max(0, used), 2 * MOST_TOKENS))

    async def give_back(self, reserved: Reserved, *, leave_alone_s: float | None = None, refused: bool = False) -> None:
        """Count a call that failed as none, and keep everybody from the model for as long as its provider wants.

        ``refused``: because of too many calls; where nobody says for how long (None), it is longer each time.
        """
        blocked: int | str = "more" if refused else ""
        await self._settle(reserved, blocked_ms=blocked if leave_alone_s is None else ms(leave_alone_s))

    @translated
    async def _settle(self, reserved: Reserved, used: int | str = "", blocked_ms: int | str = "") -> None:
        await self._scripts.run(
            "limit_settle",
            limit=keys.limit(reserved.limit.key),
            id=reserved.job,
            held=reserved.held,
            estimate=reserved.estimate,
            used=used,
            blocked_ms=blocked_ms,
        )

    @translated
    async def wake(self) -> Sequence[str]:
        """Reserve calls for those whose turn has come; return the jobs, which the next look of a sweeper wakes."""
        return await self._scripts.run("limit_wake", grant_ms=ms(GRANT_S), most=_LOOKED_AT)

    @translated
    async def state(self, limit: ModelLimit) -> LimitState:
        """Return how much of a limit is used, and how many wait for it."""
        calls, tokens, running, waiting, blocked_ms = await self._scripts.run(
            "limit_state", limit=keys.limit(limit.key)
        )
        return LimitState(int(calls), int(tokens), int(running), int(waiting), int(blocked_ms) / 1000)


def _given(number: int | None) -> int | str:
    return "" if number is None else number
