"""The beat's thread keeps leases on a real server, and lets them go when it must."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from ekiden.shared.outcomes import Answer, Outcome
from ekiden.shared.records import Noticed
from ekiden.shared.relay.heartbeat import Heartbeat, PeriodicCall
from ekiden.shared.relay.leases import HeldLease, Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.relay.runner import Runner
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.views import PoolView
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, submitted
from tests.integration.scratch import scratch_server
from tests.unit.relay.legs import Move, Playing, take, types_of

LEASE_S = 1.2
"""What the beat goes by, which renews three times within it."""
KEPT_S = 60.0
"""Of a lease that is to be kept: a busy machine lets nothing run for seconds."""
DEADLINE_S = 60.0
ME = PoolView(id="host.1.abc", kind="worker", queues=(DISPATCH_QUEUE,))


@contextmanager
def beating(url: str, leases: Leases, chores: tuple[PeriodicCall, ...] = ()) -> Iterator[None]:
    """Beat inside the block."""
    beat = Heartbeat(url, Settings(lease_s=LEASE_S, sweep_s=0.1, queued_grace_s=60), leases, lambda: ME)
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
            for _ in range(3):
                granted = await ends_ms()
                await until(partial(is_longer, granted))
                assert await stores.jobs.claim(await claim_of(stores, job, "other"), KEPT_S) == "busy"
            return Answer("42")

        async def ends_ms() -> float:
            return float(await stores.client.zscore(keys.LEASES, job) or 0)

        async def is_longer(before: float) -> bool:
            return await ends_ms() > before

        leases = Leases(KEPT_S)
        with beating(valkey_url, leases):
            runner = serving(stores, leases, long)
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert (await stores.jobs.job(job)).result == "42"

    valkey.run(scenario)


def test_a_wedged_leg_loses_its_lease_and_its_writes_are_refused(valkey: Backend, valkey_url: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)

        async def wedge(leg: Leg) -> Outcome:
            with redis.Redis.from_url(valkey_url, decode_responses=True) as server:
                ends = time.monotonic() + DEADLINE_S
                while server.hget(keys.job(job), "status") != "queued" and time.monotonic() < ends:
                    time.sleep(0.05)  # noqa: ASYNC251  # the fault that is tested: no await, nothing else runs
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
        stores, leases = open_stores(url), Leases(KEPT_S)
        await submitted(stores)
        valid_until: list[float] = []

        async def long(leg: Leg) -> Outcome:
            freeze()
            [held] = leases._held.values()
            ends = time.monotonic() + KEPT_S / 8  # a leg is stopped when a tenth of its lease is left
            try:
                while time.monotonic() < ends:
                    held.valid_until = min(held.valid_until, ends)  # whatever the server still answered
                    await asyncio.sleep(0.01)
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
    hanging = threading.Event()

    async def hang(_: Stores) -> None:
        hanging.set()
        await asyncio.sleep(DEADLINE_S)

    async def fail(_: Stores) -> None:
        raise ValueError("not the beat's end")

    async def scenario(stores: Stores) -> None:
        await submitted(stores)

        async def long(leg: Leg) -> Outcome:
            [held] = leases._held.values()
            for _ in range(3):
                before = held.valid_until
                await until(partial(is_renewed, held, before))
            return Answer("42")

        async def is_renewed(held: HeldLease, before: float) -> bool:
            return hanging.is_set() and held.valid_until > before

        leases = Leases(KEPT_S)
        with beating(valkey_url, leases, (PeriodicCall(0.1, hang), PeriodicCall(0.1, fail))):
            runner = serving(stores, leases, long)
            assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"

    with capture_logs() as logs:
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
