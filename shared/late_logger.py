"""The logger of what commands import: structlog's, imported with its first line, which few of them come to.

That import takes a command longer than its own work.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["LateLogger", "set_up_logs_late"]

_to_set_up: list[Callable[[], None]] = []


def set_up_logs_late(set_up: Callable[[], None]) -> None:
    """Have ``set_up`` called before the first line, if there is one."""
    _to_set_up[:] = [set_up]


class LateLogger:
    """Has the methods of structlog's loggers: ``log.warning("it_happened", job=job)``.

    Where nobody has set up logs, as in commands, structlog would print to standard output, which is data: there the
    standard library's logging takes over, whose warnings go to standard error: for people, a line each.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        import structlog

        while _to_set_up:
            _to_set_up.pop()()
        if structlog.is_configured():
            return getattr(structlog.get_logger(self._name), method)  # type: ignore[no-any-return]  # structlog's
        return partial(_write, getattr(logging.getLogger(self._name), method))


def _write(write: Callable[..., Any], event: str, **about: Any) -> None:
    said = (str(value).replace("\n", "\\n") for value in about.values())
    write("%s", ": ".join(["ekiden", event.replace("_", " "), *said]))
