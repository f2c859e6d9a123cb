"""Follows the catalog in force: every job is routed over it, whatever files this process was started with.

A job that cannot be routed by it yet is given back and comes again, here or at another dispatcher.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from ekiden.dispatcher.routing.catalog_cache import CatalogCache
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import CatalogNotReady, NoCatalog, UnreadableDefinition
from ekiden.shared.outcomes import Outcome, Suspended
from ekiden.shared.records import LegSuspended
from ekiden.shared.relay.leg import Handler, Leg, backoff_s
from ekiden.shared.stores.catalogs import RedisCatalogStore

__all__ = ["CatalogInForce", "CurrentCatalogHandler"]

_LOOKS = 4
"""How often an agent that a request names is looked for, with 0.5, 1 and 2 s between: it may be on its way."""

log = structlog.get_logger(__name__)


class CatalogInForce:
    """Reads the catalog in force by its digest, each once; the event loop goes on meanwhile."""

    def __init__(self, store: RedisCatalogStore, max_wait_s: float | None = None) -> None:
        self._store = store
        self._read: CatalogCache[Catalog] = CatalogCache(max_wait_s)

    async def __call__(self) -> Catalog:
        """Return it. Raises ``NoCatalog``, ``UnreadableDefinition``, ``CatalogNotReady``, ``Forged``."""
        digest = await self._store.to_route_by()
        if digest is None:
            raise NoCatalog("no catalog is in force: publish agents with `ekiden catalog publish`")
        return await self._read.get(digest, lambda: self._load(digest))

    async def _load(self, digest: str) -> Catalog:
        manifest, definitions = await self._store.definitions(digest)
        catalog = await asyncio.to_thread(_read, manifest, definitions)
        log.info("catalog_read", catalog=digest[:12], agents=len(catalog))
        return catalog


@dataclass(frozen=True)
class CurrentCatalogHandler:
    """Routes each job over the catalog that is in force when it comes; ``handler_for`` makes the handler that does."""

    in_force: Callable[[], Awaitable[Catalog]]
    handler_for: Callable[[Catalog], Handler]
    told: set[str] = field(default_factory=set)
    """What was logged: a thousand jobs may wait for the same."""

    async def run(self, leg: Leg) -> Outcome:
        """Route the job; give it back while the catalog, or the agent that it names, is not to be had here."""
        try:
            catalog = await self.in_force()
            if _may_come_yet(leg, catalog):
                why = f"agent {leg.request.agent!r} is not in catalog {catalog.digest[:12]}"
                return Suspended("catalog", backoff_s(leg, "catalog"), why)
            return await self.handler_for(catalog).run(leg)
        except (NoCatalog, UnreadableDefinition, CatalogNotReady) as error:
            self._tell(str(error))
            return Suspended("catalog", backoff_s(leg, "catalog"), str(error))

    def _tell(self, why: str) -> None:
        if why not in self.told:
            self.told.add(why)
            log.warning("catalog_not_at_hand", error=why, hint="jobs that need it are given back, and come again")


def _may_come_yet(leg: Leg, catalog: Catalog) -> bool:
    """Tell whether the agent that the request names is missing, and has not been looked for often enough."""
    if leg.request.agent is None or leg.request.agent in catalog:
        return False
    pauses = sum(isinstance(record, LegSuspended) and record.cause == "catalog" for record in leg.records)
    return pauses < _LOOKS - 1


def _read(manifest: dict[str, str], definitions: dict[str, str]) -> Catalog:
    catalog = Catalog.from_store(manifest, definitions)
    catalog.digest  # noqa: B018 - computed here, off the event loop
    return catalog
