"""Whoever ends a job tells of it, once: the worker, a client, the sweeper, the deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import pytest

from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Ended, Entry, JobRequested, LegSuspended, Record
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.queue_gauges import report_queues
from ekiden.shared.relay.sweeper import end_overdue, sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.telemetry.base import QueueGauge, Telemetry, install
from tests.conftest import Backend
from tests.contract.relay_world import claimed, submitted
from tests.doubles.clocks import let_clock_be_set, set_clock
from tests.unit.relay.legs import expire, runner_of, take


class Listening(Telemetry):
    """Remembers what it is told."""

    wants_queues = True

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self.gauges: Sequence[QueueGauge] = ()
        self.jobs: list[Mapping[str, int]] = []

    def ended(self, job: str, entries: Sequence[Entry], records: Sequence[Record]) -> None:
        assert isinstance(entries[0].record, JobRequested)
        self.ends += [(job, record.status) for record in records if isinstance(record, Ended)]

    def queues(self, gauges: Sequence[QueueGauge]) -> None:
        self.gauges = gauges

    def suspended(self, jobs: Mapping[str, int]) -> None:
        self.jobs.append(jobs)


@pytest.fixture
def listening() -> Iterator[Listening]:
    listener = Listening()
    remove = install(listener)
    yield listener
    remove()


async def work(leg: Leg) -> Outcome:
    if leg.number == 0:
        return Transfer(leg.context.advance("debugger", "go", is_route=True), catalog="cat")
    return Answer("42")


async def by_the_worker(stores: Stores, job: str) -> None:
    runner = runner_of(stores, work, work)
    for queue in (DISPATCH_QUEUE, queue_for("debugger")):
        await runner.run(await take(stores, queue), queue)


async def by_a_client(stores: Stores, job: str) -> None:
    assert [await stop_job(stores.jobs, job, "user") for _ in range(2)] == ["ok", "finished"]


async def by_the_sweeper(stores: Stores, job: str) -> None:
    await claimed(stores, job)
    await expire(stores, job)
    for _ in range(2):
        await sweep(stores.jobs, grace_s=0.0, max_attempts=1)


async def by_the_deadline(stores: Stores, job: str) -> None:
    await stores.client.zadd(keys.DEADLINES, {job: 1})
    for _ in range(2):
        await end_overdue(stores.jobs)


@pytest.mark.parametrize(
    ("end", "status"),
    [(by_the_worker, "done"), (by_a_client, "cancelled"), (by_the_sweeper, "dead"), (by_the_deadline, "failed")],
)
def test_whoever_ends_a_job_tells_of_it_once(
    valkey: Backend, listening: Listening, end: Callable[[Stores, str], Awaitable[None]], status: str
) -> None:
    async def scenario(stores: Stores) -> str:
        job = await submitted(stores)
        await end(stores, job)
        assert (await stores.jobs.job(job)).status == status
        return job

    assert listening.ends == [(valkey.run(scenario), status)]


def test_queues_are_told_with_the_age_of_their_oldest_message(valkey: Backend, listening: Listening) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores, request_id="a")
        await asyncio.sleep(0.05)
        await submitted(stores, request_id="b")
        await report_queues(stores)

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
        await report_queues(stores)

    valkey.run(scenario)
    (gauge,) = listening.gauges
    assert gauge.age_s < 30


@pytest.mark.parametrize("way_out", ["its timer", "its end"])
def test_a_job_counts_as_suspended_for_as_long_as_it_is(valkey: Backend, listening: Listening, way_out: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        lease = (await claimed(stores, job)).lease
        await report_queues(stores)
        await stores.jobs.suspend(lease, "c1", [LegSuspended(leg=0, cause="retry", delay_s=0.0)], 0.0)
        await report_queues(stores)
        if way_out == "its end":
            await stop_job(stores.jobs, job, "user")
        else:
            assert await sweep(stores.jobs, grace_s=30.0, max_attempts=5) == 1
        await report_queues(stores)

    valkey.run(scenario)
    assert [jobs["retry"] for jobs in listening.jobs] == [0, 1, 0]
    assert {sum(jobs.values()) for jobs in listening.jobs} == {0, 1}
