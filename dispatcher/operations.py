"""What operators ask of a server: whether it is well, who serves it, what waits, what was no message."""

from collections.abc import Sequence

from ekiden.shared.stores.dead_letters import DeadLetter, DeadLetters
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView

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

    async def announced_ms(self) -> dict[str, int]:
        """Return when each pool process last said that it is alive, by its id, in ms of the server's clock."""
        return await self._stores.pools.announced_ms()

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
