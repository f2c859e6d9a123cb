"""The connection: one client per event loop, its retries, and its errors in our words."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from copy import copy
from typing import Any, ParamSpec, TypeVar

from ekiden.shared.addresses import problem_of
from ekiden.shared.errors import (
    ConfigurationError,
    EkidenError,
    IndexOverwritten,
    NotPermitted,
    StoreNotReady,
    StoreUnavailable,
)
from ekiden.shared.stores import keys
from ekiden.shared.stores.driver import WHO_CONNECTS, ExponentialBackoff, Retry, exceptions, parse_url, redis
from ekiden.shared.stores.pipeline import SENT_AT, PipelinedConnection, packed

__all__ = ["PipelinedRedis", "Redis", "connect", "connection_options", "lists_only", "ms", "sent_at", "translated"]

Redis = redis.Redis

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = ("EVALSHA", "GET", "HGET", "HGETALL", "EXISTS")
_PAUSES = ExponentialBackoff(cap=0.5, base=0.02)
_SENT_AGAIN = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ReadOnlyError)
"""READONLY: after a failover the name stands for another server, which a new connection finds."""


class _FairPool(redis.ConnectionPool):
    """Lends its connections in the order in which they were asked for.

    redis-py's own blocking pool lets newcomers pass those that wait, and costs each of thousands several rounds of the
    event loop.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._free = asyncio.Semaphore(self.max_connections)
        self.is_closed = False

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        """Return a connection once it is this caller's turn."""
        await self._free.acquire()
        if self.is_closed:
            self._free.release()
            raise _closed()
        connection = self.get_available_connection()  # type: ignore[no-untyped-call]  # redis-py's
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        SENT_AT.set(time.monotonic())
        return connection

    async def release(self, connection: Any) -> None:
        """Take a connection back."""
        try:
            await super().release(connection)
        finally:
            self._free.release()

    def shut(self) -> None:
        """Open no connection any more, not even for a command that is under way: redis-py would send it again."""
        self.is_closed = True
        for connection in self._in_use_connections:
            connection.redis_connect_func = _refuse


def _closed() -> exceptions.RedisError:
    """Return what a closed client says: no ``ConnectionError``, after which a command is sent again."""
    return exceptions.RedisError("the connection to the server was closed by this program: open another one")


def _refuse(connection: object) -> None:  # the name is redis-py's
    raise _closed()


class PipelinedRedis(redis.Redis):
    """redis-py's client, whose short commands share one connection; all others borrow one of the pool's, as ever.

    Shared are those of ``_SHORT``, where the answer is short as well: a long one would keep others waiting. As with
    redis-py, a command is sent again, after a pause, when its connection is lost. Unlike redis-py's, a client that was
    closed refuses: nobody would close what it opened.
    """

    connection_pool: _FairPool
    _wire: PipelinedConnection | None = None
    _opening: "asyncio.Task[PipelinedConnection | Exception] | None" = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._listeners: dict[str, Callable[[], None]] = {}
        self._callbacks = {name: self.response_callbacks.get(name) for name in _SHORT}

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """See redis-py."""
        command = packed(args) if args[0] in _SHORT else None
        if command is None:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # redis-py's
        value = await self._call(command)
        callback = self._callbacks[args[0]]
        return callback(value) if callback else value

    def listen(self, channel: str, heard: Callable[[], None]) -> None:
        """Call ``heard`` whenever something is published on ``channel``, from this task's next short command on.

        Over the shared connection, which the server serves in order; nothing is heard where the server's rules forbid
        it. ``heard`` is also called after the connection was lost, or opened: something may have been missed.
        """
        self._listeners[channel] = heard
        if self._wire is not None:
            self._wire.tell(_packed("SUBSCRIBE", channel))

    def unlisten(self, channel: str) -> None:
        """Hear no more of ``channel``."""
        self._listeners.pop(channel, None)
        if self._wire is not None:
            self._wire.tell(_packed("UNSUBSCRIBE", channel))

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close all connections, for good; whoever still waits is told so."""
        self.connection_pool.shut()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._wire is not None:
            self._wire.close(_closed())
        await super().aclose(close_connection_pool)

    async def _call(self, command: bytes) -> Any:
        failures = 0
        while True:
            wire = self._wire
            if wire is None or wire.is_lost or self.connection_pool.is_closed:
                wire = await self._connected()
            try:
                return await wire.call(command)
            except _SENT_AGAIN as error:
                if isinstance(error, exceptions.ReadOnlyError):
                    wire.close(error)
                failures += 1
                if failures > self._retries:
                    raise
            await asyncio.sleep(_PAUSES.compute(failures))

    @property
    def _retries(self) -> int:
        retry: Retry = self.connection_pool.connection_kwargs["retry"]
        return retry.get_retries()

    async def _connected(self) -> PipelinedConnection:
        """Return the shared connection; opened by the first who needs it, for all."""
        if self.connection_pool.is_closed:
            raise _closed()
        if self._wire is not None and not self._wire.is_lost:
            return self._wire
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._opened())
        opening = self._opening
        await asyncio.wait({opening})
        if self.connection_pool.is_closed:
            raise _closed()
        if isinstance(opened := opening.result(), Exception):
            raise copy(opened) from opened
        return opened

    async def _opened(self) -> PipelinedConnection | Exception:
        """Return a new connection, or why there is none: whoever still waits for it raises that, if anybody does."""
        timeout_s: float = self.connection_pool.connection_kwargs["socket_timeout"]
        try:
            wire = self._wire = await PipelinedConnection.open(self.connection_pool, timeout_s, self._heard)
        except Exception as error:
            return error
        with suppress(exceptions.RedisError):
            await asyncio.gather(*(wire.call(_packed("SUBSCRIBE", channel)) for channel in self._listeners))
        for heard in list(self._listeners.values()):
            heard()
        return wire

    def _heard(self, channel: str) -> None:
        if (heard := self._listeners.get(channel)) is not None:
            heard()


def connect(url: str, *, retries: int = 3, timeout_s: float = 5.0, connections: int = 16) -> Redis:
    """Return a client for ``url``; it connects at first use. Raises ``ConfigurationError`` if that is no address.

    A command is sent again after a lost connection: every script of ours gives the same verdict the second time.
    Callers beyond ``connections`` wait their turn: commands are short, and opening one costs more than the wait.
    """
    _require_address(url)
    pool = _FairPool.from_url(
        url,
        max_connections=connections,
        decode_responses=True,
        encoding_errors="replace",  # a queue may hold anything: what is no text is read as such, and not raised
        retry=Retry(_PAUSES, retries),
        retry_on_error=list(_SENT_AGAIN),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=10,
        **WHO_CONNECTS,
    )
    return PipelinedRedis.from_pool(pool)


def _packed(*words: str) -> bytes:
    command = packed(words)
    assert command is not None, "what we say ourselves is short"
    return command


def sent_at() -> float:
    """Return when (monotonic time) the last command of this task was sent: not when it began to wait for its turn."""
    return SENT_AT.get()


def connection_options(url: str) -> dict[str, Any]:
    """Return what a connection of redis-py's without asyncio, such as kombu's, is made with to get to ``url``."""
    _require_address(url)
    return dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py does not annotate it


def _require_address(url: str) -> None:
    if (problem := problem_of(url)) is not None:
        raise ConfigurationError(problem)


def translated(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a coroutine function so that redis-py's errors leave it as ours, and cancellations leave it at all."""

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        try:
            return await function(*args, **kwargs)
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            if "WRONGTYPE" in str(error):
                await _name_index(*args)
            raise _ours(error) from error
        finally:
            if (
                task is not None and task.cancelling() > cancelled
            ):  # redis-py sends by wait_for, which loses them before Python 3.12
                raise asyncio.CancelledError

    return wrapper


async def _name_index(store: object = None, *_: object) -> None:
    """Raise ``IndexOverwritten`` for an index that is none, where a store's method met it: the server tells no key."""
    client: Redis | None = getattr(store, "_redis", None)
    if client is None:
        return
    indexes = keys.KINDS | dict.fromkeys(map(keys.suspended, keys.CAUSES), "zset")
    with suppress(exceptions.RedisError, OSError, TimeoutError):
        if await client.type(keys.QUEUES) == "set":
            indexes |= dict.fromkeys(map(keys.queued, await as_any(client.smembers(keys.QUEUES))), "zset")
        for key, wanted in indexes.items():
            if (kind := await client.type(key)) not in (wanted, "none"):
                raise IndexOverwritten(key, str(kind), _KINDS.get(wanted, wanted))


_KINDS = {"zset": "sorted set"}


def _ours(error: Exception) -> EkidenError:
    text = _said(error)
    if text.startswith(("NOAUTH", "HELLO must be called")):
        return ConfigurationError(
            "the Redis server wants a user name or password, and the address has none: write redis://:PASSWORD@HOST:PORT"
        )
    if isinstance(error, exceptions.NoPermissionError) or _NO_RIGHT in str(error):
        return NotPermitted(
            f"the Redis user of this address may not do that ({text}): submitting needs the role submitter, "
            "cancelling, retrying and publishing admin, serving jobs pool; `ekiden acl` prints what each may do"
        )
    if isinstance(error, exceptions.AuthenticationError):
        return ConfigurationError(
            f"the Redis server refuses the user name or password ({text}): correct them in the address"
        )
    if "unknown command" in text and "HELLO" in text:  # what every connection begins with
        return ConfigurationError("the Redis server is older than version 6: Ekiden needs Redis 7 or later, or Valkey")
    if text.startswith("DB index"):
        return ConfigurationError(f"the Redis server has no such database ({text}): most have 0 to 15")
    if (state := _state_told_by(error, text)) is not None:
        return StoreNotReady(f"the Redis server {_NOT_READY[state]} ({text})")
    if isinstance(error, exceptions.ResponseError):
        return EkidenError(f"the Redis server refuses a command: {text}")
    return StoreUnavailable(text)


_NO_RIGHT = "ACL failure in script: "
"""How a server begins to say that a script has run into something that its caller has no right to."""


def _said(error: Exception) -> str:
    """Return the server's words: not the command of a pipeline, which may hold a user's text, nor a script's line."""
    said = str(error).rpartition("of pipeline caused error: ")[2].strip("(',)").removeprefix(_NO_RIGHT)
    return said.partition(" script: ")[0].rstrip(".") or type(error).__name__


_NOT_READY = {
    "LOADING": "is loading its data: wait until it has",
    "OOM": "is out of memory: raise its maxmemory, or delete sessions",
    "READONLY": "takes no writes, it is a replica: point EKIDEN_REDIS_URL at the primary",
    "MASTERDOWN": "is a replica without its primary: point EKIDEN_REDIS_URL at the primary",
    "MISCONF": "cannot write to its disk: free some space",
    "NOREPLICAS": "takes no writes, too few of its replicas are well (min-replicas-to-write): bring them back",
}
"""What a server that answers, but cannot serve, says: and what to do."""


def _state_told_by(error: Exception, text: str) -> str | None:
    classes: dict[type[Exception], str] = {
        exceptions.BusyLoadingError: "LOADING",
        exceptions.OutOfMemoryError: "OOM",
        exceptions.ReadOnlyError: "READONLY",
    }
    by_class = (state for known, state in classes.items() if isinstance(error, known))
    return next(by_class, None) or next((state for state in _NOT_READY if text.startswith(state)), None)


def ms(seconds: float) -> int:
    """Return whole milliseconds, in which scripts and indexes count; a duration is never none, which means for ever."""
    return round(seconds * 1000) or int(seconds > 0)


def lists_only(replies: Iterable[Any]) -> list[Any]:
    """Return what a pipeline was answered about lists, None where a key holds something else; raise any other error."""
    found = [None if isinstance(one, Exception) and str(one).startswith("WRONGTYPE") else one for one in replies]
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def as_any(value: Any) -> Any:
    """Drop redis-py's ``Awaitable[T] | T`` typing, which fits both its sync and async clients."""
    return value
