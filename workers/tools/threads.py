"""The threads of synchronous tools: one for each call, so many at a time; one that never returns holds no place."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from ekiden.shared.errors import ToolError

__all__ = ["ToolThreads"]

_MOST_LEFT = 100
"""Threads without anybody who waits for them: each keeps what it holds."""


class ToolThreads:
    """Runs calls of tools that would hold the event loop."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)
        self._left: list[_Thread] = []

    @property
    def stuck(self) -> int:
        """How many calls were given up and run on: nobody can end a thread from outside."""
        self._left = [one for one in self._left if one.is_alive()]
        return len(self._left)

    @asynccontextmanager
    async def running(self, call: Callable[[], Any]) -> AsyncIterator[Awaitable[Any]]:
        """Begin ``call`` once there is a place, and give what it gives; left before, it is nobody's any more.

        Raises ``ToolError`` without beginning where too many were left.
        """
        async with self._places:
            if self.stuck >= _MOST_LEFT:
                raise ToolError(f"not executed: {_MOST_LEFT} calls never returned in this worker, restart it")
            thread = _Thread(call)
            thread.start()
            try:
                yield thread.outcome
            finally:
                if thread.outcome.cancelled() or not thread.outcome.done():
                    self._left.append(thread)


class _Thread(threading.Thread):
    """A daemon: the process ends beside it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name="tool", daemon=True)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # log fields and the trace span are known in the thread, too
        self.outcome: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> None:
        try:
            made, error = self._context.run(self._call), None
        except BaseException as raised:
            made, error = None, raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._settle, made, error)

    def _settle(self, made: Any, error: BaseException | None) -> None:
        if self.outcome.done():
            return
        if isinstance(error, StopIteration):  # no future can carry it
            error = RuntimeError("StopIteration")
        if error is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(made)
