"""The way messages come in: kombu's Redis transport, to our address, and it survives whatever stands in a queue.

kombu's own takes what it pops for a message of Celery's: one element that is none ends the worker, and a key that holds
no list stalls every queue that is read with it.
"""

from collections.abc import Callable
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import redis
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from ekiden.shared.addresses import without_password
from ekiden.shared.relay.message_validation import Unreadable, validated
from ekiden.shared.stores.redis import connection_options

__all__ = ["RejectHandler", "transport_to"]

MOST = 32
"""Messages taken at a time: what a worker has taken and not begun when it dies waits for the sweeper."""
_TCP_ONLY = ("host", "port", "socket_keepalive", "socket_keepalive_options")


class RejectHandler:
    """What becomes of what is no message; called on the consumer's thread."""

    def __init__(self, bury: Callable[[str, str, bytes], None], move_misplaced: Callable[[], bool]) -> None:
        self.bury = bury
        """Keeps what was in a queue, with the reason why it is no message."""
        self.move_misplaced = move_misplaced
        """Puts aside what stands under the names of queues and is no list; False: there is none, or it cannot."""


class _Channel(redis.Channel):
    connection_class: Any
    room: Callable[[], int] = staticmethod(lambda: 1)
    """How many messages there is room for."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        """Connect to where everything else of Ekiden does: one reader of addresses."""
        place = connection_options(self.connection.url)
        self.connection_class = place.pop("connection_class", self.connection_class)
        options = super()._connparams(asynchronous)
        if "path" in place:
            options = {name: value for name, value in options.items() if name not in _TCP_ONLY}
        return {**options, **place}

    def _size(self, queue: str) -> int:
        """Look into a queue that is declared."""
        try:
            return int(super()._size(queue))
        except self.ResponseError as error:
            self._move_misplaced(error)
            return 0

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Ask for the next messages: kombu asks for one at a time, which costs more than what they lead to.

        Of one queue, whose turn it is; no more than there is room for.
        """
        if self.connection.takes_one:
            super()._brpop_start(timeout)
            return
        if not (queues := self._queue_cycle.consume(len(self.active_queues))):
            return
        self._in_poll = self.client.connection
        self._brpop_sent_at = monotonic()
        count = max(1, min(MOST, self.room()))
        wait_s = timeout or self.brpop_timeout or 0
        self.client.connection.send_command("BLMPOP", wait_s, len(queues), *queues, "RIGHT", "COUNT", count)

    def _brpop_read(self, **options: Any) -> bool:
        """Take the next messages; what is none is kept, and the worker goes on."""
        try:
            if not (found := self._popped(**options)):
                raise Empty
            key, items = found
            queue = bytes_to_str(key)
            self._queue_cycle.rotate(queue)
            messages = [self._checked(item, queue) for item in ([items] if self.connection.takes_one else items)]
            for message in filter(None, messages):
                self.connection._deliver(message, queue)  # noqa: SLF001  # as kombu's own
            if not any(messages):
                raise Empty  # as if nothing had come
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _popped(self, **options: Any) -> Any:
        try:
            return self.client.parse_response(self.client.connection, "BLMPOP", **options)
        except self.connection_errors:
            self.client.connection.disconnect()
            raise
        except self.ResponseError as error:
            if "permission" in str(error):  # rules of an earlier version; it says so again, if that is not it
                self.connection.takes_one = True
            else:
                self._move_misplaced(error)
            return None

    def _checked(self, item: bytes, queue: str) -> dict[str, Any] | None:
        try:
            return validated(item, queue, loads)
        except Unreadable as reason:
            self.connection.intake.bury(queue, str(reason), item)
            return None

    def close(self) -> None:
        """Close at once: the server is asked to answer the fetch that is under way, for which kombu waits a second.

        Where it may not be asked (rules of an earlier version), that is waited for.
        """
        if self._in_poll and (number := _number_of(self._in_poll)) is not None:
            self._hurry(number)
        super().close()

    def _hurry(self, number: int) -> None:
        try:
            with self.conn_or_acquire() as client:
                client.client_unblock(number)
        except self.ResponseError:
            pass
        except self.connection_errors:  # who does not answer this will not answer the fetch: nobody waits twice
            self._in_poll.disconnect()
            self._in_poll = None

    def _move_misplaced(self, error: Exception) -> None:
        if "WRONGTYPE" not in str(error) or not self.connection.intake.move_misplaced():
            raise error


def _number_of(connection: Any) -> int | None:
    """Return what the server calls a connection; None: it has not said so."""
    told = connection.handshake_metadata
    return told.get(b"id") if isinstance(told, dict) else None


class _Transport(redis.Transport):
    Channel = _Channel
    can_parse_url = True
    """Only so that kombu does not: it reads some addresses in another way than redis-py."""
    url = ""
    takes_one = False
    """Whether the server's rules let us take but one message at a time."""
    intake: RejectHandler

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "") -> str:
        """Return the address as logs and banners may show it."""
        return without_password(self.url)


def transport_to(url: str, intake: RejectHandler) -> type[_Transport]:
    """Return the transport from the server at ``url``. Raises ``ConfigurationError`` if that is no address."""
    connection_options(url)
    return type("Transport", (_Transport,), {"url": url, "intake": intake, "__module__": __name__})
