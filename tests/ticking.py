"""Whether an event loop goes on while something else runs in its process."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["beside_a_ticking_loop"]

T = TypeVar("T")

HELD_S = 0.1
"""Seconds of a processor that the loop's thread may use between two ticks."""
PAUSED_S = 2.0
"""Seconds between two ticks, which the machine's other work adds to."""


async def beside_a_ticking_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Return what ``work`` gives; the loop has ticked all the time, and did not do the work itself."""
    held = paused = 0.0

    async def tick() -> None:
        nonlocal held, paused
        while True:
            used, at = time.thread_time(), time.monotonic()
            await asyncio.sleep(0.005)
            held, paused = max(held, time.thread_time() - used), max(paused, time.monotonic() - at)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.02)
    try:
        return await work()
    finally:
        await asyncio.sleep(0.02)  # a tick that was held up ends
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        assert held < HELD_S, f"the loop worked {held:.3f} s at a stretch"
        assert paused < PAUSED_S, f"the loop stood still for {paused:.3f} s"
