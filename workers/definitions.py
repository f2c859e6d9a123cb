"""The agent definitions that a worker has read."""

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.stores.catalogs import RedisCatalogStore

__all__ = ["Definitions"]


class Definitions:
    """Agent definitions by digest, read once: a digest never changes its meaning."""

    def __init__(self, store: RedisCatalogStore) -> None:
        self._store = store
        self._manifests: dict[str, dict[str, str]] = {}
        self._definitions: dict[str, AgentDefinition] = {}

    async def manifest(self, catalog: str) -> dict[str, str]:
        """Return a catalog's map name -> digest."""
        if catalog not in self._manifests:
            self._manifests[catalog] = await self._store.manifest(catalog)
        return self._manifests[catalog]

    async def definition(self, catalog: str, name: str) -> AgentDefinition:
        """Return the definition that ``catalog`` has of ``name``."""
        digest = (await self.manifest(catalog))[name]
        if digest not in self._definitions:
            self._definitions[digest] = AgentDefinition.from_json(await self._store.definition(catalog, digest))
        return self._definitions[digest]
