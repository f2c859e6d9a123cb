"""Leases are kept while the loop ticks, and legs are stopped in time when they cannot be."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, cast

import pytest

from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.processes.grace_periods import TAKEOVER_S
from ekiden.shared.relay.leases import HeldLease, Leases
from ekiden.shared.stores.base import JobStore, Lease

LEASE = Lease("a" * 16 + ".1", 1, "7", "ekiden.agent.x")


class Server:
    """A store double: renews, or answers what it is told to, or does not answer."""

    def __init__(self) -> None:
        self.asked: list[list[Lease]] = []
        self.stops: dict[str, Literal["lost", "cancelled"]] = {}
        self.is_gone = False

    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """See ``JobStore``."""
        self.asked.append(list(leases))
        self.granted_s = lease_s
        if self.is_gone:
            raise StoreUnavailable("connection refused")
        return self.stops


def store(server: Server) -> JobStore:
    """The double as what it stands for."""
    return cast(JobStore, server)


async def hold(leases: Leases, body: Callable[[], Awaitable[object]]) -> tuple[asyncio.Task[object], HeldLease]:
    """Start a task that holds a lease while it runs ``body``; it swallows its cancellation, as a leg does."""
    holding: asyncio.Future[HeldLease] = asyncio.get_running_loop().create_future()

    async def leg() -> object:
        with leases.holding(LEASE, time.monotonic()) as held:
            holding.set_result(held)
            try:
                return await body()
            except asyncio.CancelledError:
                return held.stop

    task = asyncio.create_task(leg())
    return task, await holding


async def forever() -> None:
    """A leg that has no end of its own."""
    await asyncio.sleep(60)


def test_a_lease_in_use_is_renewed_and_one_that_was_left_is_not() -> None:
    async def scenario() -> None:
        leases, server, go = Leases(30), Server(), asyncio.Event()
        task, held = await hold(leases, go.wait)
        before = held.valid_until
        await leases.renew(store(server))
        assert server.asked == [[LEASE]]
        assert held.valid_until > before
        assert len(leases) == 1
        go.set()
        await task
        await leases.renew(store(server))
        assert server.asked[1] == []
        assert len(leases) == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("cause", ["lost", "cancelled"])
def test_a_lost_lease_and_a_cancelled_job_stop_the_leg_and_say_why(cause: Literal["lost", "cancelled"]) -> None:
    async def scenario() -> None:
        leases, server = Leases(30), Server()
        task, _ = await hold(leases, forever)
        server.stops = {LEASE.job: cause}
        await leases.renew(store(server))
        assert await asyncio.wait_for(task, 60) == cause

    asyncio.run(scenario())


def test_a_leg_is_stopped_by_our_own_clock_before_its_lease_ends() -> None:
    async def scenario() -> None:
        leases, server = Leases(0.5), Server()
        server.is_gone = True
        task, held = await hold(leases, forever)
        async with asyncio.timeout(60):
            while not task.done():
                with pytest.raises(StoreUnavailable):
                    await leases.renew(store(server))
                leases.stop_expired()
                await asyncio.sleep(0.01)
        assert time.monotonic() < held.valid_until
        assert (task.result(), held.stop) == ("lost", "lost")

    asyncio.run(scenario())


def test_processes_of_a_leg_are_told_of_every_renewal_and_of_no_other() -> None:
    async def scenario() -> None:
        leases, server, told = Leases(30), Server(), list[float]()
        task, held = await hold(leases, forever)
        held.prolonged.add(lambda: told.append(held.valid_until))
        await leases.renew(store(server))
        assert told == [held.valid_until]
        server.stops = {LEASE.job: "lost"}
        await leases.renew(store(server))
        server.is_gone = True
        with pytest.raises(StoreUnavailable):
            await leases.renew(store(server))
        assert len(told) == 1
        await task

    asyncio.run(scenario())


def test_nobody_takes_a_leg_over_until_a_second_after_our_own_clock_has_ended_it() -> None:
    async def scenario() -> None:
        leases, server = Leases(5), Server()
        task, held = await hold(leases, forever)
        await leases.renew(store(server))
        assert held.valid_until - time.monotonic() <= 5
        assert server.granted_s == 5 + TAKEOVER_S, "from when the server was asked, which is later"
        task.cancel()
        await task

    asyncio.run(scenario())


def test_a_leg_whose_lease_was_renewed_in_time_goes_on() -> None:
    async def scenario() -> None:
        leases, server = Leases(0.5), Server()
        task, held = await hold(leases, forever)
        held.valid_until = time.monotonic() + 0.01
        await leases.renew(store(server))
        await asyncio.sleep(0.02)
        leases.stop_expired()
        assert held.stop is None
        task.cancel()
        await task

    asyncio.run(scenario())


def test_a_leg_is_stopped_once_however_many_reasons_there_are() -> None:
    async def scenario() -> None:
        leases, server = Leases(30), Server()
        finished = asyncio.Event()

        async def commits_its_end() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)  # a second cancellation would strike here
                finished.set()
                raise

        task, held = await hold(leases, commits_its_end)
        server.stops = {LEASE.job: "cancelled"}
        await leases.renew(store(server))
        held.valid_until = 0.0
        leases.stop_expired()
        await leases.renew(store(server))
        assert await asyncio.wait_for(task, 60) == "cancelled"
        assert finished.is_set()

    asyncio.run(scenario())


def test_a_wedged_loop_loses_its_leases_and_a_leg_that_comes_after_long_idling_does_not() -> None:
    async def scenario() -> None:
        leases, server = Leases(0.3), Server()
        task, _ = await hold(leases, forever)
        await _beat_of_another_thread(leases, server, lambda: time.sleep(0.4))
        assert server.asked[-1] == []  # it has not ticked for longer than a lease
        await asyncio.sleep(0)
        await leases.renew(store(server))
        assert server.asked[-1] == [LEASE]
        task.cancel()
        await task
        time.sleep(0.4)  # noqa: ASYNC251  # nothing ran for longer than a lease: no reason to doubt the next leg
        task, _ = await hold(leases, forever)
        await leases.renew(store(server))
        assert server.asked[-1] == [LEASE]
        task.cancel()
        await task

    asyncio.run(scenario())


async def _beat_of_another_thread(leases: Leases, server: Server, wedge: Callable[[], Any]) -> None:
    """Block this loop with ``wedge``, then renew as the beat's thread does, before the loop can tick."""
    wedge()
    import threading

    thread = threading.Thread(target=lambda: asyncio.run(leases.renew(store(server))))
    thread.start()
    thread.join()
