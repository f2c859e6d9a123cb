"""The beat's thread keeps leases on a real server, and lets them go when it must."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ekiden.shared.outcomes import Answer, Outcome
from ekiden.shared.records import Noticed
from ekiden.shared.relay.heartbeat import Heartbeat, PeriodicCall
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.relay.runner import Runner
from ekiden.shared.settings import Settings
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.views import PoolView
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, submitted
from tests.integration.scratch import scratch_server
from tests.unit.relay.legs import Move, Playing, take, types_of

LEASE_S = 1.2
LONGER_S = 4.0
"""Of a lease that is to be kept: a busy machine lets nothing run for a second."""
DEADLINE_S = 10.0
ME = PoolView(id="host.1.abc", kind="worker", queues=(DISPATCH_QUEUE,))


@contextmanager
def beating(
    url: str, leases: Leases, chores: tuple[PeriodicCall, ...] = (), lease_s: float = LEASE_S
) -> Iterator[None]:
    """Beat inside the block."""
    beat = Heartbeat(url, Settings(lease_s=lease_s, sweep_s=0.1, queued_grace_s=60), leases, lambda: ME)
    for chore in chores:
        beat.also(chore)
    beat.start()
    try:
        yield
    finally:
        beat.stop()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for ``condition``."""
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110  # the condition lies on the server
            await asyncio.sleep(0.01)


def serving(stores: Stores, leases: Leases, *moves: Move) -> Runner:
    """A runner whose handler makes these moves."""
    return Runner(stores.jobs, leases, Playing(*moves), cycles="parent")


def test_a_leg_keeps_its_lease_for_as_long_as_it_runs(valkey: Backend, valkey_url: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)

        async def long(leg: Leg) -> Outcome:
            ends = time.monotonic() + 1.5 * LONGER_S
            while time.monotonic() < ends:
                assert await stores.jobs.claim(await claim_of(stores, job, "other"), LONGER_S) == "busy"
                await asyncio.sleep(0.05)
            return Answer("42")

        leases = Leases(LONGER_S)
        with beating(valkey_url, leases, lease_s=LONGER_S):
            runner = serving(stores, leases, long)
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert (await stores.jobs.job(job)).result == "42"

    valkey.run(scenario)


def test_a_wedged_leg_loses_its_lease_and_its_writes_are_refused(valkey: Backend, valkey_url: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)

        async def wedge(leg: Leg) -> Outcome:
            time.sleep(4 * LEASE_S)  # noqa: ASYNC251  # the fault that is tested: no await, nothing else runs
            await leg.record(Noticed(leg=0, text="not written"))
            raise AssertionError

        leases = Leases(LEASE_S)
        with beating(valkey_url, leases):  # which sweeps, too
            runner = serving(stores, leases, wedge, Answer("42"))
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "lost"
            assert (await stores.jobs.job(job)).status == "queued"
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert await types_of(stores, job) == ["request", "leg_started", "leg_started", "ended"]

    valkey.run(scenario)


def test_a_leg_is_stopped_before_its_lease_ends_when_the_server_hangs(tmp_path: Path) -> None:
    async def scenario(url: str, freeze: Callable[[], None]) -> None:
        stores, leases = open_stores(url), Leases(LEASE_S)
        await submitted(stores)
        valid_until: list[float] = []

        async def long(leg: Leg) -> Outcome:
            freeze()
            [held] = leases._held.values()
            try:
                await asyncio.sleep(DEADLINE_S)
            finally:
                valid_until.append(held.valid_until)
            raise AssertionError

        with beating(url, leases):
            runner = serving(stores, leases, long)
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "lost"
            assert time.monotonic() < valid_until[0]
            thaw()
        await stores.close()

    with scratch_server(tmp_path) as server:

        def thaw() -> None:
            server.process.send_signal(signal.SIGCONT)

        asyncio.run(scenario(server.url, lambda: server.process.send_signal(signal.SIGSTOP)))


def test_a_chore_that_hangs_delays_no_lease(valkey: Backend, valkey_url: str) -> None:
    async def hang(_: Stores) -> None:
        await asyncio.sleep(DEADLINE_S)

    async def fail(_: Stores) -> None:
        raise ValueError("not the beat's end")

    async def scenario(stores: Stores) -> None:
        await submitted(stores)

        async def long(leg: Leg) -> Outcome:
            await asyncio.sleep(3 * LEASE_S)
            return Answer("42")

        leases = Leases(LEASE_S)
        with beating(valkey_url, leases, (PeriodicCall(0.1, hang), PeriodicCall(0.1, fail))):
            runner = serving(stores, leases, long)
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"

    with capture_logs() as logs:  # printing a traceback for people, as often as this, takes longer than a lease
        valkey.run(scenario)
    assert "beat_failed" in {log["event"] for log in logs}


def test_the_beat_announces_its_pool_and_takes_it_back(valkey: Backend, valkey_url: str) -> None:
    async def scenario(stores: Stores) -> None:
        async def is_announced() -> bool:
            return await stores.pools.pools() == [ME]

        with beating(valkey_url, Leases(LEASE_S)):
            await until(is_announced)
        assert await stores.pools.pools() == []

    valkey.run(scenario)


@pytest.mark.parametrize("is_started", [True, False])
def test_the_beat_stops_also_before_it_began(valkey_url: str, is_started: bool) -> None:
    beat = Heartbeat(valkey_url, Settings(), Leases(LEASE_S), lambda: ME)
    if is_started:
        beat.start()
    beat.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
