"""What was found in a queue and is no message of ours: kept for people to look at, out of the way of what is."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["DeadLetter", "DeadLetters", "RedisDeadLetterStore"]

MAX_RAW = 8_192
"""Bytes of a dead letter that are kept."""


@dataclass(frozen=True)
class DeadLetter:
    """Something that was in a queue and could not be read."""

    id: str
    at_ms: int
    """By the server's clock."""
    queue: str
    reason: str
    raw: bytes = b""
    """Its first bytes; empty if what stood under the queue's name was not a list."""

    @property
    def text(self) -> str:
        """How it begins, as text; bytes that are not UTF-8 are escaped."""
        return self.raw.decode(errors="backslashreplace")


@dataclass(frozen=True)
class DeadLetters:
    """How many there are, and the newest."""

    count: int = 0
    newest: DeadLetter | None = None


class RedisDeadLetterStore:
    """Keeps the newest dead letters of all queues in one stream."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)

    @translated
    async def bury(self, queue: str, reason: str, raw: bytes) -> None:
        """Keep what was in ``queue``."""
        await self._scripts.run("bury", queue=queue, reason=reason, raw=base64.b64encode(raw[:MAX_RAW]).decode())

    @translated
    async def move_misplaced(self, names: Sequence[str]) -> list[str]:
        """Put aside what stands under the names of queues and indexes and is none; return which they were."""
        return await self._scripts.run("clear", names=names)

    @translated
    async def look(self) -> DeadLetters:
        """Return how many there are, and the newest."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xlen(keys.DEAD_LETTERS)
        pipeline.xrevrange(keys.DEAD_LETTERS, count=1)
        count, newest = await pipeline.execute()
        return DeadLetters(count, _letter(*newest[0]) if newest else None)

    @translated
    async def all(self) -> list[DeadLetter]:
        """Return what there is, oldest first."""
        return [_letter(*row) for row in await as_any(self._redis.xrange(keys.DEAD_LETTERS))]

    @translated
    async def forget(self, letters: Sequence[DeadLetter]) -> None:
        """Forget ``letters``; others may have come meanwhile."""
        if letters:
            await as_any(self._redis.xdel(keys.DEAD_LETTERS, *(letter.id for letter in letters)))


def _letter(row: str, fields: dict[str, str]) -> DeadLetter:
    raw = base64.b64decode(fields["raw"])
    return DeadLetter(row, int(row.partition("-")[0]), fields["queue"], fields["reason"], raw)
