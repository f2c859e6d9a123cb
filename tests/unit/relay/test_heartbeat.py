"""The beat says once what is wrong with the server, and once that it is over."""

import asyncio
import itertools
import threading
import time
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import EkidenError, StoreNotReady, StoreUnavailable
from ekiden.shared.relay import heartbeat
from ekiden.shared.relay.heartbeat import AGAIN_S, CALM_S, Heartbeat, PeriodicCall
from ekiden.shared.relay.leases import Leases
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores
from tests.integration.scratch import free_port

DEADLINE_S = 60.0


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> tuple[heartbeat._Outage, list[float]]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return heartbeat._Outage(), now


def test_trouble_is_told_once_for_each_kind_and_its_end_once(outage: tuple[heartbeat._Outage, list[float]]) -> None:
    trouble, now = outage
    errors: list[EkidenError] = [StoreUnavailable("refused"), StoreUnavailable("no route"), StoreNotReady("loading")]
    with capture_logs() as logs:
        for _ in range(50):
            for error in errors:
                trouble.goes_on(error)
            trouble.may_be_over()  # reads succeed, writes do not
            now[0] += 1
        now[0] += CALM_S
        trouble.may_be_over()
        trouble.may_be_over()
    assert [(one["event"], one.get("error")) for one in logs] == [
        ("server_trouble", "refused"),
        ("server_trouble", "loading"),
        ("server_back", None),
    ]
    assert logs[-1]["trouble_s"] == 49


def test_trouble_that_comes_back_is_told_again(outage: tuple[heartbeat._Outage, list[float]]) -> None:
    trouble, now = outage
    with capture_logs() as logs:
        for _ in range(2):
            trouble.goes_on(StoreUnavailable("refused"))
            now[0] += CALM_S + 1
            trouble.may_be_over()
    assert [one["event"] for one in logs] == ["server_trouble", "server_back"] * 2


def test_a_chore_that_fails_is_not_repeated_without_a_pause() -> None:
    tries: list[float] = []

    async def fail(_: Stores) -> None:
        tries.append(time.monotonic())
        raise StoreUnavailable("gone")

    pulse = Heartbeat(f"redis://127.0.0.1:{free_port()}/0", Settings(), Leases(5.0), describe=None)
    pulse.also(PeriodicCall(0.0, fail))
    with capture_logs():
        pulse.start()
        ends = time.monotonic() + DEADLINE_S
        while len(tries) < 3 and time.monotonic() < ends:
            time.sleep(0.01)
        pulse.stop()
    assert len(tries) >= 3
    assert min(later - earlier for earlier, later in itertools.pairwise(tries)) >= AGAIN_S * 0.9


def test_a_call_that_swallows_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As redis-py does while it drops a connection."""
    begun, ended = threading.Event(), threading.Event()
    had_ended: list[bool] = []

    async def close(_: Stores) -> None:
        had_ended.append(ended.is_set())

    async def swallow(_: Stores) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(Stores, "close", close)
    pulse = Heartbeat(f"redis://127.0.0.1:{free_port()}/0", Settings(), Leases(5.0), describe=None)
    pulse.also(PeriodicCall(0.0, swallow))
    with capture_logs():
        pulse.start()
        assert begun.wait(DEADLINE_S)
        pulse.stop()
    assert had_ended == [True]
