"""Whether an event loop goes on while something else runs in its process."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["beside_a_ticking_loop"]

T = TypeVar("T")

WORKED_S = 0.1
"""Seconds of a processor that the loop's own thread may use between two ticks."""
HELD_S = 0.4
"""Seconds of a processor that the process may use between two ticks: how long another thread has let nobody in.

Seconds by the clock would be the machine's other work.
"""


async def beside_a_ticking_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Return what ``work`` gives; the loop has ticked all the time, and did not do the work itself."""
    worked = held = 0.0

    async def tick() -> None:
        nonlocal worked, held
        while True:
            own, whole = time.thread_time(), time.process_time()
            await asyncio.sleep(0.005)
            worked, held = max(worked, time.thread_time() - own), max(held, time.process_time() - whole)

    _leave_out_what_there_is()
    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.02)
    try:
        return await work()
    finally:
        await asyncio.sleep(0.02)  # a tick that was held up ends
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        assert worked < WORKED_S, f"the loop worked {worked:.3f} s at a stretch"
        assert held < HELD_S, f"the loop was held for {held:.3f} s"


def _leave_out_what_there_is() -> None:
    """Keep the collector, which stops all threads, from what the test run has gathered before; for good.

    To give it all back would let it walk through everything that the run has imported and found, from then on.
    """
    gc.collect()
    gc.freeze()
