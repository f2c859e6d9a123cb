"""The sweeper finds what nobody runs though somebody should."""

import asyncio
import re

import pytest

from ekiden.shared.handoff import Frame
from ekiden.shared.records import Ended, LegSuspended, Retried
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox, queue_for
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend, real_backend
from tests.contract.relay_world import claimed, moved, reply, step_to, submitted
from tests.unit.relay.legs import expire

GRACE_S = 2.0


@pytest.fixture
def backend() -> Backend:
    return real_backend()


async def age(stores: Stores, job: str, queue: str, by_ms: int = 10_000) -> None:
    """Let the job's message have been pushed ``by_ms`` earlier."""
    await stores.client.zincrby(keys.queued(queue), -by_ms, job)


def pushed_earlier(message: str, by_ms: int) -> str:
    """The message as it would be, had it been pushed ``by_ms`` earlier."""
    return re.sub(r'(?<="ekiden_ms":)\d+', lambda found: str(int(found[0]) - by_ms), message)


async def swept(stores: Stores, max_attempts: int = 5) -> int:
    """Sweep once."""
    return await sweep(stores.jobs, grace_s=GRACE_S, max_attempts=max_attempts)


def test_a_lost_message_is_pushed_again_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.delete(DISPATCH_QUEUE)
        assert await swept(stores) == 0  # it may be under way
        await age(stores, job, DISPATCH_QUEUE)
        assert await swept(stores) == 1
        assert await swept(stores) == 0
        assert await stores.client.llen(DISPATCH_QUEUE) == 1

    backend.run(scenario)


def test_many_lost_messages_of_one_queue_are_found_in_one_sweep(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        jobs = [await submitted(stores, request_id=str(n)) for n in range(30)]
        for job in jobs:
            await age(stores, job, DISPATCH_QUEUE)
        await stores.client.delete(DISPATCH_QUEUE)  # as `celery purge` does
        assert await swept(stores) == 30

    backend.run(scenario)


def test_messages_that_wait_are_left_alone_however_old(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for n in range(5):
            await age(stores, await submitted(stores, request_id=str(n)), DISPATCH_QUEUE)
        messages = await stores.client.lrange(DISPATCH_QUEUE, 0, -1)
        await stores.client.delete(DISPATCH_QUEUE)
        await stores.client.rpush(DISPATCH_QUEUE, *(pushed_earlier(str(message), 10_000) for message in messages))
        assert await swept(stores) == 0

    backend.run(scenario)


def test_an_expired_lease_is_found(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        assert await swept(stores) == 0
        await expire(stores, job)
        assert await swept(stores) == 1
        assert (await stores.jobs.job(job)).status == "queued"

    backend.run(scenario)


def test_more_expired_leases_than_one_look_returns_are_found_in_one_sweep(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for n in range(120):
            job = await submitted(stores, request_id=str(n))
            await claimed(stores, job)
            await expire(stores, job)
        assert await swept(stores) == 120

    backend.run(scenario)


def test_a_timer_that_rang_is_found(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        await stores.jobs.suspend(leg.lease, "c", [LegSuspended(cause="retry", delay_s=0)], 0)
        assert await swept(stores) == 1

    backend.run(scenario)


def test_control_comes_back_from_an_agent_that_dies_again_and_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        lead = await moved(stores, job, "lead")
        frame = Frame(agent="lead", leg=1, call_id="c1", from_agent="user", chain_length=2)
        context = lead.context.advance("helper", "please", call=frame)
        step = step_to(lead, "helper", context=context)
        assert await stores.jobs.transfer(lead.lease, "t", **step) == ("ok", "")
        await claimed(stores, job)
        for attempt in range(2):
            await expire(stores, job)
            assert await swept(stores, max_attempts=3) == 1
            await claimed(stores, job, f"w{attempt}#1")
        await expire(stores, job)
        await swept(stores, max_attempts=3)
        leg = await claimed(stores, job)
        assert (leg.context.to_agent, leg.lease.leg) == ("lead", 3)
        assert leg.context.returned is not None
        assert leg.context.returned.is_error
        assert "took its worker along 3 times" in leg.context.returned.text

    backend.run(scenario)


def test_a_leg_that_dies_again_and_again_is_buried(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await moved(stores, job, "debugger")
        for attempt in range(2):
            await expire(stores, job)
            assert await swept(stores, max_attempts=3) == 1
            await claimed(stores, job, f"w{attempt}#1")
        await expire(stores, job)
        assert await swept(stores, max_attempts=3) == 0
        view = await stores.jobs.job(job)
        assert (view.status, view.reason) == ("dead", "ERROR")
        told = "agent 'debugger' took its worker along 3 times without any progress: see the workers' logs"
        assert view.result == f"{told}, then `ekiden job retry {job}`"
        end = (await stores.jobs.journal(job))[-1].record
        assert isinstance(end, Ended)
        assert (end.leg, end.status) == (1, "dead")
        for index in (keys.LEASES, keys.TIMERS, keys.queued(queue_for("debugger"))):
            assert await stores.client.zcard(index) == 0

    backend.run(scenario)


def test_a_retried_job_that_dies_again_on_the_same_leg_is_buried_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "debugger")
        for death in range(2):
            await expire(stores, job)
            assert await swept(stores, max_attempts=1) == 0
            assert (await stores.jobs.job(job)).status == "dead"
            assert (await stores.jobs.overdue(GRACE_S), await swept(stores, max_attempts=1)) == ([], 0)
            if death == 0:
                box = outbox(job, 1, queue_for("debugger"), leg.context)
                await stores.jobs.retry(job, box, Retried(leg=1), 60.0)
                await claimed(stores, job, "w2#1")
        session = await stores.sessions.session(job.partition(".")[0])
        assert session.active is None, "the next job of the session may run"

    backend.run(scenario)


def test_progress_sets_the_count_of_attempts_back(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for attempt in range(6):
            leg = await claimed(stores, job, f"w{attempt}#1")
            await stores.jobs.append(leg.lease, f"t{attempt}", [reply(leg=0)], used_ms=0, is_progress=True)
            await expire(stores, job)
            assert await swept(stores, max_attempts=2) == 1

    backend.run(scenario)


def test_two_sweepers_at_once_push_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        jobs = [await submitted(stores, request_id=str(n)) for n in range(10)]
        for job in jobs:
            await claimed(stores, job)
            await expire(stores, job)
        await stores.client.delete(DISPATCH_QUEUE)
        assert sum(await asyncio.gather(*(swept(stores) for _ in range(4)))) == 10
        assert await stores.client.llen(DISPATCH_QUEUE) == 10

    backend.run(scenario)


def test_a_job_whose_record_is_gone_leaves_every_index_and_hides_no_other(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        gone, lost = await submitted(stores, request_id="1"), await submitted(stores, request_id="2")
        await age(stores, gone, DISPATCH_QUEUE, by_ms=20_000)
        await age(stores, lost, DISPATCH_QUEUE)
        await stores.client.delete(DISPATCH_QUEUE, keys.job(gone), keys.journal(gone))
        for index in (keys.LEASES, keys.TIMERS):
            await stores.client.zadd(index, {gone: 1})
        assert await swept(stores) + await swept(stores) == 1  # the lost one
        for index in (keys.LEASES, keys.TIMERS, keys.queued(DISPATCH_QUEUE)):
            assert gone not in await stores.client.zrange(index, 0, -1)

    backend.run(scenario)
