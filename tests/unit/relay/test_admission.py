"""A process takes no more messages than it can begin soon."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ekiden.shared.relay.admission import BEGINNING, BUSY_S, LAG_SHARE, LOOK_S, Admission

LEASE_S = 5.0
LIMIT_S = LEASE_S / LAG_SHARE


class World:
    """A loop that turns when it is told to, a consumer that can be woken, and how many legs were taken and begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.waiting: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], object]]] = []
        self.in_flight = 1
        self.leases = SimpleNamespace(lease_s=LEASE_S, begun=1)
        leases: Any = self.leases
        self.admission = Admission(cast(asyncio.AbstractEventLoop, self), leases, lambda: self.in_flight)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def call_soon_threadsafe(self, function: Callable[[], None]) -> None:
        """See ``asyncio.AbstractEventLoop``."""
        self.waiting.append(function)

    def call_later(self, delay_s: float, function: Callable[[], object]) -> None:
        """See ``asyncio.AbstractEventLoop``."""
        self.later.append((delay_s, function))

    def turn(self) -> None:
        """Let the loop run what waits for it."""
        while self.waiting:
            self.waiting.pop()()

    def admits(self, *, after_s: float = 0.0) -> bool:
        """Let time pass, then ask as the consumer does."""
        self.now += after_s
        return self.admission.admits()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_loop_that_keeps_up_lets_messages_in(world: World) -> None:
    for _ in range(20):
        assert world.admits(after_s=LOOK_S)
        world.now += 0.9 * LIMIT_S
        world.turn()
        assert world.admission.lag_s == pytest.approx(0.9 * LIMIT_S)
    assert not world.admission.is_busy


def test_a_loop_that_does_not_answer_lets_none_in_until_it_does(world: World) -> None:
    assert world.admits()
    assert world.admits(after_s=0.9 * LIMIT_S)
    assert not world.admits(after_s=0.2 * LIMIT_S)
    assert not world.admits(after_s=60)
    assert world.admission.lag_s > 60
    assert len(world.waiting) == 1, "it is asked once, however long it takes"
    world.turn()
    assert not world.admits(), "it is asked again first"
    world.turn()
    assert world.admits()
    assert world.admission.lag_s == 0


def test_the_loop_is_not_asked_more_often_than_needed(world: World) -> None:
    asked = 0
    for _ in range(100):
        assert world.admits(after_s=LOOK_S / 50)
        asked += len(world.waiting)
        world.turn()
    assert asked <= 3
    assert world.later == [], "a consumer that is let in needs nobody to wake it"


@pytest.mark.parametrize("lags", [True, False])
def test_after_a_refusal_the_consumer_is_woken_to_ask_again(world: World, lags: bool) -> None:
    woken: list[bool] = []
    world.admission.wake = lambda: woken.append(world.admits())
    if lags:
        world.admits()
        assert not world.admits(after_s=LIMIT_S)
    else:
        world.in_flight = BEGINNING + 1
        assert not world.admits()
    for _ in range(3):  # however often it is refused
        world.turn()
        [(delay_s, wake)] = world.later
        world.later.clear()
        assert delay_s == LOOK_S
        wake()
        world.now += LIMIT_S if lags else LOOK_S
    assert woken == [False] * 3


def test_legs_that_have_not_begun_keep_further_ones_out_and_those_that_run_do_not(world: World) -> None:
    world.in_flight = BEGINNING
    assert world.admits()
    world.in_flight += 1
    assert not world.admits()
    world.leases.begun += 1
    assert world.admits()
    world.in_flight, world.leases.begun = 5000, 5000 - BEGINNING
    assert not world.admits()
    world.leases.begun += 1
    assert world.admits()


def test_an_idle_process_takes_a_message_however_slow_it_is(world: World) -> None:
    world.admits()
    assert not world.admits(after_s=LIMIT_S)
    world.in_flight = world.leases.begun = 0
    assert world.admits()


def test_who_refused_lately_is_busy(world: World) -> None:
    world.in_flight = BEGINNING + 1
    assert not world.admits()
    world.in_flight = 1
    assert world.admits()
    assert world.admission.is_busy
    world.now += BUSY_S
    assert not world.admission.is_busy
