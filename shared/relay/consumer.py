"""Celery's consumer, as a worker needs it that nobody watches: it comes back by itself, soon, and floods no log.

Celery's own waits up to 30 s between two tries, tells of each, and goes round without a pause on a server that answers
every command with an error (a replica, after a failover).
"""

import logging
import signal
import socket
import threading
import time
import warnings
from typing import Any

import structlog
from celery import bootsteps
from celery.worker import state
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown

from ekiden.shared.relay.admission import Admission

__all__ = ["AdmittingStep", "PromptStep", "ReconnectingConsumer"]

AGAIN_S = (0.2, 0.4, 2.0)
"""How long between two tries: first, then so much more each time, at most."""
PAUSE_S = 1.0
QUIET_S = 60.0
"""How long the same trouble is not told again."""

log = structlog.get_logger(__name__)


class ReconnectingConsumer(Consumer):  # type: ignore[misc]  # celery ships no types
    """``worker_consumer`` of our apps."""

    _told: tuple[str, float] = ("", 0.0)

    def ensure_connected(self, conn: Any) -> Any:
        """Connect, however long it takes."""
        first, more, most = AGAIN_S
        conn = conn.ensure_connection(
            lambda error, _: self._tell(error),
            interval_start=first,
            interval_step=more,
            interval_max=most,
            callback=maybe_shutdown,
        )
        self.first_connection_attempt = False
        return conn

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Clean up as Celery does, after a pause: it connects again at once."""
        self._tell(exc)
        time.sleep(PAUSE_S)
        with warnings.catch_warnings(action="ignore"):  # of a change in Celery 6, each time
            super().on_connection_error_after_connected(exc)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Pause; Celery connects again."""
        self._tell(exc)
        time.sleep(PAUSE_S)

    def _tell(self, error: Exception) -> None:
        what, at = self._told
        if what != type(error).__name__ or time.monotonic() - at > QUIET_S:
            self._told = (type(error).__name__, time.monotonic())
            log.warning("broker_lost", broker=self.conninfo.as_uri(), error=str(error))


class AdmittingStep(bootsteps.StartStopStep):  # type: ignore[misc]  # as above
    """Lets the consumer fetch no message while the process has too much to begin."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Ask for admission before each fetch; begun anew with each connection, whose channel is new."""
        channel = consumer.task_consumer.channel
        admission: Admission = consumer.app.relay.admission
        has_room = channel.qos.can_consume

        def can_consume() -> bool:
            # The answer to a fetch that is under way is read: nobody else can have that message any more.
            return bool(has_room() and (admission.admits() or channel._in_poll))  # noqa: SLF001  # told nowhere else

        def room() -> int:
            taken: int = len(state.reserved_requests)
            return min(int(consumer.pool.num_processes) - taken, admission.room)

        channel.qos.can_consume = can_consume
        channel.room = room
        admission.wake = lambda: consumer.call_soon(_turn)


class PromptStep(bootsteps.StartStopStep):  # type: ignore[misc]  # as above
    """Lets a signal to stop be heard at once: Celery's loop looks for one when it wakes, once a second."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    _ends: tuple[socket.socket, socket.socket] | None = None

    def start(self, consumer: Any) -> None:
        """Let signals wake the loop; begun anew with each connection, for which the loop forgets whom it listens to."""
        if threading.current_thread() is not threading.main_thread():  # to which all signals come
            return
        self._ends = heard, told = socket.socketpair()
        heard.setblocking(False)
        told.setblocking(False)
        consumer.hub.add_reader(heard, self._hear)
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)

    def stop(self, consumer: Any) -> None:
        """Listen no more."""
        if self._ends is None:
            return
        signal.set_wakeup_fd(-1)
        consumer.hub.remove(self._ends[0])
        for end in self._ends:
            end.close()
        self._ends = None

    def _hear(self) -> None:
        if self._ends is not None:
            self._ends[0].recv(1_024)


def _turn() -> None:
    """Make the consumer take a turn: it asks for admission in each."""


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out Celery's own words on lost connections: ours are enough."""
    return not record.getMessage().startswith("consumer: Connection to broker lost")


logging.getLogger("celery.worker.consumer.consumer").addFilter(_is_news)
