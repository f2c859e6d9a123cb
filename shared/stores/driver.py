"""redis-py, without the OpenTelemetry SDK that it imports for the name of a type: a third of what importing it costs.

All that ``shared.stores`` has of redis-py, it has from here: whoever is first decides how it is imported.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from typing import Any

__all__ = [
    "WHO_CONNECTS",
    "BaseParser",
    "BlockingClient",
    "ConnectionPool",
    "ExponentialBackoff",
    "Pipeline",
    "Retry",
    "exceptions",
    "parse_url",
    "redis",
]

_UNUSED = "opentelemetry.sdk.metrics"


class _Refusal(MetaPathFinder):
    """Says of a module that it is not installed, to the thread that made it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """See ``MetaPathFinder``."""
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let nothing import the module ``name`` in this block, unless somebody has before."""
    refusal = _Refusal(name)
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)


with _without(_UNUSED):
    import redis.asyncio as redis
    from redis import Redis as BlockingClient
    from redis import exceptions
    from redis.asyncio import ConnectionPool
    from redis.asyncio.client import Pipeline
    from redis.asyncio.connection import BaseParser  # type: ignore[attr-defined]  # redis-py does not list it
    from redis.asyncio.retry import Retry
    from redis.backoff import ExponentialBackoff
    from redis.connection import parse_url

WHO_CONNECTS: dict[str, Any] = {}
"""Options of a connection that say once what each would look up anew in redis-py's metadata, within milliseconds."""
with suppress(ImportError):  # before redis-py 7.2
    from redis import DriverInfo

    WHO_CONNECTS["driver_info"] = DriverInfo()
