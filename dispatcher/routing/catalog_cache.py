"""What is made of a catalog once, in the background, and kept for the last few catalogs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from ekiden.shared.errors import CatalogNotReady

__all__ = ["CatalogCache"]

T = TypeVar("T")

KEPT = 3
"""During a deploy, and after its rollback, requests come for the one before as well."""


class CatalogCache(Generic[T]):
    """Things by the digest of their catalog. Each is made once, however many ask for it. One event loop only."""

    def __init__(self, max_wait_s: float | None = None) -> None:
        """Make an empty one. ``max_wait_s``: how long who asks waits for what is still being made; None: to the end."""
        self._max_wait_s = max_wait_s
        self._made: dict[str, asyncio.Task[T]] = {}

    @property
    def is_in_use(self) -> bool:
        """Whether anything was ever asked for."""
        return bool(self._made)

    async def get(self, digest: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what ``make`` makes for the catalog ``digest``; what fails is made anew when it is asked for again.

        Raises ``CatalogNotReady`` when that takes longer than ``max_wait_s``: it is made all the same.
        """
        task = self._made.pop(digest, None)
        if task is None or task.cancelled() or (task.done() and task.exception() is not None):
            task = asyncio.create_task(make())
        self._made[digest] = task  # the one that was asked for last is the last to go
        while len(self._made) > KEPT:
            del self._made[next(iter(self._made))]
        if not task.done():  # waiting cancels nothing: others wait for the same
            await asyncio.wait([task], timeout=self._max_wait_s)
        if not task.done():
            raise CatalogNotReady(f"the agents are new here and still being read (catalog {digest[:12]})")
        return task.result()
