"""One connection for the short commands of a whole event loop: written together, answered in their order.

With redis-py's own client every command borrows a connection, and costs several turns of the loop and some timers; here
it is a line in a buffer. redis-py opens the connection (address, TLS, user, database) and hands its socket over.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
from typing import Any, Self

import hiredis

from ekiden.shared.stores.driver import BaseParser, ConnectionPool, exceptions

__all__ = ["SENT_AT", "PipelinedConnection", "packed"]

MOST_UNANSWERED = 1_000
"""Commands on their way at a time: whoever has another one waits, in order."""
LONGEST = 65_536
"""Bytes of a command. A longer one would keep all behind it waiting: it takes a connection of its own."""

SENT_AT: ContextVar[float] = ContextVar("sent_at", default=0.0)
"""When (monotonic time) the last command of a task was sent: behind its wait for its turn."""


def packed(words: tuple[Any, ...]) -> bytes | None:
    """Return a command as it is sent; None for one that is too long, or that only redis-py can encode."""
    try:
        command: bytes = hiredis.pack_command(words)
    except (TypeError, UnicodeEncodeError):
        return None
    return command if len(command) <= LONGEST else None


class PipelinedConnection(asyncio.Protocol):
    """Sends commands, and gives each caller its answer. Of one event loop; lost once its connection is.

    Answers come in the order of the commands, so one that its caller waits for no more is only passed over. What is
    published comes between them (RESP3) and is told to ``heard``: its channel. Nobody waits longer than ``timeout_s``
    for the server's next word: then it counts as lost, as far as all callers are concerned.
    """

    def __init__(self, timeout_s: float, heard: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._heard = heard
        self._parser: Any = None
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: list[bytes] = []
        self._unanswered: deque[tuple[asyncio.Future[Any] | None, float]] = deque()
        self._room = asyncio.Semaphore(MOST_UNANSWERED)
        self._last_word_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._lost: Exception | None = None

    @classmethod
    async def open(cls, pool: ConnectionPool, timeout_s: float, heard: Callable[[str], None]) -> Self:
        """Return a wire to where ``pool`` leads. Raises what redis-py does."""
        connection = pool.connection_class(**{**pool.connection_kwargs, "protocol": 3})
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
        except BaseException:  # also when whoever opens it is cancelled half-way
            await connection.disconnect(nowait=True)
            raise
        wire = cls(timeout_s, heard)
        wire._take_over(connection)
        return wire

    def _take_over(self, connection: Any) -> None:
        """Put ourselves in the place of redis-py's reader and writer, for which there is no public way."""
        encoder = connection.encoder
        self._parser = hiredis.Reader(
            encoding=encoder.encoding,
            errors=encoder.encoding_errors,
            protocolError=exceptions.InvalidResponse,
            replyError=BaseParser.parse_error,
        )
        self._writer = connection._writer  # noqa: SLF001  # kept: it closes the socket when it is gone
        connection._reader = connection._writer = None  # noqa: SLF001  # so that redis-py takes it for closed
        assert self._writer is not None, "a connection that was just opened has a writer"
        self._writer.transport.set_protocol(self)

    @property
    def is_lost(self) -> bool:
        """Whether it takes no more commands."""
        return self._lost is not None

    async def call(self, command: bytes) -> Any:
        """Send a command that ``packed`` made; return its answer, or raise what the server or the connection says."""
        await self._room.acquire()
        if self._lost is not None:
            self._room.release()
            raise copy(self._lost)
        SENT_AT.set(time.monotonic())
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._send(command, answer)
        return await answer

    def tell(self, command: bytes) -> None:
        """Send a command whose answer nobody waits for."""
        if self._lost is None:
            self._send(command, None)

    def close(self, why: Exception) -> None:
        """Close the connection; ``why`` is told to whoever still waits."""
        self._lose(why)

    def data_received(self, data: bytes) -> None:
        """Give the answers in ``data`` to those who wait for them."""
        self._last_word_s = self._loop.time()
        self._parser.feed(data)
        try:
            while (reply := self._parser.gets()) is not False and not self.is_lost:
                self._take(reply)
        except Exception as error:  # what answers is no Redis, or an answer that nobody has asked for
            self._lose(exceptions.ConnectionError(f"the server's answer cannot be read: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self._lose(exceptions.ConnectionError(f"Connection lost{f': {exc}' if exc else ''}"))

    def _send(self, command: bytes, answer: asyncio.Future[Any] | None) -> None:
        is_idle = not self._unanswered
        self._unanswered.append((answer, self._loop.time()))
        self._unsent.append(command)
        if is_idle:
            self._flush()
        elif len(self._unsent) == 1:  # what others send until the loop turns goes along
            self._loop.call_soon(self._flush)
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._look)

    def _take(self, reply: Any) -> None:
        if isinstance(reply, hiredis.PushNotification) and reply[0] not in ("subscribe", "unsubscribe"):
            if reply[0] == "message":
                self._heard(reply[1])
            return
        answer = self._next_waiting()
        if answer is None or answer.done():  # its caller was cancelled
            return
        if isinstance(reply, Exception):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def _next_waiting(self) -> asyncio.Future[Any] | None:
        answer, _ = self._unanswered.popleft()
        if answer is not None:
            self._room.release()
        return answer

    def _flush(self) -> None:
        """Send what is to be sent: of an idle connection at once, which saves a turn of the loop."""
        if self._writer is not None and self._unsent:
            self._writer.transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _look(self) -> None:
        """Look whether the oldest caller has waited too long; the others are behind it."""
        self._watch = None
        if not self._unanswered:
            return
        silent_s = self._loop.time() - max(self._last_word_s, self._unanswered[0][1])
        if silent_s >= self._timeout_s:
            self._lose(exceptions.TimeoutError(f"no answer within {self._timeout_s:g} s"))
        else:
            self._watch = self._loop.call_later(self._timeout_s - silent_s, self._look)

    def _lose(self, error: Exception) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._watch is not None:
            self._watch.cancel()
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        while self._unanswered:
            answer = self._next_waiting()
            if answer is not None and not answer.done():
                answer.set_exception(copy(error))  # each has its own
