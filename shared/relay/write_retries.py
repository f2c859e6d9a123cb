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
    cancelled by its ``Leases``; it therefore retries for as long as a lease lasts.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, write: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``write`` answers to these arguments, the same each time. Raises what it raises, in the end."""
        last_try = time.monotonic() + self._seconds - AGAIN_S
        try:
            return await write(*args, **kwargs)  # by itself: a success takes tens of µs to pass through tenacity
        except StoreUnavailable:
            if time.monotonic() > last_try:
                raise
        from tenacity import AsyncRetrying, retry_if_exception_type

        again = AsyncRetrying(
            retry=retry_if_exception_type(StoreUnavailable),
            before=_pause,
            stop=lambda _: time.monotonic() > last_try,
            reraise=True,
        )
        return await again(write, *args, **kwargs)


async def _pause(_: object) -> None:
    await asyncio.sleep(AGAIN_S)
