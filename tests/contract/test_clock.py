"""The server's clock jumps, and no lease, timer or deadline takes notice; on fakeredis and on a real server."""

import asyncio
import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from ekiden.shared.records import LegSuspended
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.relay.termination import stop_job, stop_or_wait
from ekiden.shared.stores import clock, keys
from ekiden.shared.stores.clock import RelayClock, _Reading
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import PoolView
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, claimed, moved, submission, submitted
from tests.contract.test_children import children_of, suspended_on
from tests.doubles.clocks import let_clock_be_set, set_clock

HOUR_S = 3_600
DAY_S = 86_400
JUMPS_S = (HOUR_S, -HOUR_S, 8 * DAY_S, -8 * DAY_S)
LEASE_S = 30.0
TIMER_S = 60.0
DEADLINE_S = 7_200.0
SLACK_S = 10.0
"""For a busy machine, and for what relay time may stand still until somebody notices that the clock was set back."""


@pytest.fixture(autouse=True)
def _settable(monkeypatch: pytest.MonkeyPatch) -> None:
    let_clock_be_set(monkeypatch)


async def followed(pool: Stores) -> RelayClock:
    """The pool's clock, after it has followed relay time until now."""
    for _ in range(2):  # what is read is told with the next reading
        await pool.jobs.clock.passed_ms()
    return pool.jobs.clock


def another(pool: Stores) -> Stores:
    """Another pool on the same server."""
    return Stores.on(pool.client)


async def left_s(stores: Stores, index: str, job: str) -> float:
    """How long it is until ``job`` is due in ``index``."""
    score = await stores.client.zscore(index, job)
    assert score is not None
    return float(score - await stores.jobs.clock.passed_ms()) / 1000


async def swept(stores: Stores) -> list[str]:
    """Sweep as a pool does; return what became of all jobs."""
    await sweep(stores.jobs, grace_s=2.0, max_attempts=5)
    return sorted(view.status for view in await stores.jobs.jobs())


async def submit_long(stores: Stores, request_id: str) -> str:
    """Submit a job that may take ``DEADLINE_S``."""
    job = await stores.jobs.reserve(None, request_id)
    assert await stores.jobs.submit(replace(submission(job), deadline_s=DEADLINE_S))
    return job


async def suspend(stores: Stores, job: str, delay_s: float = TIMER_S) -> None:
    leg = await claimed(stores, job, lease_s=LEASE_S)
    paused = LegSuspended(leg=leg.lease.leg, cause="retry", delay_s=delay_s)
    assert (await stores.jobs.suspend(leg.lease, "s", [paused], delay_s))[0] == "ok"


def near(wanted_s: float) -> object:
    return pytest.approx(wanted_s, abs=SLACK_S)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_a_jump_wakes_nothing_and_ends_nothing(backend: Backend, by_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        running, suspended, _queued = [await submit_long(stores, str(n)) for n in range(3)]
        await claimed(stores, running, lease_s=LEASE_S)
        await suspend(stores, suspended)
        before = await swept(stores)
        assert before == ["queued", "running", "suspended"]
        await set_clock(stores, by_s)
        with capture_logs() as logs:
            assert await swept(stores) == before
            assert await swept(stores) == before
        [told] = [one for one in logs if one["event"] == "server_clock_jumped"]
        assert told["by_s"] == near(by_s)
        assert await left_s(stores, keys.LEASES, running) == near(LEASE_S)
        assert await left_s(stores, keys.TIMERS, suspended) == near(TIMER_S)
        assert await left_s(stores, keys.DEADLINES, running) == near(DEADLINE_S)
        assert await stores.client.llen(DISPATCH_QUEUE) == 3, "no message was pushed again"

    backend.run(scenario)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_a_jump_just_behind_the_first_look_of_the_first_pool_is_one_like_any_other(backend: Backend, by_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        pool = another(stores).jobs.clock
        await pool.passed_ms()
        running, suspended = [await submit_long(stores, str(n)) for n in range(2)]
        await set_clock(stores, by_s)
        await claimed(stores, running, lease_s=LEASE_S)
        await suspend(stores, suspended)
        await pool.passed_ms()
        for index, job, wanted_s in (
            (keys.LEASES, running, LEASE_S),
            (keys.TIMERS, suspended, TIMER_S),
            (keys.DEADLINES, running, DEADLINE_S),
        ):
            assert await left_s(stores, index, job) == near(wanted_s)

    backend.run(scenario)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_what_was_written_before_anybody_noticed_the_jump_is_put_right(backend: Backend, by_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        parent, suspended, renewed = [await submitted(stores, request_id=str(n)) for n in range(3)]
        lead = await moved(stores, parent, "lead")
        lease = (await claimed(stores, renewed, lease_s=LEASE_S)).lease
        pool = await followed(stores)
        await set_clock(stores, by_s)
        new = await submit_long(stores, "new")
        assert await stores.jobs.renew([lease], LEASE_S) == {}
        await suspend(stores, suspended)
        [child] = children_of(lead, 1, timeout_s=600)
        await suspended_on(stores, lead, [child])
        await pool.passed_ms()
        assert await left_s(stores, keys.LEASES, renewed) == near(LEASE_S)
        assert await left_s(stores, keys.TIMERS, suspended) == near(TIMER_S)
        assert await left_s(stores, keys.DEADLINES, new) == near(DEADLINE_S)
        assert await left_s(stores, keys.DEADLINES, child.child.job) == near(600)
        assert await left_s(stores, keys.queued(DISPATCH_QUEUE), new) == near(0)
        assert await left_s(stores, keys.queued(child.outbox.queue), child.child.job) == near(0)
        assert await left_s(stores, keys.suspended("children"), parent) == near(0)
        assert await left_s(stores, keys.JOBS, new) == near(0)
        assert await left_s(stores, keys.SESSIONS, new.partition(".")[0]) == near(0)
        assert await stores.client.zcard(keys.UNVOUCHED) == 0

    backend.run(scenario)


def test_a_cancel_just_after_a_jump_leaves_a_running_job_to_its_worker(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submit_long(stores, "1")
        lease = (await claimed(stores, job, lease_s=LEASE_S)).lease
        pool = await followed(stores)
        await set_clock(stores, HOUR_S)
        assert await stop_job(stores.jobs, job, "user") == "flagged"
        verdict, _ = await asyncio.gather(stop_or_wait(stores.jobs, job, "user"), pool.passed_ms())
        assert verdict == "flagged"
        assert await stores.jobs.renew([lease], LEASE_S) == {job: "cancelled"}

    backend.run(scenario)


@pytest.mark.parametrize("later_s", [HOUR_S, 8 * DAY_S])
def test_a_cancel_without_any_pool_ends_a_job_whose_lease_is_over(backend: Backend, later_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submit_long(stores, "1")
        await claimed(stores, job, lease_s=LEASE_S)
        await followed(stores)
        await set_clock(stores, later_s)
        assert await stop_or_wait(stores.jobs, job, "user") == "ok"

    backend.run(scenario)


def test_a_lease_cannot_be_taken_by_a_clock_that_nobody_has_compared(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        await followed(stores)
        await set_clock(stores, 8 * DAY_S)
        assert await stores.jobs.claim(await claim_of(stores, job, "w2#1"), LEASE_S) == "busy"

    backend.run(scenario)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_the_jobs_of_a_worker_that_dies_as_the_clock_jumps_wait_no_longer_than_its_lease(
    backend: Backend, by_s: int
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        lease = (await claimed(stores, job, lease_s=0.2)).lease
        await followed(stores)
        await set_clock(stores, by_s)
        await stores.jobs.renew([lease], 0.2)
        deadline = time.monotonic() + SLACK_S
        while await swept(stores) != ["queued"]:
            assert time.monotonic() < deadline, "the lease does not end"
            await asyncio.sleep(0.02)

    backend.run(scenario)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_pools_that_notice_at_the_same_time_take_a_jump_out_once(backend: Backend, by_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        pools = [await followed(another(stores)) for _ in range(4)]
        before = await pools[0].passed_ms()
        await set_clock(stores, by_s)
        seen = [(pool, pool._followed, await pool._read()) for pool in pools]
        for pool, then, now in seen:
            await pool._take_out(now.jump_since(then), then, now)
        assert [(await pool.passed_ms() - before) / 1000 for pool in pools] == [near(0)] * 4
        jump = await stores.jobs.clock.last_jump()
        assert jump is not None
        assert jump.by_ms / 1000 == near(by_s)
        assert jump.jumps == 1

    backend.run(scenario)


def test_a_clock_that_is_set_right_again_leaves_nothing_to_take_out(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        pool = await followed(stores)
        for ahead_s in (8 * DAY_S, 0, -HOUR_S, 0):
            await set_clock(stores, ahead_s)
            await pool.passed_ms()
        offset_ms = await as_any(stores.client.hget(keys.CLOCK, "offset_ms"))
        assert int(offset_ms) / 1000 == near(0)

    backend.run(scenario)


@pytest.mark.parametrize("by_s", JUMPS_S)
def test_a_server_that_forgets_a_jump_finds_it_taken_out_again(backend: Backend, by_s: int) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submit_long(stores, "1")
        await claimed(stores, job, lease_s=LEASE_S)
        pools = [await followed(another(stores)) for _ in range(2)]
        before = await as_any(stores.client.hgetall(keys.CLOCK))
        await set_clock(stores, by_s)
        for pool in pools:
            await pool.passed_ms()
        await stores.client.delete(keys.CLOCK)  # what it wrote last is lost with the end of its file
        await stores.client.hset(keys.CLOCK, mapping=before)
        for pool in (*pools, *pools):
            await pool.passed_ms()
            assert await left_s(stores, keys.LEASES, job) == near(LEASE_S)
            assert await left_s(stores, keys.DEADLINES, job) == near(DEADLINE_S)
        assert await stores.client.hget(keys.CLOCK, "jumps") == "1"

    backend.run(scenario)


def test_a_pool_that_begins_just_when_the_clock_jumps_believes_what_the_others_find(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "TRIAL_S", 60.0)

    async def scenario(stores: Stores) -> None:
        await submit_long(stores, "1")
        pool = await followed(another(stores))
        await set_clock(stores, 8 * DAY_S)
        for _ in range(3):
            assert await swept(stores) == ["queued"], "this pool has only begun"
        await pool.passed_ms()
        assert (await stores.jobs.clock.passed_ms() - await pool.passed_ms()) / 1000 == near(0)
        assert await swept(stores) == ["queued"]
        jump = await pool.last_jump()
        assert jump is not None
        assert jump.by_ms / 1000 == near(8 * DAY_S)

    backend.run(scenario)


def test_a_jump_while_no_pool_runs_passes_for_time(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "TRIAL_S", 0.1)

    async def scenario(stores: Stores) -> None:
        old = await submit_long(stores, "old")
        await followed(another(stores))
        await set_clock(stores, 8 * DAY_S)
        new = await submit_long(stores, "new")
        deadline = time.monotonic() + SLACK_S
        while await swept(stores) != ["failed", "queued"]:
            assert time.monotonic() < deadline, "the deadline does not pass"
            await asyncio.sleep(0.02)
        assert (await stores.jobs.job(old)).reason == "TIMEOUT"
        assert await left_s(stores, keys.DEADLINES, new) == near(DEADLINE_S)
        assert await stores.jobs.clock.last_jump() is None

    backend.run(scenario)


def test_what_is_submitted_while_no_pool_runs_is_not_taken_along_by_a_later_jump(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "TRIAL_S", 0.0)

    async def scenario(stores: Stores) -> None:
        await followed(another(stores))
        await stores.client.hincrby(keys.CLOCK, "followed_ms", -8 * DAY_S * 1000)  # so long no pool has run
        job = await submit_long(stores, "1")
        assert await stores.client.zcard(keys.UNVOUCHED) > 0
        await asyncio.sleep(0.01)  # what the pool takes out begins with its first look, give or take a millisecond
        await stores.jobs.clock.passed_ms()
        await set_clock(stores, 4 * DAY_S)
        await stores.jobs.clock.passed_ms()
        assert await left_s(stores, keys.DEADLINES, job) == near(DEADLINE_S)

    backend.run(scenario)


def test_relay_time_does_not_go_back_though_the_clock_was_set_back_while_no_pool_ran(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submit_long(stores, "1")
        before = await (await followed(stores)).passed_ms()
        await set_clock(stores, -HOUR_S)
        new = await submit_long(stores, "2")
        due_ms = await stores.client.zscore(keys.DEADLINES, new)  # before anybody looks, and could put it right
        assert due_ms is not None
        assert (due_ms - before) / 1000 == near(DEADLINE_S)
        assert (await another(stores).jobs.clock.passed_ms() - before) / 1000 == near(0)
        for one in (job, new):
            assert await left_s(stores, keys.DEADLINES, one) == near(DEADLINE_S)
        assert not (await claimed(stores, job, lease_s=LEASE_S)).stop
        assert await left_s(stores, keys.LEASES, job) == near(LEASE_S)

    backend.run(scenario)


def test_a_pool_whose_own_clock_stood_still_holds_up_nobody(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submit_long(stores, "1")
        laptop, other = [await followed(another(stores)) for _ in range(2)]
        asleep = laptop._followed
        assert asleep is not None
        laptop._followed = replace(asleep, at_ms=asleep.at_ms - HOUR_S * 1000)  # an hour more has passed for the server
        now = await other.passed_ms()
        await other.passed_ms()
        assert (await laptop.passed_ms() - now) / 1000 == near(0)
        assert await left_s(stores, keys.DEADLINES, job) == near(DEADLINE_S)

    backend.run(scenario)


def test_people_read_the_servers_own_time(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        pool = await followed(stores)
        await set_clock(stores, 8 * DAY_S)
        await pool.passed_ms()
        job = await submitted(stores)
        [entry] = await stores.jobs.journal(job)
        view = await stores.jobs.job(job)
        session = await stores.sessions.session(job.partition(".")[0])
        wall_ms = (time.time() + 8 * DAY_S) * 1000
        told = [entry.at_ms, view.created_ms, session.created_ms, session.used_ms]
        assert [(one - wall_ms) / 1000 for one in told] == [near(0)] * 4

    backend.run(scenario)


def test_the_newest_jobs_are_the_newest_whichever_way_the_clock_jumped(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        pool = await followed(stores)
        jobs = []
        for n, ahead_s in enumerate((0, 8 * DAY_S, -HOUR_S)):
            await set_clock(stores, ahead_s)
            jobs.append(await submitted(stores, request_id=f"unnoticed {n}"))
            await pool.passed_ms()
            await asyncio.sleep(0.05)  # a jump is known to within a round trip
            jobs.append(await submitted(stores, request_id=f"noticed {n}"))
            await asyncio.sleep(0.05)
        assert [view.id for view in await stores.jobs.jobs()] == jobs[::-1]
        sessions = [job.partition(".")[0] for job in jobs[::-1]]
        assert [view.id for view in await stores.sessions.sessions()] == sessions

    backend.run(scenario)


def test_pools_that_died_are_not_listed_for_longer_because_the_clock_was_set_back(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        pool = await followed(stores)
        await stores.pools.announce(PoolView("dead", "worker", ()))
        await stores.client.expire(keys.pool("dead"), HOUR_S)  # what a server makes of 15 s when its clock goes back
        await set_clock(stores, -HOUR_S)
        await pool.passed_ms()
        assert await stores.client.ttl(keys.pool("dead")) <= keys.POOL_TTL_S

    valkey.run(scenario)


@pytest.mark.parametrize(
    ("passed_ms", "asked_s", "answered_s", "jump_ms"),
    [
        (1_000, 101.0, 101.1, 0),
        (61_000, 101.0, 161.0, 0),  # the answer was slow: a server that stood still
        (61_000, 161.0, 161.1, 0),  # the question was late: a pool that stood still
        (1_900, 101.0, 101.1, 0),
        (3_700, 101.0, 101.2, 2_500),
        (3_600_000 + 61_000, 101.0, 161.0, 3_600_000),
        (-3_600_000, 101.0, 101.1, -3_600_900),
        (0, 101.5, 101.6, -1_400),
    ],
)
def test_a_jump_is_what_no_delay_of_question_or_answer_explains(
    passed_ms: int, asked_s: float, answered_s: float, jump_ms: int
) -> None:
    before = _Reading(5_000_000, 4_999_000, 3, asked_s=100.0, answered_s=100.1)
    now = _Reading(5_000_000 + passed_ms, 4_999_000, 3, asked_s, answered_s)
    assert now.jump_since(before) == jump_ms
