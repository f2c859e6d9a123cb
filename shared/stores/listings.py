"""Listings of MCP servers on Redis: whoever asked a server last, all workers read what it said."""

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisListingStore"]


class RedisListingStore:
    """Keeps texts by the identity of a server's entry, for ``LISTING_TTL_S``."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def get(self, server: str) -> str | None:
        """Return what was last put for ``server``; None: nothing, or too long ago."""
        found: str | None = await as_any(self._redis.get(keys.listing(server)))
        return found

    @translated
    async def put(self, server: str, text: str) -> None:
        """Keep a listing."""
        await as_any(self._redis.set(keys.listing(server), text, ex=keys.LISTING_TTL_S))
