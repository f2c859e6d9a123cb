"""Catalogs with what was learned, as it changes. Routers see them; jobs are pinned to the files'."""

from collections.abc import Awaitable, Callable

from ekiden.dispatcher.learning.taught import taught
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import EkidenError, StoreUnavailable
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.settings.values import LearnSetting
from ekiden.shared.stores.lessons import Known, RedisLessonStore

__all__ = ["TaughtCatalogs"]

log = LateLogger(__name__)


class TaughtCatalogs:
    """What routers are shown in place of a catalog. Follows what is learned; one event loop only."""

    def __init__(
        self, store: RedisLessonStore, mode: LearnSetting, prepare: Callable[[Catalog], Awaitable[None]]
    ) -> None:
        """``prepare`` learns a catalog in the background: until it has, requests are routed by what was known before.

        It raises ``CatalogNotReady`` where that takes longer than anybody waits.
        """
        self._store = store
        self._mode = mode
        self._prepare = prepare
        self._known: Known | None = None
        self._made: dict[str, Catalog] = {}

    async def __call__(self, catalog: Catalog) -> Catalog:
        """Return what ``catalog`` is routed by."""
        if self._mode == "off":
            return catalog
        if self._known is None:
            self._known = await self._read()
        if catalog.digest not in self._made:
            self._made = {catalog.digest: self._with(catalog, self._known)}
        return self._made[catalog.digest]

    async def follow(self, catalog: Catalog) -> None:
        """Go by what has been learned since, once ``catalog`` is prepared with it. Raises as ``prepare``."""
        if self._mode == "off" or (self._known is not None and await self._store.version() == self._known.version):
            return
        known = await self._read()
        made = self._with(catalog, known)
        await self._prepare(made)
        self._known, self._made = known, {catalog.digest: made}

    def _with(self, catalog: Catalog, known: Known) -> Catalog:
        return taught(catalog, known.lessons.values(), accepted_only=self._mode == "suggest")

    async def _read(self) -> Known:
        try:
            return await self._store.known()
        except StoreUnavailable:
            raise
        except EkidenError as error:  # no request is to fail by what was only learned
            log.warning("lessons_not_read", error=str(error))
            return Known()
