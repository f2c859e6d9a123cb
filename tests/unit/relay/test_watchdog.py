"""A worker that looks healthy and does nothing is noticed: it connects again, then it ends."""

import asyncio
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery.bootsteps import CLOSE, RUN

from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.watchdog import EXIT_CODE, Watchdog
from tests.unit.relay.test_leases import forever, hold

QUEUES = ["ekiden.agent.a", "ekiden.agent.b"]


class Ended(Exception):
    """Stands for the end of the process."""


class World:
    """A worker and a server as the watchdog sees them; ``now`` is its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.oldest: dict[str, str] = {}
        self.reconnects = 0
        self.given_back = False
        self.pool = SimpleNamespace(received=0, has_room=True, cancel=self._cancel)
        consumer = SimpleNamespace(call_soon=self._call_soon)
        self.worker = SimpleNamespace(blueprint=SimpleNamespace(state=RUN), pool=self.pool, consumer=consumer)
        self.leases = SimpleNamespace(are_wedged=False, lease_s=5.0)
        leases: Any = self.leases
        self.admission = SimpleNamespace(is_busy=False)
        admission: Any = self.admission
        self.watchdog = Watchdog(self.worker, leases, admission, lambda: QUEUES)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "_exit", self._exit)

    def look(self, *, after_s: float = 0.0) -> None:
        """Let time pass, then look."""
        self.now += after_s
        stores: Any = SimpleNamespace(pools=SimpleNamespace(oldest=self._oldest))
        asyncio.run(self.watchdog.look(stores))

    async def _oldest(self, queues: list[str]) -> dict[str, str]:
        assert queues == QUEUES
        return dict(self.oldest)

    def _call_soon(self, function: Callable[[], None]) -> None:
        with pytest.raises(ConnectionError):
            function()
        self.reconnects += 1

    def _cancel(self) -> None:
        self.given_back = True

    def _exit(self, code: int) -> None:
        raise Ended(code)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_message_that_waits_too_long_makes_the_consumer_connect_again(world: World) -> None:
    world.oldest = {QUEUES[0]: "m1"}
    world.look()
    world.look(after_s=9)
    assert world.reconnects == 0
    world.look(after_s=2)
    assert world.reconnects == 1


def test_a_consumer_that_stays_deaf_ends_the_process_after_its_legs_were_given_back(world: World) -> None:
    world.oldest = {QUEUES[0]: "m1"}
    world.look()
    world.look(after_s=11)
    world.look(after_s=1)
    with pytest.raises(Ended) as ended:
        world.look(after_s=11)
    assert ended.value.args == (EXIT_CODE,)
    assert (world.reconnects, world.given_back) == (1, True)


@pytest.mark.parametrize(
    "sign_of_life",
    [
        lambda world: world.oldest.update({QUEUES[0]: "m2"}),  # somebody else takes messages
        lambda world: world.oldest.clear(),
        lambda world: setattr(world.pool, "received", 1),
        lambda world: setattr(world.pool, "has_room", False),
        lambda world: setattr(world.admission, "is_busy", True),
        lambda world: setattr(world.worker.blueprint, "state", CLOSE),
    ],
)
def test_a_worker_that_is_busy_or_hears_or_stops_is_left_alone(
    world: World, sign_of_life: Callable[[World], None]
) -> None:
    world.oldest = {QUEUES[0]: "m1"}
    world.look()
    world.look(after_s=9)
    sign_of_life(world)
    world.look(after_s=2)
    world.look(after_s=2)
    assert world.reconnects == 0


def test_after_a_message_the_next_trouble_begins_anew(world: World) -> None:
    world.oldest = {QUEUES[0]: "m1"}
    world.look()
    world.look(after_s=11)
    world.pool.received = 1
    world.look(after_s=1)
    world.look(after_s=11)
    assert world.reconnects == 2


def test_a_loop_that_stands_still_for_long_ends_the_process(world: World) -> None:
    world.leases.are_wedged = True
    world.look()
    world.look(after_s=14)
    world.leases.are_wedged = False
    world.look(after_s=1)
    world.leases.are_wedged = True
    world.look(after_s=1)
    world.look(after_s=14)
    with pytest.raises(Ended):
        world.look(after_s=2)


def test_legs_are_wedged_while_their_loop_does_not_tick() -> None:
    async def scenario() -> None:
        leases = Leases(0.05)
        assert not leases.are_wedged
        task, _ = await hold(leases, forever)
        assert not leases.are_wedged
        leases._ticked[asyncio.get_running_loop()] -= 1
        states = [leases.are_wedged]
        await asyncio.sleep(0)
        states.append(leases.are_wedged)
        assert states == [True, False]
        task.cancel()
        await task

    asyncio.run(scenario())
