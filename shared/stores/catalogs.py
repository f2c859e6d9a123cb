"""Agent definitions and catalogs on Redis: stored by digest, so that a deploy changes nothing for a running job."""

import json
from collections.abc import Mapping
from typing import Any, cast

from shared.errors import NoCatalog
from shared.stores import keys
from shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisCatalogStore"]


class RedisCatalogStore:
    """Publishes and reads catalogs: the map name -> digest, and the definitions (JSON) by their digest."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def publish(self, digest: str, manifest: Mapping[str, str], definitions: Mapping[str, str]) -> None:
        """Store ``definitions`` (digest -> JSON) and the catalog, then make it the one in force, in one transaction."""
        fields: dict[Any, Any] = {**definitions, "manifest": json.dumps(dict(manifest))}
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(keys.catalog(digest), mapping=fields)
        pipeline.expire(keys.catalog(digest), keys.CATALOG_TTL_S)
        pipeline.set(keys.CATALOG, digest)
        await pipeline.execute()

    @translated
    async def current(self) -> str | None:
        """Return the digest of the catalog in force; None before a dispatcher published one."""
        return cast("str | None", await as_any(self._redis.get(keys.CATALOG)))

    @translated
    async def manifest(self, digest: str) -> dict[str, str]:
        """Return a catalog's map name -> definition digest; raises ``NoCatalog``."""
        return cast(dict[str, str], json.loads(await self._field(digest, "manifest")))

    @translated
    async def definition(self, catalog: str, digest: str) -> str:
        """Return a definition's JSON; raises ``NoCatalog``."""
        return await self._field(catalog, digest)

    async def _field(self, catalog: str, field: str) -> str:
        text = await as_any(self._redis.hget(keys.catalog(catalog), field))
        if text is None:
            raise NoCatalog(f"catalog {catalog[:12]!r} is not on this server (any more): start `ekiden dispatcher`")
        return cast(str, text)
