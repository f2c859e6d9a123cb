"""Our pool in a real Celery worker on a real server."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery, signals
from celery.worker import state
from redis import Redis

from ekiden.shared.relay.celery_app import _configuration
from ekiden.shared.relay.pool import AsyncPool
from ekiden.shared.settings.model import Settings
from tests.integration.celery_worker import DEADLINE_S, eventually, kombu_url, working

QUEUE = "ekiden.test"


@pytest.fixture
def server(valkey_url: str) -> Iterator[Redis]:
    with Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def app(valkey_url: str, server: Redis) -> Iterator[Celery]:
    """An app with the settings of our pools."""
    one = Celery("pool", broker=kombu_url(valkey_url), set_as_current=False)
    one.conf.update(_configuration("worker", Settings()))
    yield one
    one.close()


def task_of(app: Celery, function: Callable[..., Any], **options: Any) -> Any:
    """Register a bound task."""
    return app.task(name=function.__name__, bind=True, shared=False, **options)(function)


def send(task: Any, *args: Any, **options: Any) -> str:
    """Send one message; return its id."""
    return str(task.apply_async(args, queue=QUEUE, **options).id)


@contextmanager
def heard(signal: Any) -> Iterator[queue.Queue[dict[str, Any]]]:
    """Collect what a Celery signal says inside the block."""
    said: queue.Queue[dict[str, Any]] = queue.Queue()

    def receive(**about: Any) -> None:
        said.put(about)

    signal.connect(receive, weak=False)
    try:
        yield said
    finally:
        signal.disconnect(receive)


def logged_by_pool(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the pool said of its tasks."""
    return [record.getMessage() for record in caplog.records if record.name == "ekiden.shared.relay.pool"]


class Gate:
    """Tasks that wait at it are counted, until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self.passed = 0

    async def go_through(self) -> None:
        """Wait until the gate is opened."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        while not self.open.is_set():  # noqa: ASYNC110  # it is opened from another thread
            await asyncio.sleep(0.005)
        self.inside -= 1
        self.passed += 1


def test_late_ack_caps_the_tasks_in_flight_and_the_rest_waits_on_the_server(app: Celery, server: Redis) -> None:
    gate = Gate()

    async def wait(self: Any) -> None:
        await gate.go_through()

    task = task_of(app, wait)
    for _ in range(20):
        send(task)
    with working(app, QUEUE, AsyncPool, concurrency=3):
        eventually(lambda: gate.inside == 3, "three run")
        rest = 17
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert (gate.inside, server.llen(QUEUE)) == (3, rest)
            time.sleep(0.02)
        gate.open.set()
        eventually(lambda: gate.passed == 20, "all have run")
    assert gate.most == 3


def test_tasks_at_once_see_their_own_request_in_a_worker(app: Celery) -> None:
    gate, seen = Gate(), queue.Queue[tuple[str, str, str]]()

    async def look(self: Any, name: str) -> None:
        await gate.go_through()
        seen.put((name, self.request.id, self.request.delivery_info["routing_key"]))

    task = task_of(app, look)
    sent = {(name, send(task, name), QUEUE) for name in ("a", "b", "c")}
    with working(app, QUEUE, AsyncPool):
        eventually(lambda: gate.inside == 3, "all three run")
        gate.open.set()
        assert {seen.get(timeout=DEADLINE_S) for _ in range(3)} == sent


def test_a_terminated_task_is_revoked_not_successful_and_frees_its_slot(app: Celery) -> None:
    gate, after = Gate(), threading.Event()

    async def wait(self: Any) -> None:
        await gate.go_through()

    async def follow(self: Any) -> None:
        after.set()

    stuck = send(task_of(app, wait))
    send(task_of(app, follow))
    with heard(signals.task_revoked) as revoked, heard(signals.task_postrun) as ended:
        with working(app, QUEUE, AsyncPool, concurrency=1) as worker:
            eventually(lambda: gate.inside == 1, "the first runs")
            [request] = [one for one in state.active_requests if one.id == stuck]
            worker.controller.hub.call_soon(request.terminate, worker.pool)  # as Celery's command to revoke does
            about = revoked.get(timeout=DEADLINE_S)
            assert (about["request"].id, about["terminated"], about["expired"]) == (stuck, True, False)
            assert after.wait(DEADLINE_S)
        assert ended.get(timeout=DEADLINE_S)["state"] == "FAILURE"
        assert gate.passed == 0


def test_a_revoked_message_never_starts(app: Celery) -> None:
    started, after = threading.Event(), threading.Event()

    async def start(self: Any) -> None:
        started.set()

    async def follow(self: Any) -> None:
        after.set()

    state.revoked.add("unwanted")
    try:
        send(task_of(app, start), task_id="unwanted")
        send(task_of(app, follow))
        with working(app, QUEUE, AsyncPool, concurrency=1):
            assert after.wait(DEADLINE_S)
    finally:
        state.revoked.clear()
    assert not started.is_set()


def test_failed_tasks_are_acknowledged_and_hold_no_slot(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    after = threading.Event()

    async def fail(self: Any, how: str) -> None:
        raise {"plain": ValueError, "exit": SystemExit, "leaked": asyncio.CancelledError}[how](how)

    async def follow(self: Any) -> None:
        after.set()

    task = task_of(app, fail)
    for how in ("plain", "exit", "leaked"):
        send(task, how)
    send(task_of(app, follow))
    with working(app, QUEUE, AsyncPool, concurrency=1):
        assert after.wait(DEADLINE_S)
    assert len(logged_by_pool(caplog)) == 3


@pytest.mark.parametrize(
    ("limits", "error"),
    [({"soft_time_limit": 0.1}, "SoftTimeLimitExceeded"), ({"time_limit": 0.1}, "TimeLimitExceeded")],
)
def test_time_limits_of_a_message_and_of_a_task_hold(
    app: Celery, limits: dict[str, float], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(self: Any) -> None:
        await asyncio.sleep(60)

    async def limited(self: Any) -> None:
        await asyncio.sleep(60)

    send(task_of(app, wait), **limits)
    send(task_of(app, limited, **limits))
    with heard(signals.task_postrun) as ended, working(app, QUEUE, AsyncPool, concurrency=1):
        for name in ("wait", "limited"):
            about = ended.get(timeout=DEADLINE_S)
            assert (about["task"].name, about["state"]) == (name, "FAILURE")
    assert [f"raised: {error}" in text for text in logged_by_pool(caplog)] == [True, True]


def test_hundreds_are_in_flight_at_once(app: Celery) -> None:
    naps = queue.Queue[float]()

    async def nap(self: Any) -> None:
        await asyncio.sleep(1)
        naps.put(time.monotonic())

    task = task_of(app, nap)
    for _ in range(300):
        send(task)
    with working(app, QUEUE, AsyncPool, concurrency=300):
        ends = [naps.get(timeout=DEADLINE_S) for _ in range(300)]
    assert max(ends) - min(ends) < 60  # one after another: 300 s


def test_plain_tasks_run_beside(app: Celery) -> None:
    gate, names = Gate(), queue.Queue[str]()

    async def wait(self: Any) -> None:
        await gate.go_through()

    def plain(self: Any) -> None:
        names.put(threading.current_thread().name)

    send(task_of(app, wait))
    send(task_of(app, plain))
    with working(app, QUEUE, AsyncPool):
        assert names.get(timeout=DEADLINE_S).startswith("sync-task")
        gate.open.set()


def test_a_grown_pool_takes_more_and_a_shrunken_one_less(app: Celery) -> None:
    gate = Gate()

    async def wait(self: Any) -> None:
        await gate.go_through()

    task = task_of(app, wait)
    for _ in range(10):
        send(task)
    with working(app, QUEUE, AsyncPool, concurrency=2) as worker:
        eventually(lambda: gate.inside == 2, "two run")
        worker.pool.grow(3)
        worker.controller.consumer.call_soon(worker.controller.consumer._update_prefetch_count, 3)
        eventually(lambda: gate.inside == 5, "five run")
        gate.open.set()
        eventually(lambda: gate.passed == 10, "all have run")
        worker.pool.shrink(3)
        assert worker.pool.num_processes == 2


def test_a_warm_shutdown_waits_for_a_running_task_and_takes_no_other(app: Celery, server: Redis) -> None:
    gate = Gate()

    async def wait(self: Any) -> None:
        await gate.go_through()

    task = task_of(app, wait)
    with working(app, QUEUE, AsyncPool, concurrency=1) as worker:
        send(task)
        eventually(lambda: gate.inside == 1, "it runs")
        threading.Timer(0.5, gate.open.set).start()
        send(task)
        worker.stop()
        assert gate.passed == 1
    assert server.llen(QUEUE) == 1


def test_a_cold_shutdown_cancels_what_runs(app: Celery) -> None:
    gate = Gate()

    async def wait(self: Any) -> None:
        await gate.go_through()

    task = task_of(app, wait)  # before the worker starts: it makes its table of tasks then
    with heard(signals.task_success) as succeeded, working(app, QUEUE, AsyncPool) as worker:
        send(task)
        eventually(lambda: gate.inside == 1, "it runs")
        worker.stop(is_cold=True)
        assert gate.passed == 0
        assert succeeded.empty()
