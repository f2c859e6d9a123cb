"""What a check may cost that evaluates what a file or a model wrote, and where it runs.

Such checks count their steps with ``spend``. ``run_limited`` runs one on the event loop as long as it takes a moment;
what takes longer is begun anew in a thread, where the loop goes on beside it, and ends there at a bound, by steps and
by time. The bound lies in the check itself because nobody can stop a thread from outside.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TypeVar

from ekiden.shared.errors import TooCostly

__all__ = ["A_MOMENT", "MOST_STEPS", "StepLimit", "limited", "run_limited", "spend"]

A_MOMENT = 500
"""Steps on the event loop: a few milliseconds."""
MOST_STEPS = 100_000
"""Steps of one check: about a second of a processor."""
MOST_CPU_S = 3.0
"""Seconds of a processor, where steps turn out to be dearer than they should be."""
_STEPS_A_LOOK = 256
"""Steps between two looks at the clock."""

T = TypeVar("T")


class StepLimit:
    """What is left for one check, in steps of about 5 µs."""

    def __init__(self, steps: int = MOST_STEPS, cpu_s: float = MOST_CPU_S, *, is_final: bool = True) -> None:
        """Allow so much; ``is_final``: there is no second try with more."""
        self.is_final = is_final
        self._steps = steps
        self._clock = time.thread_time if is_final else time.monotonic  # which costs no call of the system
        self._until = self._clock() + cpu_s
        self._look_at = max(-1, steps - _STEPS_A_LOOK)

    def spend(self, steps: int = 1) -> None:
        """Count ``steps``. Raises ``TooCostly`` when there are none left, or the time is over."""
        self._steps -= steps
        if self._steps > self._look_at:
            return
        self._look_at = max(-1, self._steps - _STEPS_A_LOOK)
        if self._steps < 0 or self._clock() > self._until:
            self._steps = -1
            raise TooCostly("it takes too long")


_CURRENT: ContextVar[StepLimit | None] = ContextVar("step_limit", default=None)


def spend(steps: int = 1) -> None:
    """Count ``steps`` of the check that runs now, if somebody bounds it. Raises ``TooCostly``."""
    if (limit := _CURRENT.get()) is not None:
        limit.spend(steps)


@contextmanager
def limited(steps: int = MOST_STEPS) -> Iterator[StepLimit]:
    """Bound what runs inside: by the limit of the check that it is a part of, else by one of its own."""
    if (current := _CURRENT.get()) is not None:
        yield current
        return
    limit = StepLimit(steps)
    token = _CURRENT.set(limit)
    try:
        yield limit
    finally:
        _CURRENT.reset(token)


async def run_limited(check: Callable[[], T]) -> T:
    """Return what ``check`` returns, without holding the event loop.

    Args:
        check: Has no effects, and may be begun twice. Its parts call ``spend``, and let ``TooCostly`` out unless their
            limit is final.
    """
    try:
        return check() if _CURRENT.get() is not None else _in_a_moment(check)
    except TooCostly:
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(_thread(), run, _to_the_end, check)


def _in_a_moment(check: Callable[[], T]) -> T:
    """Run the first try, in which nearly every check ends: so without what a context manager costs."""
    token = _CURRENT.set(StepLimit(A_MOMENT, is_final=False))
    try:
        return check()
    finally:
        _CURRENT.reset(token)


def _to_the_end(check: Callable[[], T]) -> T:
    with limited():
        return check()


@cache
def _thread() -> ThreadPoolExecutor:
    """The one thread of all checks that take long: they wait for each other, and the loop shares with one of them."""
    return ThreadPoolExecutor(1, "check")
