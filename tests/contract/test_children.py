"""The contract of JobStore for delegated jobs, returns, session variables and budgets."""

from typing import Any

import pytest

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.handoff import Frame, HandoffContext
from ekiden.shared.ids import root_of
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.outcomes import Answer, ChildJob
from ekiden.shared.records import Ended, HandedOff, JobRequested, LegSuspended, Record, Retried
from ekiden.shared.relay.message import outbox, queue_for
from ekiden.shared.relay.sweeper import end_overdue
from ekiden.shared.relay.transitions import return_of
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Appended, Claimed
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.submissions import ChildSubmission
from ekiden.shared.stores.views import Spent
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, claimed, done, moved, reply, step_to, submission, submitted, sweepers

FAILED = Ended(leg=1, status="failed", reason="ERROR", error="broke")
CANCELLED = Ended(leg=1, status="cancelled", reason="ABORTED", error="cancelled")


def children_of(leg: Claimed, count: int, timeout_s: float = 60.0) -> list[ChildSubmission]:
    """The next ``count`` children of the job that ``leg`` belongs to."""
    return [_child(leg, f"{leg.lease.job}.{n}", timeout_s) for n in range(1, count + 1)]


def _child(leg: Claimed, job: str, timeout_s: float) -> ChildSubmission:
    context: HandoffContext = leg.context.advance("scout", "look")
    child = ChildJob(job, f"c{job}", "scout", "look", context, {"objective": "look"}, (), 3, timeout_s)
    box = outbox(job, 1, queue_for("scout"), context)
    return ChildSubmission(child, box, (JobRequested(prompt="look", agent="scout"), HandedOff(context=context)))


async def waiting_parent(stores: Stores, count: int, need: int = 0, timeout_s: float = 60.0) -> tuple[str, list[str]]:
    """A job that is suspended on ``count`` children; their ids."""
    job = await submitted(stores)
    leg = await moved(stores, job, "lead")
    children = children_of(leg, count, timeout_s)
    await suspended_on(stores, leg, children, need)
    return job, [one.child.job for one in children]


async def suspended_on(stores: Stores, leg: Claimed, children: list[ChildSubmission], need: int = 0) -> None:
    """Suspend ``leg`` on ``children``."""
    records: list[Record] = [LegSuspended(leg=leg.lease.leg, cause="children", delay_s=0)]
    verdict = await stores.jobs.suspend(leg.lease, f"{leg.lease.fence}.s", records, 0.0, children=children, need=need)
    assert verdict == ("ok", "")


async def end(stores: Stores, job: str, record: Ended | None = None) -> None:
    """Let a worker take the job's leg and end it."""
    leg = await claimed(stores, job)
    ended = (record or done("found it")).model_copy(update={"leg": leg.lease.leg})
    assert (await stores.jobs.finish(leg.lease, f"{leg.lease.fence}.f", [ended], []))[0] == "ok"


async def status_of(stores: Stores, job: str) -> str:
    """The job's status; while it is suspended, and only then, it is listed with its cause."""
    status = (await stores.jobs.job(job)).status
    is_listed = await as_any(stores.client.zscore(keys.suspended("children"), job)) is not None
    assert is_listed == (status == "suspended")
    return status


async def sends_of(stores: Stores, job: str) -> int:
    """How many messages of the job have been pushed."""
    return int(await as_any(stores.client.hget(keys.job(job), "sends")))


def test_a_suspension_begins_its_children_at_their_agents(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second] = await waiting_parent(stores, 2)
        assert await status_of(stores, job) == "suspended"
        for child in (first, second):
            view = await stores.jobs.job(child)
            assert (view.status, view.leg, view.agent, view.depth) == ("queued", 1, "scout", 1)
            assert [entry.record.type for entry in await stores.jobs.journal(child)] == ["request", "handoff"]
            assert (await claimed(stores, child)).context.to_agent == "scout"
        assert [one.id for one in await stores.jobs.jobs()] == [job], "children are not listed as jobs of their own"

    backend.run(scenario)


def test_the_last_child_that_ends_wakes_its_parent_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, children = await waiting_parent(stores, 3)
        before = await sends_of(stores, job)
        await end(stores, children[1], FAILED)
        await end(stores, children[0])
        assert await stores.jobs.claim(await claim_of(stores, job), 30) == "suspended"
        await end(stores, children[2])
        assert await status_of(stores, job) == "queued"
        assert await sends_of(stores, job) == before + 1
        assert (await claimed(stores, job)).attempt == 1

    backend.run(scenario)


@pytest.mark.parametrize("how", ["answered", "failed", "cancelled", "deadline", "dead"])
def test_however_a_child_ends_its_parent_wakes(backend: Backend, how: str) -> None:
    async def scenario(stores: Stores) -> None:
        job, [child] = await waiting_parent(stores, 1)
        match how:
            case "answered":
                await end(stores, child)
            case "failed":
                await end(stores, child, FAILED)
            case "cancelled":
                assert await stores.jobs.stop(child, "user", [CANCELLED], ()) == "ok"
            case "deadline":
                late = FAILED.model_copy(update={"reason": "TIMEOUT"})
                assert await stores.jobs.stop(child, "deadline", [late], ()) == "ok"
            case _:
                await claimed(stores, child, lease_s=0.0)
                dead = Ended(leg=1, status="dead", reason="ERROR", error="gone")
                assert (await stores.jobs.finish(await sweepers(stores, child), "d", [dead], []))[0] == "ok"
        assert await status_of(stores, job) == "queued"
        await claimed(stores, job)

    backend.run(scenario)


def test_a_parent_that_needs_one_success_goes_on_with_the_first_and_the_rest_is_stopped(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, children = await waiting_parent(stores, 4, need=1)
        running = await claimed(stores, children[3])
        await end(stores, children[0], FAILED)
        assert await status_of(stores, job) == "suspended", "a failure is not what it waits for"
        await end(stores, children[1])
        assert await status_of(stores, job) == "queued"
        assert await stores.jobs.past_deadline() == [children[2]], "the sweeper is to end what nobody runs"
        assert (await stores.jobs.job(children[2])).stop == "parent"
        assert await stores.jobs.renew([running.lease], 30) == {children[3]: "cancelled"}
        await end(stores, children[3], CANCELLED)
        assert await sends_of(stores, job) == 3, "route, handoff and one waking"

    backend.run(scenario)


def test_a_quorum_that_cannot_be_reached_is_not_waited_for_for_ever(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, children = await waiting_parent(stores, 3, need=2)
        for child in children:
            await end(stores, child, FAILED)
        assert await status_of(stores, job) == "queued"

    backend.run(scenario)


def test_the_end_of_a_job_stops_its_children_down_to_the_last(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [child] = await waiting_parent(stores, 1)
        leg = await claimed(stores, child)
        await suspended_on(stores, leg, children_of(leg, 1))
        grandchild = f"{child}.1"
        assert await stores.jobs.stop(job, "user", [CANCELLED], ()) == "ok"
        assert await stores.jobs.past_deadline() == [child]
        assert await stores.jobs.stop(child, "parent", [CANCELLED], ()) == "ok"
        assert await stores.jobs.past_deadline() == [grandchild]
        assert (await claimed(stores, grandchild)).stop == "parent"
        assert await status_of(stores, job) == "cancelled"

    backend.run(scenario)


def test_who_waits_again_finds_the_children_that_have_ended_meanwhile(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, children = await waiting_parent(stores, 2, need=1)
        await end(stores, children[0])
        leg = await claimed(stores, job)
        again = children_of(leg, 2)
        await suspended_on(stores, leg, again[:1])
        assert await status_of(stores, job) == "queued", "all that it waits for has ended"
        assert len(await stores.jobs.journal(children[0])) == 4, "an ended child is not begun again"

    backend.run(scenario)


def test_a_job_that_waits_for_children_is_not_swept(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, _ = await waiting_parent(stores, 1)
        assert await stores.jobs.overdue(0.0) == [f"{job}.1"]
        assert await stores.jobs.requeue(job, 0.0, 5) == "waiting"

    backend.run(scenario)


def test_a_cancelled_job_begins_no_children(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        assert await stores.jobs.stop(job, "user", [CANCELLED], ()) == "flagged"
        records: list[Record] = [LegSuspended(leg=1, cause="children", delay_s=0)]
        children = children_of(leg, 1)
        verdict = await stores.jobs.suspend(leg.lease, "s", records, 0.0, children=children)
        assert verdict == ("cancelled", "user")
        assert not await stores.client.exists(keys.job(f"{job}.1"))

    backend.run(scenario)


def test_a_repeated_suspension_begins_no_child_twice(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        children = children_of(leg, 2)
        for _ in range(2):
            await suspended_on(stores, leg, children)
        assert [await sends_of(stores, one.child.job) for one in children] == [1, 1]

    backend.run(scenario)


def test_a_delegated_job_cannot_be_retried(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        _, [child] = await waiting_parent(stores, 1)
        await end(stores, child, FAILED)
        box = children_of(await claimed(stores, child.rpartition(".")[0]), 1)[0].outbox
        with pytest.raises(InvalidRequest, match="delegated"):
            await stores.jobs.retry(child, box, Retried(leg=1), 60.0)

    backend.run(scenario)


def test_a_return_takes_agents_off_the_chain_and_costs_no_depth(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        frame = Frame(agent="lead", leg=1, call_id="c1", from_agent="user", chain_length=2)
        for n in range(2):  # the same agent may be called again: it has left the chain
            context = leg.context.advance("helper", f"please, time {n}", call=frame)
            step = step_to(leg, "helper", context=context, cycles="deny")
            assert await stores.jobs.transfer(leg.lease, f"go{n}", **step) == ("ok", "")
            called = await claimed(stores, job)
            back = return_of(called.context, Answer("done"), upto=3)
            assert back.context.metadata.handoff_chain == ("user", "lead")
            step = step_to(called, "lead", context=back.context, left=back.left, cycles="deny")
            assert await stores.jobs.transfer(called.lease, f"back{n}", **step) == ("ok", "")
            leg = await claimed(stores, job)
            assert leg.context.returned is not None
        assert (await stores.jobs.job(job)).depth == leg.context.metadata.chain_depth == 2

    backend.run(scenario)


def test_an_identical_handoff_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for to in ("a", "b", "a"):
            leg = await moved(stores, job) if to == "b" else await claimed(stores, job)
            context = leg.context.advance(to, "the same words", is_route=leg.lease.leg == 0)
            step = step_to(leg, to, context=context, cycles="limit:9")
            assert await stores.jobs.transfer(leg.lease, f"t{leg.lease.leg}", **step) == ("ok", "")
        leg = await claimed(stores, job)
        step = step_to(leg, "b", context=leg.context.advance("b", "the same words"), cycles="limit:9")
        assert await stores.jobs.transfer(leg.lease, "again", **step) == ("refused", "REPEATED_HANDOFF")
        step = step_to(leg, "b", context=leg.context.advance("b", "other words"), cycles="limit:9")
        assert await stores.jobs.transfer(leg.lease, "new", **step) == ("ok", "")

    backend.run(scenario)


def test_a_definition_that_the_catalog_lacks_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        step = step_to(leg, "b", definition="no such digest")
        assert await stores.jobs.transfer(leg.lease, "t", **step) == ("refused", "UNKNOWN_DEFINITION")

    backend.run(scenario)


def test_what_children_spend_counts_on_the_root_and_stops_handoffs(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        route = await claimed(stores, job)
        step = step_to(route, "lead", limits=JobLimits(max_tokens=100))
        assert await stores.jobs.transfer(route.lease, "r", **step) == ("ok", "")
        leg = await claimed(stores, job)
        await suspended_on(stores, leg, children_of(leg, 1))
        child = await claimed(stores, f"{job}.1")
        half = [reply(tokens=60)]
        write: dict[str, Any] = {"used_ms": 1, "is_progress": True}
        for _ in range(2):  # a repeated append costs once
            assert _used(await stores.jobs.append(child.lease, "t1", half, **write)) == {"max_tokens": (60, 100)}
        assert _used(await stores.jobs.append(child.lease, "t2", half, **write)) == {"max_tokens": (120, 100)}
        step = step_to(child, "helper")
        assert await stores.jobs.transfer(child.lease, "h", **step) == ("refused", "BUDGET_EXCEEDED")
        assert (await stores.jobs.job(root_of(f"{job}.1"))).spent == Spent(tokens=120)
        await stores.jobs.finish(child.lease, "f", [done()], [])
        assert _used(await claimed(stores, job)) == {"max_tokens": (120, 100)}

    backend.run(scenario)


def _used(told: Appended | Claimed) -> dict[str, tuple[float, float]]:
    return {name: (used.spent, used.most) for name, used in told.spending.items()}


def test_a_family_counts_its_turns_legs_and_time_together(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        route = await claimed(stores, job)
        limits = JobLimits(max_turns=9, max_legs=4, max_seconds=60, max_cost_usd=2)
        step = step_to(route, "lead", limits=limits)
        assert await stores.jobs.transfer(route.lease, "r", used_ms=500, **step) == ("ok", "")
        leg = await claimed(stores, job)
        nothing = {"max_turns": (0, 9), "max_legs": (1, 4), "max_seconds": (0, 60), "max_cost_usd": (0, 2)}
        assert _used(leg) == nothing, "the route is free"
        said = [reply(cost_usd=0.5)]
        told = await stores.jobs.append(leg.lease, "t", said, used_ms=2_000, is_progress=True)
        assert _used(told) == nothing | {"max_turns": (1, 9), "max_seconds": (2, 60), "max_cost_usd": (0.5, 2)}
        pause: list[Record] = [reply(cost_usd=0.5), LegSuspended(leg=1, cause="children", delay_s=0)]
        waits: dict[str, Any] = {"children": children_of(leg, 2), "used_ms": 3_000}
        assert await stores.jobs.suspend(leg.lease, "s", pause, 0.0, **waits) == ("ok", "")
        one, other = [await claimed(stores, f"{job}.{n}") for n in (1, 2)]
        assert _used(other) == {"max_turns": (2, 9), "max_legs": (3, 4), "max_seconds": (3, 60), "max_cost_usd": (1, 2)}
        step = step_to(one, "helper")
        assert await stores.jobs.transfer(one.lease, "h", used_ms=4_000, **step) == ("ok", "")
        assert (await stores.jobs.transfer(other.lease, "h", **step_to(other, "helper")))[1] == "BUDGET_EXCEEDED"
        last: list[Record] = [reply(cost_usd=0.25), done()]
        await stores.jobs.finish(other.lease, "f", last, [], used_ms=1_000)
        helper = await claimed(stores, f"{job}.1")
        full = {"max_turns": (3, 9), "max_legs": (4, 4), "max_seconds": (8, 60), "max_cost_usd": (1.25, 2)}
        assert _used(helper) == full

    backend.run(scenario)


def test_session_variables_are_written_with_the_commit(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        session = job.partition(".")[0]
        leg = await claimed(stores, job)
        assert not leg.has_state
        step = step_to(leg, "a", state={"任务": "修复", "n": [1, {"x": None}], "gone": 1})
        assert await stores.jobs.transfer(leg.lease, "t", **step) == ("ok", "")
        leg = await claimed(stores, job)
        assert leg.has_state
        assert await stores.sessions.state(session) == {"gone": 1, "n": [1, {"x": None}], "任务": "修复"}
        await stores.jobs.finish(leg.lease, "f", [done()], [], state={"gone": None, "n": 2})
        assert await stores.sessions.state(session) == {"n": 2, "任务": "修复"}

    backend.run(scenario)


def test_a_lost_lease_writes_no_variables(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job, lease_s=0.0)
        await claimed(stores, job, owner="w2#1")
        assert (await stores.jobs.finish(leg.lease, "f", [done(leg=0)], [], state={"x": 1}))[0] == "fenced"
        assert await stores.sessions.state(job.partition(".")[0]) == {}

    backend.run(scenario)


def test_a_child_that_passes_its_deadline_is_ended_and_wakes_its_parent(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [child, other] = await waiting_parent(stores, 2, timeout_s=0.0)
        assert await end_overdue(stores.jobs) == 2
        assert await status_of(stores, job) == "queued"
        assert [(await stores.jobs.job(one)).reason for one in (child, other)] == ["TIMEOUT"] * 2

    backend.run(scenario)


def test_children_are_read_in_one_question(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        _, children = await waiting_parent(stores, 3)
        views = await stores.jobs.views([children[2], "nobody.1", children[0]])
        assert [view.id for view in views] == [children[2], children[0]]

    backend.run(scenario)


def test_children_of_a_waiting_session_do_not_let_its_next_job_in(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [child] = await waiting_parent(stores, 1)
        second = await stores.jobs.reserve(job.partition(".")[0], "r2")
        await stores.jobs.submit(submission(second))
        await end(stores, child)
        assert await status_of(stores, second) == "waiting"

    backend.run(scenario)
