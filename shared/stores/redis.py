"""The connection: one client per event loop, its retries, and its errors in our words."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from shared.errors import ConfigurationError, EkidenError, StoreNotReady, StoreUnavailable

__all__ = ["Redis", "broker_url", "connect", "ping", "translated"]

Redis = redis.Redis

P = ParamSpec("P")
T = TypeVar("T")


def connect(url: str, *, retries: int = 3, timeout_s: float = 5.0, connections: int = 16) -> Redis:
    """Return a client for ``url`` (``redis://``, ``rediss://``, ``unix://``); it connects at first use.

    A command is sent again after a lost connection: every script of ours gives the same verdict the second time.
    Callers beyond ``connections`` wait for a free one: commands are short, and opening one costs more than the wait.
    """
    try:
        pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=None,
            decode_responses=True,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), retries),
            retry_on_error=[exceptions.ConnectionError, exceptions.TimeoutError],
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            health_check_interval=10,
        )
    except ValueError as error:
        raise ConfigurationError(
            f"{without_password(url)!r} is no Redis address; expected redis://HOST:PORT/DB or unix:///PATH"
        ) from error
    return redis.Redis.from_pool(pool)


def broker_url(url: str) -> str:
    """Return ``url`` in the form that kombu reads: the same database, certificates checked as redis-py checks them."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    db = options.get("db", "")
    if parts.scheme == "unix":
        return f"redis+socket://{parts.netloc}{parts.path}?{urlencode({'virtual_host': db or '0'})}"
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    if parts.scheme == "rediss":
        tls.setdefault("ssl_cert_reqs", "required")  # kombu's own default checks nothing
    return urlunsplit((parts.scheme, parts.netloc, f"/{db}" if db else parts.path, urlencode(tls), ""))


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
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


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
