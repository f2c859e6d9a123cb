"""The last steps of a leg, which its commit takes into the journal: they count once, or not at all."""

from collections.abc import Awaitable, Callable

import pytest

from ekiden.shared.errors import JobCancelled, LostLease
from ekiden.shared.ids import session_of
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.records import Ended, LegSuspended, Record, Refused
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed, Lease
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import Spent
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, moved, reply, step_to, submitted
from tests.contract.rewinding import remembered, rewind
from tests.contract.test_children import children_of, suspended_on

LAST = reply("my last word", tokens=60, cost_usd=0.01).model_copy(update={"untrusted": "a stranger"})
SPENT = Spent(tokens=60, micro_usd=10_000)

Write = Callable[[Stores, Claimed, str], Awaitable[str]]
"""Writes ``LAST`` and what it leads to, under an id; returns the verdict."""


async def recorded(stores: Stores, leg: Claimed, token: str) -> str:
    """As it is when its transfer was refused."""
    refusal = Refused(leg=1, call_id="c1", name="transfer_to_b", code="CIRCULAR_HANDOFF", message="no")
    try:
        await stores.jobs.append(Lease(**vars(leg.lease)), token, [LAST, refusal], used_ms=7, is_progress=True)
    except JobCancelled:
        return "cancelled"
    except LostLease as error:
        return str(error).rpartition("(")[2].rstrip(")")
    return "ok"


async def finished(stores: Stores, leg: Claimed, commit: str) -> str:
    return (await stores.jobs.finish(leg.lease, commit, [LAST, done()], ["{}"]))[0]


async def handed_over(stores: Stores, leg: Claimed, commit: str, agent: str = "b") -> str:
    step = step_to(leg, agent)
    return (await stores.jobs.transfer(leg.lease, commit, **{**step, "records": [LAST, *step["records"]]}))[0]


async def given_back(stores: Stores, leg: Claimed, commit: str) -> str:
    pause: list[Record] = [LAST, LegSuspended(leg=1, cause="retry", delay_s=0)]
    return (await stores.jobs.suspend(leg.lease, commit, pause, 0.0, used_ms=7))[0]


WRITES = [recorded, finished, handed_over, given_back]


async def counted(stores: Stores, job: str) -> tuple[int, Spent, bool, bool]:
    """How often ``LAST`` is in the journal, what the job has spent, and whether it and its session are marked."""
    view = await stores.jobs.job(job)
    entries = await stores.jobs.journal(job)
    assert [entry.seq for entry in entries] == list(range(1, view.seq + 1)), "no hole, and nothing twice"
    is_marked = await as_any(stores.client.hget(keys.session(session_of(job)), "untrusted"))
    return [entry.record for entry in entries].count(LAST), view.spent, view.untrusted, is_marked == "1"


ALL = (1, SPENT, True, True)
NOTHING = (0, Spent(), False, False)


@pytest.mark.parametrize("write", WRITES)
def test_last_steps_that_are_written_count_once_also_when_the_write_is_repeated(backend: Backend, write: Write) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "a")
        assert [await write(stores, leg, "c1") for _ in range(2)] == ["ok", "ok"]
        assert await counted(stores, job) == ALL
        last = [entry.record.type for entry in await stores.jobs.journal(job)][leg.lease.seq :]
        assert (last[0], len(last)) == ("model_reply", 2)

    backend.run(scenario)


async def _cancelled(stores: Stores, leg: Claimed) -> None:
    end = Ended(leg=1, status="cancelled", reason="ABORTED")
    assert await stores.jobs.stop(leg.lease.job, "user", [end], []) == "flagged"


async def _fenced(stores: Stores, leg: Claimed) -> None:
    await stores.client.zadd(keys.LEASES, {leg.lease.job: 1})
    await claimed(stores, leg.lease.job, "another#1")


async def _moved(stores: Stores, leg: Claimed) -> None:
    """A server that went back behind what the leg recorded before."""
    before = await remembered(stores)
    await stores.jobs.append(leg.lease, "t0", [reply("before")], used_ms=1, is_progress=True)
    await rewind(stores, before)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("before", [_cancelled, _fenced, _moved])
def test_last_steps_that_are_refused_leave_no_trace(
    backend: Backend, write: Write, before: Callable[[Stores, Claimed], Awaitable[None]]
) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "a")
        await before(stores, leg)
        assert await write(stores, leg, "c1") == before.__name__.removeprefix("_")
        assert await counted(stores, job) == NOTHING

    backend.run(scenario)


def test_last_steps_of_a_cancelled_job_go_with_its_end(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "a")
        await _cancelled(stores, leg)
        assert await finished(stores, leg, "c1") == "cancelled"
        end = Ended(leg=1, status="cancelled", reason="ABORTED")
        assert (await stores.jobs.finish(leg.lease, "c2", [LAST, end], []))[0] == "ok"
        assert await counted(stores, job) == ALL

    backend.run(scenario)


def test_last_steps_of_a_refused_transfer_go_with_its_refusal(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "a")
        assert await handed_over(stores, leg, "c1", "a") == "refused"
        assert await counted(stores, job) == NOTHING
        assert await recorded(stores, leg, "t1") == "ok"
        assert await counted(stores, job) == ALL

    backend.run(scenario)


def test_what_last_steps_have_spent_counts_before_their_transfer_is_allowed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        route = await claimed(stores, job := await submitted(stores))
        step = step_to(route, "a", limits=JobLimits(max_tokens=60))
        assert await stores.jobs.transfer(route.lease, "r", **step) == ("ok", "")
        leg = await claimed(stores, job)
        step = step_to(leg, "b")
        whole = {**step, "records": [LAST, *step["records"]]}
        assert await stores.jobs.transfer(leg.lease, "c1", **whole) == ("refused", "BUDGET_EXCEEDED")
        assert await counted(stores, job) == NOTHING

    backend.run(scenario)


@pytest.mark.parametrize("write", WRITES)
def test_what_a_childs_last_steps_have_spent_counts_on_its_root(backend: Backend, write: Write) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "lead")
        await suspended_on(stores, leg, children_of(leg, 1))
        child = await claimed(stores, f"{job}.1")
        assert [await write(stores, child, "c1") for _ in range(2)] == ["ok", "ok"]
        assert (await stores.jobs.job(job)).spent == SPENT
        assert (await stores.jobs.job(f"{job}.1")).spent == Spent(), "the root counts for all"
        assert await as_any(stores.client.hget(keys.session(session_of(job)), "untrusted")) == "1"

    backend.run(scenario)


def test_a_leg_that_is_given_back_with_a_last_step_has_made_progress(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await moved(stores, job := await submitted(stores), "a")
        for attempt in (2, 3):
            await stores.client.zadd(keys.LEASES, {job: 1})
            leg = await claimed(stores, job, f"w#{attempt}")
        assert leg.attempt == 3
        pause: list[Record] = [LegSuspended(leg=1, cause="retry", delay_s=0)]
        assert (await stores.jobs.suspend(leg.lease, "c0", pause, 0.0))[0] == "ok"
        assert await stores.jobs.requeue(job, 60, 9) == "ok"
        leg = await claimed(stores, job)
        assert (leg.attempt, leg.used_ms) == (3, 0), "a pause by itself is only refunded"
        assert await given_back(stores, leg, "c1") == "ok"
        assert await stores.jobs.requeue(job, 60, 9) == "ok"
        leg = await claimed(stores, job)
        assert (leg.attempt, leg.used_ms) == (1, 7)

    backend.run(scenario)
