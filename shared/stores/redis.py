"""The connection: one client per event loop, its retries, and its errors in our words."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit, urlunsplit

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from shared.errors import ConfigurationError, EkidenError, StoreNotReady, StoreUnavailable

__all__ = ["Redis", "broker_url", "connect", "ping", "translated"]

Redis = redis.Redis

P = ParamSpec("P")
T = TypeVar("T")


def connect(url: str, *, retries: int = 3, timeout_s: float = 5.0) -> Redis:
    """Return a client for ``url`` (``redis://``, ``rediss://``, ``unix://``); it connects at first use.

    A command is sent again after a lost connection: every script of ours gives the same verdict the second time.
    """
    try:
        return redis.Redis.from_url(
            url,
            decode_responses=True,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), retries),
            retry_on_error=[exceptions.ConnectionError, exceptions.TimeoutError],
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            health_check_interval=10,
            max_connections=200,
        )
    except ValueError as error:
        raise ConfigurationError(
            f"{without_password(url)!r} is no Redis address; expected redis://HOST:PORT/DB or unix:///PATH"
        ) from error


def broker_url(url: str) -> str:
    """Return ``url`` in the form that kombu reads."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    query = parts.query.replace("db=", "virtual_host=")
    return urlunsplit(("redis+socket", parts.netloc, parts.path, query, ""))


async def ping(client: Redis, url: str) -> None:
    """Raise ``StoreUnavailable`` unless the server at ``url`` answers; the message says what to do."""
    try:
        await translated(client.ping)()
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"no Redis server answers at {without_password(url)} ({error}): start one, or set EKIDEN_REDIS_URL"
        ) from error


def without_password(url: str) -> str:
    """Return ``url`` as it may be shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))


def translated(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a coroutine function so that redis-py's errors leave it as ours."""

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            raise _ours(error) from error

    return wrapper


def _ours(error: Exception) -> EkidenError:
    text = str(error) or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError):
        return ConfigurationError(f"the Redis server refuses the user name or password: {text}")
    not_ready: tuple[type[Exception], ...] = (
        exceptions.BusyLoadingError,
        exceptions.ReadOnlyError,
        exceptions.OutOfMemoryError,
    )
    if isinstance(error, not_ready) or text.startswith(("LOADING", "READONLY", "OOM", "MASTERDOWN", "MISCONF")):
        return StoreNotReady(text)
    if isinstance(error, exceptions.ResponseError):
        return EkidenError(f"the Redis server refuses a command: {text}")
    return StoreUnavailable(text)


def as_any(value: Any) -> Any:
    """Drop redis-py's ``Awaitable[T] | T`` typing, which fits both its sync and async clients."""
    return value
