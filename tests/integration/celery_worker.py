"""A Celery worker in a thread of the test's process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, _state
from celery.worker import WorkController, state

from ekiden.shared.stores.redis import connection_options

DEADLINE_S = 60.0


def eventually(condition: Callable[[], Any], what: str, within_s: float = DEADLINE_S) -> Any:
    """Return the first true value of ``condition``; fail when there is none in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.01)
    return value


def kombu_url(url: str) -> str:
    """The address of a server without a password as a stock Celery app has it."""
    place = connection_options(url)
    if "path" in place:
        return f"redis+socket://{place['path']}?virtual_host={place.get('db', 0)}"
    return f"redis://{place.get('host', 'localhost')}:{place.get('port', 6379)}/{place.get('db', 0)}"


class Worker:
    """A started worker. One at a time: Celery keeps its state in a module."""

    def __init__(self, app: Celery, queue: str, pool: Any, concurrency: int) -> None:
        app.finalize()
        self._default_app = _state.default_app
        app.set_default()  # what Celery's tracer asks for in the pool's threads
        options = {"without_mingle": True, "without_gossip": True, "without_heartbeat": True}
        self.controller = WorkController(app=app, pool=pool, concurrency=concurrency, queues=[queue], **options)
        self.pool = self.controller.pool
        self._app = app
        self._thread = threading.Thread(target=self._serve, name="celery-worker", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._app.set_current()  # of this thread
        self.controller.start()

    def stop(self, is_cold: bool = False) -> None:
        """Shut down, warm or cold, and wait for it."""
        try:
            if is_cold:
                state.should_terminate = 0
            else:
                state.should_stop = 0
            self._thread.join(DEADLINE_S + 10)
            assert not self._thread.is_alive(), "the worker does not stop"
        finally:
            _state.set_default_app(self._default_app)
            state.should_terminate = state.should_stop = None
            state.reset_state()


@contextmanager
def working(app: Celery, queue: str, pool: Any, concurrency: int = 10) -> Iterator[Worker]:
    """Run a worker inside the block."""
    worker = Worker(app, queue, pool, concurrency)
    try:
        yield worker
    finally:
        worker.stop()
