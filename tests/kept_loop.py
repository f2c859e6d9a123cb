"""One event loop, its threads and one client for all scenarios of a process: to open them costs a fifth of a scenario.

What a scenario leaves is ended behind it, as ``asyncio.run`` does: its tasks are cancelled, its threads waited for.
Where it leaves anything else, or has set the clock, the next one gets all of this anew.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from ekiden.shared.stores.redis import PipelinedRedis, Redis, connect
from tests.servers import shared_url

__all__ = ["run_on_kept_loop"]

T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """Threads that stay, and whose work can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: list[Future[Any]] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """See ``ThreadPoolExecutor``."""
        self._begun.append(future := super().submit(*args, **kwargs))
        return future

    def come_to_rest(self) -> None:
        """Wait until they have done all that they were given."""
        wait(self._begun)
        self._begun.clear()


class _Kept:
    """A loop and a client, for as long as they are as they were when they were made."""

    def __init__(self) -> None:
        self._clock = time.monotonic
        self._threads = _Threads()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._threads)
        client = connect(shared_url())
        assert isinstance(client, PipelinedRedis)
        self._client = client

    def run(self, main: Callable[[Redis], Coroutine[Any, Any, T]]) -> T:
        """Run ``main``, and end what it leaves."""
        try:
            return self._loop.run_until_complete(main(self._client))
        finally:
            if left := asyncio.all_tasks(self._loop):
                for task in left:
                    task.cancel()
                self._loop.run_until_complete(asyncio.wait(left))
            self._threads.come_to_rest()
            self._loop.set_exception_handler(None)

    @property
    def is_as_new(self) -> bool:
        """Whether a scenario finds what it would with a loop and a client of its own."""
        pool = self._client.connection_pool
        is_idle = not (pool.is_closed or pool._in_use_connections or self._client._listeners)
        return is_idle and self._clock is time.monotonic

    def close(self) -> None:
        """Close both."""
        self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._threads.shutdown()
        self._loop.close()


_kept: list[_Kept] = []
"""The one; none where the last scenario has not left it as it was."""


def run_on_kept_loop(main: Callable[[Redis], Coroutine[Any, Any, T]]) -> T:
    """Run ``main`` with a client of the server that all tests share."""
    if _kept and not _kept[0].is_as_new:  # the clock was set between two scenarios
        _close()
    kept = _kept.pop() if _kept else _Kept()
    try:
        return kept.run(main)
    finally:
        _kept.append(kept)
        if not kept.is_as_new:
            _close()


def _close() -> None:
    while _kept:
        _kept.pop().close()
