"""Listings of MCP servers on Redis: whoever asked a server last, all workers read what it said.

Beside them what was offered to agents, by its digest, for as long as a job's journal may name it.
"""

import hashlib
import time

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisListingStore"]

_MOST_KEPT = 1_000
"""Digests that are remembered."""


class RedisListingStore:
    """Keeps texts by the identity of a server's entry, for ``LISTING_TTL_S``."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._kept: dict[str, float] = {}
        """Digests of what was kept, and when it is to be kept anew: monotonic seconds."""

    @translated
    async def get(self, server: str) -> str | None:
        """Return what was last put for ``server``; None: nothing, or too long ago."""
        found: str | None = await as_any(self._redis.get(keys.listing(server)))
        return found

    @translated
    async def put(self, server: str, text: str) -> None:
        """Keep a listing."""
        await as_any(self._redis.set(keys.listing(server), text, ex=keys.LISTING_TTL_S))

    @translated
    async def keep(self, text: str) -> str:
        """Keep what was offered, and return its digest; one that was kept here lately needs no second write."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        if len(self._kept) > _MOST_KEPT:
            self._kept.clear()
        if time.monotonic() >= self._kept.get(digest, 0.0):
            await as_any(self._redis.set(keys.listing(f"offered:{digest}"), text, ex=keys.SESSION_TTL_S))
            self._kept[digest] = time.monotonic() + keys.KEEP_EVERY_S
        return digest

    @translated
    async def kept(self, digest: str) -> str | None:
        """Return what was kept under ``digest``; None: nothing, or something else than was kept."""
        text: str | None = await as_any(self._redis.get(keys.listing(f"offered:{digest}")))
        return text if text is not None and hashlib.sha256(text.encode()).hexdigest() == digest else None
