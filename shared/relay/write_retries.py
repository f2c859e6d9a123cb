"""Writes of running legs that outlast a server's restart: what is in hand is worth more than a moment's wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from ekiden.shared.errors import StoreUnavailable

__all__ = ["WriteRetries"]

AGAIN_S = 0.2

P = ParamSpec("P")
T = TypeVar("T")


class WriteRetries:
    """Repeats a write while the server is away, for so many seconds at most.

    Repeating is safe: claims, appends and commits are recognised by the store. A leg whose lease runs out meanwhile is
    cancelled by its ``Leases``; patience therefore lasts as long as a lease.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, write: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``write`` answers to these arguments, the same each time. Raises what it raises, in the end."""
        gives_up = time.monotonic() + self._seconds
        while True:
            try:
                return await write(*args, **kwargs)
            except StoreUnavailable:
                if time.monotonic() + AGAIN_S > gives_up:
                    raise
            await asyncio.sleep(AGAIN_S)
