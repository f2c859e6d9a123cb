"""The intake on Redis: the one list that those may write to who may not run scripts, and what becomes of it.

A list, because whoever may push to one can neither take away nor pass what others have pushed.
"""

from typing import NamedTuple, cast

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, ms, translated
from ekiden.shared.stores.replication import WAIT_S
from ekiden.shared.stores.scripts import Scripts

__all__ = ["MAX_BYTES", "RedisIntakeStore", "Taken"]

MAX_BYTES = 1_048_576
"""Of a request in the intake."""
AT_ONCE = 20
"""Requests that one dispatcher takes at a time."""
BYTES_AT_ONCE = 4 * MAX_BYTES
"""It stops taking more once they are this long together: the server does nothing else while it hands them over."""
SERVE_S = 5.0
"""How long it has to serve them; after that others may take them too. Serving a request twice changes nothing."""


class Taken(NamedTuple):
    """A request that was taken: its text, or the beginning of one that is too long, and the SHA-1 of that."""

    digest: str
    text: str

    @property
    def is_too_long(self) -> bool:
        """Whether it was cut."""
        return len(self.text.encode()) > MAX_BYTES


class RedisIntakeStore:
    """Pushes, takes and answers requests. Nothing is lost when a dispatcher dies: what it took comes again."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)

    @translated
    async def push(self, text: str) -> None:
        """Put a request into the intake: the only write of a submitter."""
        await as_any(self._redis.lpush(keys.INTAKE, text))

    @translated
    async def reply(self, ticket: str) -> str | None:
        """Return what was answered to the request with this ticket; None: nothing yet."""
        return cast("str | None", await as_any(self._redis.get(keys.reply(ticket))))

    @translated
    async def wait(self, wait_s: float) -> None:
        """Return once there is a request, or after ``wait_s``: the oldest one is moved to where it is."""
        await as_any(self._redis).blmove(keys.INTAKE, keys.INTAKE, wait_s, "RIGHT", "RIGHT")

    @translated
    async def take(self) -> list[Taken]:
        """Take the oldest requests, to be served within ``SERVE_S``."""
        found = await self._scripts.run(
            "take",
            intake=keys.INTAKE,
            count=AT_ONCE,
            serve_ms=ms(SERVE_S),
            max_bytes=MAX_BYTES,
            max_bytes_at_once=BYTES_AT_ONCE,
        )
        return [Taken(*pair) for pair in zip(found[::2], found[1::2], strict=True)]

    @translated
    async def replicas(self, wanted: int) -> int:
        """Return how many replicas have all that was written up to now, once ``wanted`` have it, or ``WAIT_S`` is over.

        WAIT counts what its own connection has written last: a word that nobody hears, behind all the rest.
        """
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.publish(keys.WRITTEN, "")
        pipeline.wait(wanted, ms(WAIT_S))
        return int((await pipeline.execute())[1])

    @translated
    async def settle(self, taken: Taken, ticket: str | None, reply: str = "") -> None:
        """Be done with a request, and answer who holds its ticket, if anybody; the first answer to a ticket stands."""
        pipeline = self._redis.pipeline(transaction=True)
        if ticket is not None:
            pipeline.set(keys.reply(ticket), reply, ex=keys.REPLY_TTL_S, nx=True)
        pipeline.zrem(keys.INTAKE_TAKEN, taken.digest)
        pipeline.hdel(keys.INTAKE_TEXTS, taken.digest)
        await pipeline.execute()
