"""Dead letters, and names of queues that stand for something else than a list."""

from contextlib import suppress

import pytest

from ekiden.shared.errors import IndexOverwritten, UnknownJob
from ekiden.shared.records import LegSuspended
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, submitted


def test_dead_letters_are_capped_and_live_no_longer_than_their_time(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for number in range(3):
            await stores.dead_letters.bury("q", f"reason {number}", b"\xff raw")
        found = await stores.dead_letters.look()
        assert found.newest is not None
        assert (found.count, found.newest.reason, found.newest.raw) == (3, "reason 2", b"\xff raw")
        assert 0 < await stores.client.ttl(keys.DEAD_LETTERS) <= keys.DEAD_LETTERS_TTL_S
        pipeline = stores.client.pipeline(transaction=False)
        for _ in range(keys.MAX_DEAD_LETTERS):
            pipeline.xadd(keys.DEAD_LETTERS, {"queue": "q", "reason": "older", "raw": ""})
        await pipeline.execute()
        await stores.dead_letters.bury("q", "newest", b"")
        assert (await stores.dead_letters.look()).count == keys.MAX_DEAD_LETTERS

    backend.run(scenario)


def test_what_was_not_shown_is_not_forgotten(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.dead_letters.bury("q", "shown", b"")
        shown = await stores.dead_letters.all()
        await stores.dead_letters.bury("q", "came meanwhile", b"")
        await stores.dead_letters.forget(shown)
        assert [letter.reason for letter in await stores.dead_letters.all()] == ["came meanwhile"]
        await stores.dead_letters.forget([])

    backend.run(scenario)


def test_a_submit_puts_aside_what_is_no_list_and_is_carried_out(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.client.set(DISPATCH_QUEUE, "a text")
        await stores.client.sadd(keys.QUEUES, DISPATCH_QUEUE)
        [queue] = await stores.pools.queues()
        assert queue.is_blocked
        assert await stores.pools.oldest([DISPATCH_QUEUE]) == {}
        job = await submitted(stores)
        assert await stores.client.llen(DISPATCH_QUEUE) == 1
        assert await stores.client.get(f"{keys.MISPLACED}{DISPATCH_QUEUE}") == "a text"
        [letter] = await stores.dead_letters.all()
        assert letter.queue == DISPATCH_QUEUE
        assert letter.reason.startswith("a string stood where the list of messages should be")
        assert (await stores.jobs.job(job)).status == "queued"

    backend.run(scenario)


def test_the_sweeper_puts_aside_what_is_no_list_and_pushes_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.delete(DISPATCH_QUEUE)
        await stores.client.hset(DISPATCH_QUEUE, "a", "hash")
        await stores.client.zadd(keys.queued(DISPATCH_QUEUE), {job: 1})
        assert await stores.jobs.requeue(job, 0, 5) == "ok"
        assert await stores.client.llen(DISPATCH_QUEUE) == 1
        assert await stores.dead_letters.move_misplaced([DISPATCH_QUEUE, "none"]) == []

    backend.run(scenario)


def test_bytes_that_are_no_text_in_a_queue_are_read_all_the_same(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.client.lpush(DISPATCH_QUEUE, b"\xff\xfe")
        assert list(await stores.pools.oldest([DISPATCH_QUEUE])) == [DISPATCH_QUEUE]

    valkey.run(scenario)


PASSING = (keys.CATALOG, keys.CIRCUITS, keys.DEAD_LETTERS, keys.LESSONS)
"""What no job writes, or does not stay."""
INDEXES = [*keys.KINDS, keys.queued(DISPATCH_QUEUE), keys.suspended("retry")]


@pytest.mark.parametrize("index", [index for index in INDEXES if index not in PASSING])
def test_what_another_program_writes_over_an_index_keeps_no_job_from_its_end(backend: Backend, index: str) -> None:
    async def overwrite(stores: Stores) -> None:
        await stores.client.delete(index)
        await stores.client.set(index, "a text")

    async def scenario(stores: Stores) -> None:
        await overwrite(stores)
        job = await submitted(stores)
        await overwrite(stores)
        leg = await claimed(stores, job)
        await overwrite(stores)
        paused = LegSuspended(leg=0, cause="retry", delay_s=0)
        assert (await stores.jobs.suspend(leg.lease, "p", [paused], 0.0))[0] == "ok"
        if index != keys.TIMERS:  # what was listed is lost
            await overwrite(stores)
        await stores.jobs.requeue(job, 0, 5, at_ms=2**50)
        leg = await claimed(stores, job, "w2#1")
        await overwrite(stores)
        assert await stores.jobs.renew([leg.lease], 30.0) == {}
        await stores.jobs.passed_ms()
        await overwrite(stores)
        assert (await stores.jobs.finish(leg.lease, "f", [done(leg=0)], []))[0] == "ok"
        assert (await stores.jobs.job(job)).status == "done"

    backend.run(scenario)


INTAKE = (keys.INTAKE, keys.INTAKE_TAKEN, keys.INTAKE_TEXTS)


@pytest.mark.parametrize("index", INTAKE)
def test_what_another_program_writes_over_the_intake_keeps_no_request_from_a_dispatcher(
    valkey: Backend, index: str
) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.client.set(index, "a text")
        assert not await stores.intake.take()
        await stores.intake.push("a request")
        assert [taken.text for taken in await stores.intake.take()] == ["a request"]

    valkey.run(scenario)


@pytest.mark.parametrize(
    "index", [one for one in INDEXES if one not in (keys.UNVOUCHED, keys.CLOCK, keys.LIMITED, *INTAKE)]
)
def test_an_index_that_is_none_is_named_with_the_remedy_and_put_aside(backend: Backend, index: str) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores)
        await stores.client.delete(index)
        await as_any(stores.client.rpush(index, "a list"))
        with pytest.raises(IndexOverwritten, match=f"as '{index}', where Ekiden keeps a .*: RENAME {index} ") as told:
            await read_all(stores)
        assert await stores.dead_letters.move_misplaced([told.value.key]) == [index]
        await read_all(stores)
        [letter] = await stores.dead_letters.all()
        assert letter.queue == index
        assert await stores.client.exists(f"{keys.MISPLACED}{index}")

    backend.run(scenario)


async def read_all(stores: Stores) -> None:
    """Whatever is read of the indexes."""
    await stores.jobs.jobs()
    await stores.jobs.waiting(None)
    await stores.jobs.overdue(0, at_ms=1)
    await stores.jobs.past_deadline(at_ms=1)
    await stores.jobs.tidy()
    with suppress(UnknownJob):
        await stores.jobs.resolve("xyz")
    await stores.jobs.clock.last_jump()
    await stores.pools.pools()
    await stores.pools.suspended()
    await stores.sessions.sessions(1)
    await stores.catalogs.current()
    await stores.catalogs.history()
    await stores.dead_letters.all()
    await stores.lessons.known()
    await stores.circuits.all()
