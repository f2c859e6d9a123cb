"""Agent definitions and catalogs on Redis: stored by digest, so that a deploy changes nothing for a running job."""

import json
from collections.abc import Mapping
from typing import cast

from shared.errors import NoCatalog
from shared.stores import keys
from shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisCatalogStore"]


class RedisCatalogStore:
    """Publishes and reads definitions (JSON by SHA-256) and catalogs (name -> digest, itself by digest)."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def publish(self, digest: str, manifest: Mapping[str, str], definitions: Mapping[str, str]) -> None:
        """Store ``definitions`` (digest -> JSON) and the catalog, then make it the one in force, in one transaction."""
        pipeline = self._redis.pipeline(transaction=True)
        for key, text in definitions.items():
            pipeline.set(keys.definition(key), text, ex=keys.DEFINITION_TTL_S)
        pipeline.set(keys.catalog(digest), json.dumps(dict(manifest)), ex=keys.DEFINITION_TTL_S)
        pipeline.set(keys.CATALOG, digest)
        await pipeline.execute()

    @translated
    async def current(self) -> str | None:
        """Return the digest of the catalog in force; None before a dispatcher published one."""
        return cast("str | None", await as_any(self._redis.get(keys.CATALOG)))

    @translated
    async def manifest(self, digest: str) -> dict[str, str]:
        """Return a catalog's map name -> definition digest; raises ``NoCatalog``."""
        text = await as_any(self._redis.get(keys.catalog(digest)))
        if text is None:
            raise NoCatalog(f"catalog {digest[:12]!r} is not on this server (any more): start `ekiden dispatcher`")
        return cast(dict[str, str], json.loads(text))

    @translated
    async def definition(self, digest: str) -> str:
        """Return a definition's JSON; raises ``NoCatalog``."""
        text = await as_any(self._redis.get(keys.definition(digest)))
        if text is None:
            raise NoCatalog(f"definition {digest[:12]!r} is not on this server (any more): start `ekiden dispatcher`")
        return cast(str, text)
