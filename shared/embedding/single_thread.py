"""One thread for numpy's linear algebra: what is computed here is too small to be shared out.

More threads only wait for each other, for 100 ms on a busy machine, and behind each product look for the next one for
tens of milliseconds: learning the shipped agents took two to five times the CPU time. The limit holds for the whole
process, which may be a user's program: who begins to compute sets it, who ends last lifts it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["single_threaded"]


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep linear algebra to one thread while the context is open; of a function that this decorates, while it runs."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


class _Limit:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._set: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._computing:
                self._set = _libraries().limit(limits=1, user_api="blas")
                _let_go()
            self._computing += 1

    def leave(self) -> None:
        with self._lock:
            self._computing -= 1
            if not self._computing:
                self._set.restore_original_limits()
                _let_go()


_limit = _Limit()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _let_go() -> None:
    """Let another thread lift the limit, or set the next one: of any but the first, it would not be heard."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread()
