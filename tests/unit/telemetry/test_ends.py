"""Whoever ends a job tells of it, once: the worker, a client, the sweeper, the deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from ekiden.shared.hooks.base import Hook, QueueGauge
from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Ended, Entry, JobRequested, LegSuspended
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.queue_gauges import report_queues
from ekiden.shared.relay.sweeper import end_overdue, sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend
from tests.contract.relay_world import claimed, submitted
from tests.doubles.clocks import let_clock_be_set, set_clock
from tests.unit.relay.legs import expire, runner_of, take


class Listening(Hook):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self.gauges: Sequence[QueueGauge] = ()
        self.jobs: list[Mapping[str, int]] = []

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        assert isinstance(entries[0].record, JobRequested)
        assert [entry.seq for entry in (*entries, *records)] == list(range(1, len(entries) + len(records) + 1))
        self.ends += [(job, entry.record.status) for entry in records if isinstance(entry.record, Ended)]

    def queues_seen(self, gauges: Sequence[QueueGauge]) -> None:
        self.gauges = gauges

    def suspensions_seen(self, jobs: Mapping[str, int]) -> None:
        self.jobs.append(jobs)


@pytest.fixture
def listening() -> Listening:
    return Listening()


async def work(leg: Leg) -> Outcome:
    if leg.number == 0:
        return Transfer(leg.context.advance("debugger", "go", is_route=True), catalog="cat")
    return Answer("42")


async def by_the_worker(stores: Stores, job: str, hooks: Hook) -> None:
    runner = runner_of(stores, work, work, hooks=hooks)
    for queue in (DISPATCH_QUEUE, queue_for("debugger")):
        await runner.run(await take(stores, queue), queue)


async def by_a_client(stores: Stores, job: str, hooks: Hook) -> None:
    assert [await stop_job(stores.jobs, job, "user", hooks) for _ in range(2)] == ["ok", "finished"]


async def by_the_sweeper(stores: Stores, job: str, hooks: Hook) -> None:
    await claimed(stores, job)
    await expire(stores, job)
    for _ in range(2):
        await sweep(stores.jobs, grace_s=0.0, max_attempts=1, hooks=hooks)


async def by_the_deadline(stores: Stores, job: str, hooks: Hook) -> None:
    await stores.client.zadd(keys.DEADLINES, {job: 1})
    for _ in range(2):
        await end_overdue(stores.jobs, hooks=hooks)


@pytest.mark.parametrize(
    ("end", "status"),
    [(by_the_worker, "done"), (by_a_client, "cancelled"), (by_the_sweeper, "dead"), (by_the_deadline, "failed")],
)
def test_whoever_ends_a_job_tells_of_it_once(
    valkey: Backend, listening: Listening, end: Callable[[Stores, str, Hook], Awaitable[None]], status: str
) -> None:
    async def scenario(stores: Stores) -> str:
        job = await submitted(stores)
        await end(stores, job, listening)
        assert (await stores.jobs.job(job)).status == status
        return job

    assert listening.ends == [(valkey.run(scenario), status)]


def test_queues_are_told_with_the_age_of_their_oldest_message(valkey: Backend, listening: Listening) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores, request_id="a")
        await asyncio.sleep(0.05)
        await submitted(stores, request_id="b")
        await report_queues(stores, listening)

    valkey.run(scenario)
    (gauge,) = listening.gauges
    assert (gauge.agent, gauge.depth) == ("router", 2)
    assert 0.04 < gauge.age_s < 30


def test_a_queues_age_takes_no_notice_of_a_clock_that_jumped(
    valkey: Backend, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_clock_be_set(monkeypatch)

    async def scenario(stores: Stores) -> None:
        await stores.jobs.clock.passed_ms()
        await submitted(stores)
        await set_clock(stores, 8 * 86_400)
        await report_queues(stores, listening)

    valkey.run(scenario)
    (gauge,) = listening.gauges
    assert gauge.age_s < 30


@pytest.mark.parametrize("way_out", ["its timer", "its end"])
def test_a_job_counts_as_suspended_for_as_long_as_it_is(valkey: Backend, listening: Listening, way_out: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        lease = (await claimed(stores, job)).lease
        await report_queues(stores, listening)
        await stores.jobs.suspend(lease, "c1", [LegSuspended(leg=0, cause="retry", delay_s=0.0)], 0.0)
        await report_queues(stores, listening)
        if way_out == "its end":
            await stop_job(stores.jobs, job, "user")
        else:
            assert await sweep(stores.jobs, grace_s=30.0, max_attempts=5) == 1
        await report_queues(stores, listening)

    valkey.run(scenario)
    assert [jobs["retry"] for jobs in listening.jobs] == [0, 1, 0]
    assert {sum(jobs.values()) for jobs in listening.jobs} == {0, 1}
