"""Opens every store on one connection."""

from dataclasses import dataclass

from shared.stores.catalogs import RedisCatalogStore
from shared.stores.jobs import RedisJobStore
from shared.stores.pools import RedisPoolStore
from shared.stores.redis import Redis, connect, ping

__all__ = ["Stores", "open_stores"]


@dataclass(frozen=True)
class Stores:
    """All stores of one server, for one event loop."""

    url: str
    client: Redis
    jobs: RedisJobStore
    catalogs: RedisCatalogStore
    pools: RedisPoolStore

    async def ping(self) -> None:
        """Raise ``StoreUnavailable`` unless the server answers."""
        await ping(self.client, self.url)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()


def open_stores(url: str, *, retries: int = 8, connections: int = 16) -> Stores:
    """Return the stores at ``url``; they connect at first use. One event loop only."""
    client = connect(url, retries=retries, connections=connections)
    return Stores(url, client, RedisJobStore(client), RedisCatalogStore(client), RedisPoolStore(client))
