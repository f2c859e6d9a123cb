"""Admission in a real Celery worker: what is not let in stays on the server, for others."""

import asyncio
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, bootsteps
from redis import Redis

from ekiden.shared.relay.admission import BEGINNING, Admission
from ekiden.shared.relay.celery_app import _configuration
from ekiden.shared.relay.consumer import AdmittingStep
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.pool import AsyncPool
from ekiden.shared.settings.model import Settings
from tests.integration.celery_worker import eventually, kombu_url, working

QUEUE = "ekiden.test"
LEASE_S = 2.0


class RelayStep(bootsteps.StartStopStep):
    """As much of the relay as the consumer asks."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        pool = worker.pool
        admission = Admission(pool.loop, Leases(LEASE_S), lambda: pool.in_flight)
        worker.app.relay = SimpleNamespace(admission=admission)


@pytest.fixture
def server(valkey_url: str) -> Iterator[Redis]:
    with Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def app(valkey_url: str, server: Redis) -> Iterator[Celery]:
    """An app with the settings and the steps of our pools."""
    one = Celery("pool", broker=kombu_url(valkey_url), set_as_current=False)
    one.conf.update(_configuration("worker", Settings()))
    one.steps["worker"].add(RelayStep)
    one.steps["consumer"].add(AdmittingStep)
    yield one
    one.close()


class Tasks:
    """``stand`` holds the loop up, ``wait`` only itself, both until they may go on; ``step`` does neither."""

    def __init__(self, app: Celery) -> None:
        self.standing, self.go_on = threading.Event(), threading.Event()
        self.done = self.waiting = 0

        async def stand() -> None:
            self.standing.set()
            self.go_on.wait(60)

        async def wait() -> None:
            self.waiting += 1
            while not self.go_on.is_set():  # noqa: ASYNC110  # it is set in another thread
                await asyncio.sleep(0.01)
            self.done += 1

        async def step() -> None:
            self.done += 1

        self.stand, self.wait, self.step = (app.task(name=f.__name__, shared=False)(f) for f in (stand, wait, step))


def send(task: Any, times: int = 1) -> None:
    """Send messages."""
    for _ in range(times):
        task.apply_async(queue=QUEUE)


def test_while_the_loop_stands_still_messages_stay_on_the_server_and_then_they_are_taken(
    app: Celery, server: Redis
) -> None:
    tasks = Tasks(app)
    send(tasks.stand)
    with working(app, QUEUE, AsyncPool, concurrency=100):
        assert tasks.standing.wait(60)
        eventually(lambda: app.relay.admission.is_busy, "it is noticed, without any message")
        send(tasks.step, 20)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert server.llen(QUEUE) >= 19  # one may have been asked for before
            time.sleep(0.02)
        tasks.go_on.set()
        eventually(lambda: tasks.done == 20, "all have run")


def test_no_more_is_taken_than_may_be_on_its_way_to_begin(app: Celery, server: Redis) -> None:
    tasks = Tasks(app)
    send(tasks.wait, BEGINNING + 10)  # none of them ever says that it has begun
    with working(app, QUEUE, AsyncPool, concurrency=1000) as worker:
        eventually(lambda: tasks.waiting == BEGINNING, "as many are taken")
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert (worker.pool.in_flight, server.llen(QUEUE)) == (BEGINNING, 10)
            time.sleep(0.02)
        tasks.go_on.set()
        eventually(lambda: tasks.done == BEGINNING + 10, "all have run")
        eventually(lambda: worker.pool.in_flight == 0, "none is left")


def test_a_message_that_was_asked_for_before_is_taken_all_the_same(
    app: Celery, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(app)
    with working(app, QUEUE, AsyncPool) as worker:
        eventually(lambda: server.info("clients")["blocked_clients"], "it waits for a message")
        channel = worker.controller.consumer.task_consumer.channel
        asked_at = channel._brpop_sent_at
        eventually(lambda: channel._brpop_sent_at > asked_at, "it asks again, and has a second from now")
        monkeypatch.setattr(app.relay.admission, "admits", lambda: False)
        send(tasks.step, 2)
        eventually(lambda: tasks.done == 1, "nobody else can have that one any more")
        assert server.llen(QUEUE) == 1
        monkeypatch.undo()
        eventually(lambda: tasks.done == 2, "the other one is taken when it may be")
