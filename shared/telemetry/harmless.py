"""Watching must never be what a job fails by."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["harmless"]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)
_told: set[str] = set()


def harmless(watch: Callable[P, T]) -> Callable[P, T | None]:
    """Make ``watch`` return None where it would raise; what is wrong is logged once."""

    @wraps(watch)
    def watched(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return watch(*args, **kwargs)
        except Exception:
            if watch.__qualname__ not in _told:
                _told.add(watch.__qualname__)
                log.exception("telemetry_failed: %s (a fault of Ekiden's; jobs go on)", watch.__qualname__)
            return None

    return watched
