"""What operators ask of a server: whether it is well, who serves it, its agents, what waits, what was no message."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.dispatcher.requests import require_agent
from ekiden.shared.errors import NoCatalog
from ekiden.shared.records import ServedTools
from ekiden.shared.stores.dead_letters import DeadLetter, DeadLetters
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView

if TYPE_CHECKING:
    from ekiden.shared.definitions.catalog import Catalog
    from ekiden.shared.definitions.model import AgentDefinition
    from ekiden.shared.stores.usage import UsageRow

__all__ = ["Operations"]


class Operations:
    """The part of the client that is about no job."""

    _stores: Stores

    async def health_problem(self) -> str | None:
        """Say why the server takes no writes just now, and what to do; None when it does."""
        return await self._stores.health_problem()

    async def now_ms(self) -> int:
        """Return the server's clock, in ms since the epoch: all times of a job are by it."""
        return await self._stores.now_ms()

    async def server_pid(self) -> int:
        """Return the server's process id, for those that watch over it."""
        return await self._stores.server_pid()

    async def pools(self) -> list[PoolView]:
        """Return the pool processes that are there now."""
        return await self._stores.pools.pools()

    async def strategies(self) -> tuple[str, ...]:
        """Return how the dispatchers that are there now can route, by name; empty: none has told."""
        return tuple(sorted({name for pool in await self.pools() for name in pool.strategies}))

    async def announced_ms(self) -> dict[str, int]:
        """Return when each pool process last said that it is alive, by its id, in ms of the server's clock."""
        return await self._stores.pools.announced_ms()

    async def definitions(self) -> "dict[str, AgentDefinition]":
        """Return the agents of the catalog in force, by name; empty before one was published."""
        from ekiden.shared.definitions.model import AgentDefinition

        in_force = await self._stores.catalogs.in_force()
        if in_force is None:
            return {}
        manifest, definitions = await self._stores.catalogs.definitions(in_force.digest)
        return {name: AgentDefinition.from_json(definitions[digest]) for name, digest in manifest.items()}

    async def catalog(self, digest: str) -> "Catalog":
        """Return a catalog that is stored. Raises ``NoCatalog``, ``UnreadableDefinition``, ``Forged``."""
        from ekiden.shared.definitions.catalog import Catalog

        return Catalog.from_store(*await self._stores.catalogs.definitions(digest))

    async def usage(self, days: int) -> "list[UsageRow]":
        """Return what models were used for in the last ``days`` days (UTC), today being one of them."""
        today = await self._stores.usage.today()
        return await self._stores.usage.rows(range(today - days + 1, today + 1))

    async def queues(self) -> list[QueueView]:
        """Return every queue with its length and its consumers."""
        return await self._stores.pools.queues()

    async def dead_letters(self) -> list[DeadLetter]:
        """Return what was found in queues and is no message, oldest first."""
        return await self._stores.dead_letters.all()

    async def look_at_dead_letters(self) -> DeadLetters:
        """Return how many dead letters there are, and the newest."""
        return await self._stores.dead_letters.look()

    async def forget_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Forget these dead letters."""
        await self._stores.dead_letters.forget(letters)

    async def agents(self) -> list[str]:
        """Return the names of the catalog in force; empty before one was published."""
        in_force = await self._stores.catalogs.in_force()
        return sorted(in_force.manifest) if in_force else []

    async def definition(self, agent: str, catalog: str | None = None) -> "AgentDefinition":
        """Return an agent of a catalog, by its digest; None: that in force. Raises ``UnknownAgent``, ``NoCatalog``."""
        from ekiden.shared.definitions.model import AgentDefinition

        digest = catalog or await self._stores.catalogs.current()
        if digest is None:
            raise NoCatalog("nobody has published agents to this server: start `ekiden dispatcher`")
        manifest = await self._stores.catalogs.manifest(digest)
        require_agent(agent, manifest)
        return AgentDefinition.from_json(await self._stores.catalogs.definition(digest, manifest[agent]))

    async def published(self, catalog: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return a whole catalog by its digest: name -> digest, and digest -> JSON. Raises ``NoCatalog``."""
        return await self._stores.catalogs.definitions(catalog)

    async def served(self, digest: str) -> ServedTools | None:
        """Return what MCP servers offered an agent, by the digest that its journal names; None: it is kept no more."""
        text = await self._stores.listings.kept(digest)
        return ServedTools.model_validate_json(text) if text is not None else None
