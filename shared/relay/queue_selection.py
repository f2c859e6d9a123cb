"""Which queues a worker consumes that was told no agents: it serves all that there are."""

from collections.abc import Collection

from ekiden.shared.relay.message import agent_of, queue_for
from ekiden.shared.stores.opening import Stores

__all__ = ["QueueSelection"]


class QueueSelection:
    """Finds the queues of the agents in force, and of others that jobs still wait for.

    An agent that the catalog in force lacks lives on in the jobs that are pinned to an older one.
    """

    def __init__(self) -> None:
        self._digest: str | None = None
        self._queues: list[str] = []

    async def queues(self, stores: Stores, served: Collection[str]) -> list[str]:
        """Return the queues that are to be consumed beside those that are ``served``."""
        await self._look(stores)
        left = [queue for queue in await stores.pools.pushed_to() if agent_of(queue) is not None]
        waiting = await stores.pools.oldest([queue for queue in left if queue not in served])
        return [queue for queue in dict.fromkeys([*self._queues, *waiting]) if queue not in served]

    async def _look(self, stores: Stores) -> None:
        """Read who is in force, if that is not the one that was read last."""
        if await stores.catalogs.current() == self._digest:
            return
        if (found := await stores.catalogs.in_force()) is not None:
            self._digest, self._queues = found.digest, list(map(queue_for, found.manifest))
