"""The contract of JobStore, on fakeredis and on a real server."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import (
    AmbiguousId,
    InvalidRequest,
    JobCancelled,
    LostLease,
    SessionBusy,
    UnknownJob,
    UnreadableJournal,
    WentBack,
)
from ekiden.shared.handoff import first_context
from ekiden.shared.ids import first_job_for
from ekiden.shared.records import Ended, JobRequested, LegStarted, LegSuspended, Noticed, Retried
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox, queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claim, Claimed
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.scripts import source_of
from ekiden.shared.stores.submissions import NewSession
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, claimed, done, moved, reply, step_to, submission, submitted, sweepers


async def queue_of(stores: Stores, queue: str) -> list[dict[str, Any]]:
    """The messages in ``queue``, oldest first."""
    raw = await stores.client.lrange(queue, 0, -1)
    return [json.loads(text) for text in reversed(raw)]


def test_submit_stores_the_job_and_queues_one_message(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores, "帮我修复 🐛")
        view = await stores.jobs.job(job)
        assert (view.status, view.leg, view.queue, view.summary) == ("queued", 0, DISPATCH_QUEUE, "帮我修复 🐛")
        [message] = await queue_of(stores, DISPATCH_QUEUE)
        assert message["headers"]["id"] == f"{job}:0:1"
        assert message["headers"]["ekiden_ms"] == view.created_ms
        [entry] = await stores.jobs.journal(job)
        assert (entry.seq, entry.record.type) == (1, "request")

    backend.run(scenario)


def test_control_characters_in_a_prompt_do_not_break_the_message(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores, "a\x01b\x02c \\u0001 %1")
        [message] = await queue_of(stores, DISPATCH_QUEUE)
        assert message["properties"]["delivery_tag"].endswith(":0:1")

    backend.run(scenario)


def test_the_same_submission_again_changes_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        assert not await stores.jobs.submit(submission(job))
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 1

    backend.run(scenario)


def test_a_request_id_gets_the_same_job_number_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores, request_id="first")
        session = job.partition(".")[0]
        second = await stores.jobs.reserve(session, "second")
        assert second == f"{session}.2"
        assert await stores.jobs.reserve(session, "second") == second
        assert await stores.jobs.reserve(session, "first") == job

    backend.run(scenario)


def test_the_first_job_of_a_session_makes_it_in_one_step_however_often_it_is_submitted(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = first_job_for("r1")
        first = replace(submission(job), begins=NewSession("ann", "sticky"))
        assert [await stores.jobs.submit(first), await stores.jobs.submit(first)] == [True, False]
        assert await stores.jobs.reserve(None, "r1") == job, "whoever reserves it is told the same"
        view = await stores.sessions.session(job.partition(".")[0])
        assert (view.user, view.policy, view.jobs, view.title, view.active) == ("ann", "sticky", 1, "fix it", job)
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 1
        with pytest.raises(InvalidRequest, match="asked for something else"):
            await stores.jobs.submit(replace(submission(job, "another"), begins=NewSession()))

    backend.run(scenario)


def test_a_session_that_is_gone_is_made_anew_by_its_first_request_alone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = first_job_for("r1")
        session = job.partition(".")[0]
        first = replace(submission(job), begins=NewSession("ann", "sticky"))
        await stores.jobs.submit(first)
        assert await stores.jobs.reserve(session, "r2") == f"{session}.2"
        await stores.client.delete(keys.session(session), keys.job(job), keys.journal(job))  # not the requests' numbers
        with pytest.raises(UnknownJob):
            await stores.jobs.reserve(session, "r2")
        assert await stores.jobs.submit(first)
        view = await stores.sessions.session(session)
        assert (view.user, view.policy, view.jobs, view.active) == ("ann", "sticky", 1, job)
        assert view.created_ms > 0

    backend.run(scenario)


def test_a_session_that_is_another_requests_is_not_begun_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        session = job.partition(".")[0]
        await stores.client.delete(keys.request(session, "r1"))  # a day later
        with pytest.raises(WentBack):
            await stores.jobs.submit(replace(submission(job), begins=NewSession()))
        assert (await stores.sessions.session(session)).jobs == 1
        assert (await stores.jobs.reserve(None, "r1")).partition(".")[0] != session

    backend.run(scenario)


def test_reserving_in_a_session_that_does_not_exist_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        with pytest.raises(UnknownJob):
            await stores.jobs.reserve("a" * 16, "r")

    backend.run(scenario)


def test_a_claim_takes_the_lease_and_returns_the_stored_context(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        assert (leg.attempt, leg.lease.seq, leg.context.from_agent) == (1, 2, "user")
        [*_, (_, _, started, *_)] = await stores.jobs.journal(job)
        assert isinstance(started, LegStarted)
        assert (started.agent, started.attempt, started.worker) == ("router", 1, "w1")
        assert (await stores.jobs.job(job)).status == "running"

    backend.run(scenario)


def test_only_one_of_two_claims_succeeds(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job, "w1#1")
        assert await stores.jobs.claim(await claim_of(stores, job, "w2#1"), 30) == "busy"

    backend.run(scenario)


def test_a_claim_repeated_by_its_owner_gets_the_same_lease(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        first = await claimed(stores, job, "w1#1")
        again = await claimed(stores, job, "w1#1")
        assert (again.lease.fence, again.attempt) == (first.lease.fence, 1)

    backend.run(scenario)


def test_a_claim_of_another_leg_or_handoff_is_stale(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        old = await claim_of(stores, job)
        await moved(stores, job, "debugger")
        assert await stores.jobs.claim(old, 30) == "stale"

    backend.run(scenario)


def test_claims_of_ended_and_of_unknown_jobs_say_so(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        old = await claim_of(stores, job)
        leg = await claimed(stores, job)
        await stores.jobs.finish(leg.lease, "1", [done(leg=0)], [])
        assert await stores.jobs.claim(old, 30) == "finished"
        unknown = Claim("b" * 16 + ".1", 0, "h", "a", "w")
        assert await stores.jobs.claim(unknown, 30) == "gone"

    backend.run(scenario)


def test_a_claim_by_an_older_program_leaves_the_leg_to_others(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.hset(keys.job(job), "v", 99)
        assert await stores.jobs.claim(await claim_of(stores, job), 30) == "too_new"
        assert (await stores.jobs.job(job)).status == "queued"

    backend.run(scenario)


def test_after_the_lease_another_worker_takes_over_and_the_first_cannot_write(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        first = await claimed(stores, job, "w1#1", lease_s=0.0)
        second = await claimed(stores, job, "w2#1")
        assert second.attempt == 2
        with pytest.raises(LostLease):
            await stores.jobs.append(first.lease, "t1", [Noticed(text="x")], used_ms=0, is_progress=True)
        assert (await stores.jobs.transfer(first.lease, "c1", **step_to(first, "debugger")))[0] == "fenced"
        assert (await stores.jobs.finish(first.lease, "c2", [done(leg=0)], []))[0] == "fenced"
        assert [entry.record.type for entry in await stores.jobs.journal(job)] == ["request", *["leg_started"] * 2]

    backend.run(scenario)


def test_appends_are_numbered_and_a_repeated_one_is_recognised(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        for _ in range(2):
            got = await stores.jobs.append(leg.lease, "t1", [reply(leg=0), reply(leg=0)], used_ms=7, is_progress=True)
            assert got.seq == 4
        assert [entry.seq for entry in await stores.jobs.journal(job)] == [1, 2, 3, 4]
        assert (await stores.jobs.job(job)).attempts == 0

    backend.run(scenario)


def test_time_consumed_is_kept_for_the_next_attempt(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job, "w1#1", lease_s=1.0)
        await stores.jobs.append(leg.lease, "t", [reply(leg=0)], used_ms=1234, is_progress=True)
        await stores.client.zadd(keys.LEASES, {job: 1})
        assert (await claimed(stores, job, "w2#1")).used_ms == 1234

    backend.run(scenario)


def test_a_transfer_moves_the_job_and_queues_the_next_leg_in_one_step(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "debugger")
        assert (leg.lease.leg, leg.context.to_agent, leg.catalog) == (1, "debugger", "cat")
        [message] = await queue_of(stores, queue_for("debugger"))
        assert message["headers"]["id"] == f"{job}:1:2"  # the job's second push

    backend.run(scenario)


def test_a_repeated_commit_gets_the_stored_verdict(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        step = step_to(leg, "debugger")
        assert await stores.jobs.transfer(leg.lease, "c1", **step) == ("ok", "")
        assert await stores.jobs.transfer(leg.lease, "c1", **step) == ("ok", "")
        assert (await stores.jobs.transfer(leg.lease, "c2", **step))[0] == "fenced"
        assert len(await queue_of(stores, queue_for("debugger"))) == 1
        second = await claimed(stores, job)
        for _ in range(2):
            assert (await stores.jobs.finish(second.lease, "c3", [done()], ["{}"]))[0] == "ok"
        kinds = [entry.record.type for entry in await stores.jobs.journal(job)]
        assert kinds == ["request", "leg_started", "handoff", "leg_started", "ended"]

    backend.run(scenario)


def test_n_handoffs_are_allowed_and_one_more_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a0", "a1", "a2", "a3")
        verdict = await stores.jobs.transfer(leg.lease, "c", **step_to(leg, "a4", max_depth=3))
        assert verdict == ("refused", "MAX_DEPTH_EXCEEDED")
        assert await stores.jobs.transfer(leg.lease, "d", **step_to(leg, "a4", max_depth=4)) == ("ok", "")
        assert (await stores.jobs.job(job)).depth == 4

    backend.run(scenario)


def test_a_refused_transfer_leaves_the_leg_running(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a", "b")
        assert await stores.jobs.transfer(leg.lease, "c", **step_to(leg, "a")) == ("refused", "CIRCULAR_HANDOFF")
        assert (await stores.jobs.job(job)).status == "running"
        await stores.jobs.append(leg.lease, "t", [reply(leg=2)], used_ms=0, is_progress=True)

    backend.run(scenario)


def test_back_to_the_parent_is_allowed_where_the_agent_may_but_each_edge_twice_at_most(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for agent in ("a", "b", "a", "b", "a"):
            leg = await claimed(stores, job)
            step = step_to(leg, agent, may_return=True, max_depth=50)
            assert await stores.jobs.transfer(leg.lease, f"{leg.lease.leg}", **step) == ("ok", "")
        leg = await claimed(stores, job)
        step = step_to(leg, "b", may_return=True, max_depth=50)
        assert await stores.jobs.transfer(leg.lease, "x", **step) == ("refused", "CIRCULAR_HANDOFF")

    backend.run(scenario)


def test_only_the_agent_that_control_came_from_counts_as_parent(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a", "b", "c")
        verdict = await stores.jobs.transfer(leg.lease, "x", **step_to(leg, "a", may_return=True))
        assert verdict == ("refused", "CIRCULAR_HANDOFF")

    backend.run(scenario)


@pytest.mark.parametrize(("cycles", "verdict"), [("deny", "refused"), ("limit:1", "refused"), ("limit:2", "ok")])
def test_the_catalogs_cycle_policy_decides(backend: Backend, cycles: str, verdict: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a", "b")
        step = step_to(leg, "a", cycles=cycles, may_return=True)
        assert (await stores.jobs.transfer(leg.lease, "x", **step))[0] == verdict

    backend.run(scenario)


def test_finishing_clears_every_index_and_stores_result_and_messages(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "debugger")
        assert (await stores.jobs.finish(leg.lease, "c", [done("好的")], ['{"m": 1}', '{"m": 2}']))[0] == "ok"
        view = await stores.jobs.job(job)
        assert (view.status, view.result, view.reason, view.is_over) == ("done", "好的", "GOAL", True)
        for index in (keys.LEASES, keys.TIMERS, keys.queued(queue_for("debugger"))):
            assert await stores.client.zcard(index) == 0
        assert await stores.client.zcard(keys.messages(job.partition(".")[0])) == 2

    backend.run(scenario)


def test_a_suspended_leg_costs_no_attempt_and_is_woken_by_its_timer_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        record = LegSuspended(leg=1, cause="retry", delay_s=0.0)
        assert (await stores.jobs.suspend(leg.lease, "c", [record], 0.0))[0] == "ok"
        assert await stores.jobs.claim(await claim_of(stores, job), 30) == "suspended"
        assert await stores.jobs.overdue(60) == [job]
        assert await stores.jobs.requeue(job, 60, 5) == "ok"
        assert await stores.jobs.requeue(job, 60, 5) == "busy"
        assert (await claimed(stores, job)).attempt == 1

    backend.run(scenario)


def test_a_suspended_leg_is_not_woken_early(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        await stores.jobs.suspend(leg.lease, "c", [LegSuspended(leg=1, cause="retry", delay_s=60.0)], 60.0)
        assert await stores.jobs.overdue(60) == []
        assert await stores.jobs.requeue(job, 0, 5) == "busy"

    backend.run(scenario)


def test_an_expired_lease_is_found_and_queued_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job, lease_s=0.0)
        assert job in await stores.jobs.overdue(60)
        assert await stores.jobs.requeue(job, 60, 5) == "ok"
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 2
        assert (await claimed(stores, job, "w2#1")).attempt == 2

    backend.run(scenario)


def test_a_lease_that_holds_is_left_alone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        assert await stores.jobs.overdue(0) == []
        assert await stores.jobs.requeue(job, 0, 5) == "busy"

    backend.run(scenario)


def test_a_lost_message_is_pushed_again_but_one_that_still_waits_is_not(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        lost, waiting = await submitted(stores, request_id="1"), await submitted(stores, request_id="2")
        await asyncio.sleep(0.002)  # the clock of the queue counts milliseconds
        assert await stores.jobs.requeue(lost, 0, 5) == "waiting"
        await stores.client.rpop(DISPATCH_QUEUE)  # as if its worker died before the claim
        [newer] = await queue_of(stores, DISPATCH_QUEUE)
        assert newer["headers"]["id"].startswith(waiting)
        await stores.client.zadd(keys.queued(DISPATCH_QUEUE), {lost: newer["headers"]["ekiden_ms"] - 1})
        assert await stores.jobs.requeue(lost, 0, 5) == "ok"
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 2

    backend.run(scenario)


def test_of_each_queue_only_the_oldest_is_looked_at(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for n in range(20):
            await submitted(stores, request_id=str(n))
        assert len(await stores.jobs.overdue(0)) == 1

    backend.run(scenario)


def test_a_leg_whose_attempts_are_used_up_is_dead_until_somebody_buries_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for attempt in range(3):
            await claimed(stores, job, f"w{attempt}#1", lease_s=0.0)
        assert await stores.jobs.requeue(job, 0, 3) == "dead 0"
        end = Ended(leg=0, status="dead", reason="ERROR", error="poison")
        assert (await stores.jobs.finish(await sweepers(stores, job), "d", [end], []))[0] == "ok"
        assert (await stores.jobs.finish(await sweepers(stores, job), "e", [end], []))[0] == "finished"
        assert (await stores.jobs.job(job)).status == "dead"

    backend.run(scenario)


def test_the_sweeper_cannot_end_a_leg_that_somebody_holds(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        end = Ended(leg=0, status="dead", reason="ERROR", error="poison")
        assert (await stores.jobs.finish(await sweepers(stores, job), "d", [end], []))[0] == "stale"

    backend.run(scenario)


def test_renewing_extends_our_leases_and_names_those_to_stop(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        ours, lost, cancelled = [await submitted(stores, request_id=str(n)) for n in range(3)]
        leases = [(await claimed(stores, job, lease_s=0.2)).lease for job in (ours, lost, cancelled)]
        await stores.client.hset(keys.job(lost), "fence", 9)
        end = Ended(leg=0, status="cancelled", reason="ABORTED")
        assert await stores.jobs.stop(cancelled, "user", [end], []) == "flagged"
        assert await stores.jobs.renew(leases, 60.0) == {lost: "lost", cancelled: "cancelled"}
        assert await stores.jobs.renew([], 60.0) == {}
        assert await stores.jobs.claim(await claim_of(stores, ours, "w2"), 30) == "busy"

    backend.run(scenario)


def test_cancelling_a_waiting_job_ends_it_at_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        end = Ended(leg=0, status="cancelled", reason="ABORTED", error="cancelled by the user")
        assert await stores.jobs.stop(job, "user", [end], []) == "ok"
        assert await stores.jobs.stop(job, "user", [end], []) == "finished"
        assert (await stores.jobs.job(job)).status == "cancelled"
        assert await stores.jobs.claim(await claim_of(stores, job), 30) == "finished"

    backend.run(scenario)


def test_a_running_job_that_was_cancelled_can_only_end_as_cancelled(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        end = Ended(leg=1, status="cancelled", reason="ABORTED")
        assert await stores.jobs.stop(job, "user", [end], []) == "flagged"
        with pytest.raises(JobCancelled):
            await stores.jobs.append(leg.lease, "t", [reply()], used_ms=0, is_progress=True)
        assert (await stores.jobs.transfer(leg.lease, "c1", **step_to(leg, "b")))[0] == "cancelled"
        assert (await stores.jobs.finish(leg.lease, "c2", [done()], []))[0] == "cancelled"
        assert (await stores.jobs.suspend(leg.lease, "c3", [LegSuspended(cause="retry", delay_s=1)], 1))[
            0
        ] == "cancelled"
        assert (await stores.jobs.finish(leg.lease, "c4", [end], []))[0] == "ok"

    backend.run(scenario)


def test_jobs_are_listed_newest_first_and_found_by_a_unique_prefix(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first, second = await submitted(stores, request_id="1"), await submitted(stores, request_id="2")
        assert {view.id for view in await stores.jobs.jobs()} == {first, second}
        assert await stores.jobs.resolve(first[:-1]) == first
        assert await stores.jobs.resolve(first) == first
        third = await stores.jobs.reserve(first.partition(".")[0], "3")
        await stores.jobs.submit(submission(third))
        with pytest.raises(AmbiguousId):
            await stores.jobs.resolve(first.partition(".")[0])
        for unknown in ("nosuchjob", "", "*"):
            with pytest.raises(UnknownJob):
                await stores.jobs.resolve(unknown)

    backend.run(scenario)


def test_an_unknown_job_is_an_error_that_says_so(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        with pytest.raises(UnknownJob, match="ekiden jobs"):
            await stores.jobs.job("c" * 16 + ".1")
        assert await stores.jobs.journal("c" * 16 + ".1") == []

    backend.run(scenario)


def test_a_reader_waits_for_the_next_entry(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        reading = asyncio.create_task(stores.jobs.journal(job, 2, wait_s=4))
        await stores.jobs.append(leg.lease, "t", [Noticed(text="there")], used_ms=0, is_progress=False)
        [entry] = await reading
        assert entry.record == Noticed(text="there")
        for wait_s in (0.05, 0.0001):  # none of which is "for ever"
            assert await asyncio.wait_for(stores.jobs.journal(job, 3, wait_s=wait_s), 60) == []

    valkey.run(scenario)


def test_a_reader_who_saw_another_entry_than_there_is_now_is_told(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        first, second = await stores.jobs.journal(job)
        assert await stores.jobs.journal(job, 1, seen_ms=first.at_ms) == [second]
        assert await stores.jobs.journal(job, 2, seen_ms=second.at_ms) == []
        with pytest.raises(WentBack, match="no longer the entry 1"):
            await stores.jobs.journal(job, 1, seen_ms=first.at_ms - 1)
        with pytest.raises(WentBack, match="no longer the entry 3"):
            await stores.jobs.journal(job, 3, seen_ms=second.at_ms)

    backend.run(scenario)


def test_lua_and_the_key_module_mean_the_same_set_of_queues() -> None:
    assert f"'{keys.QUEUES}'" in source_of("submit")


CANCELLED = Ended(status="cancelled", reason="ABORTED", error="cancelled by the user")


async def another(stores: Stores, job: str, request_id: str, **options: Any) -> str:
    """Submit one more job to the session of ``job``."""
    following = await stores.jobs.reserve(job.partition(".")[0], request_id)
    await stores.jobs.submit(submission(following), **options)
    return following


async def finished(stores: Stores, job: str) -> None:
    """Claim and end the job's current leg."""
    leg = await claimed(stores, job)
    await stores.jobs.finish(leg.lease, f"{leg.lease.fence}.f", [done(leg=leg.lease.leg)], [])


def test_further_jobs_of_a_session_wait_in_order_and_each_end_starts_the_next(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first = await submitted(stores)
        second, third = await another(stores, first, "2"), await another(stores, first, "3")
        for job in (first, second, third):
            assert len(await queue_of(stores, DISPATCH_QUEUE)) == 1
            await stores.client.rpop(DISPATCH_QUEUE)
            await finished(stores, job)
        assert [view.status for view in await stores.jobs.jobs()] == ["done"] * 3
        assert (await stores.sessions.session(first.partition(".")[0])).active is None

    backend.run(scenario)


def test_a_waiting_job_cannot_be_claimed_and_is_not_swept(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        second = await another(stores, await submitted(stores), "2")
        assert await stores.jobs.claim(await claim_of(stores, second), 30) == "waiting"
        assert second not in await stores.jobs.overdue(0)
        assert await stores.jobs.requeue(second, 0, 5) == "waiting"

    backend.run(scenario)


def test_a_job_cancelled_in_the_inbox_is_passed_over(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first = await submitted(stores)
        second, third = await another(stores, first, "2"), await another(stores, first, "3")
        assert await stores.jobs.stop(second, "user", [CANCELLED], []) == "ok"
        await finished(stores, first)
        assert (await stores.jobs.job(third)).status == "queued"

    backend.run(scenario)


def test_cancelling_the_running_job_lets_the_interrupting_one_go_first(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first = await submitted(stores)
        patient = await another(stores, first, "2")
        urgent = await another(stores, first, "3", on_busy="interrupt")
        assert await stores.jobs.stop(first, "user", [CANCELLED], []) == "ok"
        statuses = {view.id: view.status for view in await stores.jobs.jobs()}
        assert statuses == {first: "cancelled", patient: "waiting", urgent: "queued"}

    backend.run(scenario)


def test_a_busy_session_refuses_a_job_that_would_not_wait_and_stores_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first = await submitted(stores)
        with pytest.raises(SessionBusy, match=first):
            await another(stores, first, "2", on_busy="reject")
        assert [view.id for view in await stores.jobs.jobs()] == [first]

    backend.run(scenario)


def test_a_repeated_request_is_the_same_job_also_when_it_begins_a_session(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await stores.jobs.reserve(None, "the same")
        assert await stores.jobs.reserve(None, "the same") == job

    backend.run(scenario)


def test_a_job_past_its_deadline_is_named_and_ends_as_failed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        assert await stores.jobs.past_deadline() == []
        await stores.client.zadd(keys.DEADLINES, {job: 1})
        assert await stores.jobs.past_deadline() == [job]
        late = Ended(status="failed", reason="TIMEOUT", error="late")
        assert await stores.jobs.stop(job, "deadline", [late], []) == "ok"
        assert await stores.jobs.past_deadline() == []
        assert (await stores.jobs.job(job)).reason == "TIMEOUT"

    backend.run(scenario)


def test_a_running_job_past_its_deadline_can_only_end_as_failed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        late = Ended(status="failed", reason="TIMEOUT", error="late")
        assert await stores.jobs.stop(job, "deadline", [late], []) == "flagged"
        with pytest.raises(JobCancelled) as stopped:
            await stores.jobs.append(leg.lease, "t", [reply()], used_ms=0, is_progress=True)
        assert stopped.value.flag == "deadline"
        assert await stores.jobs.finish(leg.lease, "a", [done(leg=0)], []) == ("cancelled", "deadline")
        assert await stores.jobs.finish(leg.lease, "b", [CANCELLED], []) == ("cancelled", "deadline")
        assert (await stores.jobs.finish(leg.lease, "c", [late], []))[0] == "ok"

    backend.run(scenario)


def test_a_leg_without_progress_is_left_to_a_process_of_its_own(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for attempt in range(2):
            await claimed(stores, job, f"w{attempt}#1", lease_s=0.0)
        claim = await claim_of(stores, job, "w3#1")
        assert await stores.jobs.claim(claim, 30, quarantine_from=2) == "quarantined"
        leg = await stores.jobs.claim(claim, 30)
        assert not isinstance(leg, str)
        assert leg.attempt == 3

    backend.run(scenario)


def test_a_leg_that_was_lost_before_it_ran_costs_no_attempt_and_is_queued_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        assert await stores.jobs.give_back(leg.lease) == "ok"
        assert await stores.jobs.give_back(leg.lease) == "stale", "the same again takes nothing more"
        view = await stores.jobs.job(job)
        assert (view.status, view.attempts) == ("queued", 0)
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 2
        assert await stores.jobs.overdue(60) == [], "nobody needs to wake it"
        assert (await claimed(stores, job, "w2#1")).attempt == 2, "its number is used"
        assert (await stores.jobs.job(job)).attempts == 1

    backend.run(scenario)


def test_a_leg_that_is_given_back_again_and_again_is_no_poison(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for number in range(5):
            claim = await claim_of(stores, job, f"w{number}#1")
            got = await stores.jobs.claim(claim, 0.0, quarantine_from=2)
            assert isinstance(got, Claimed), got
            assert await stores.jobs.give_back(got.lease) == "ok"
        await claimed(stores, job, "w9#1", lease_s=0.0)
        assert await stores.jobs.requeue(job, 0, 2) == "ok"
        await claimed(stores, job, "w10#1", lease_s=0.0)
        assert await stores.jobs.requeue(job, 0, 2) == "dead 0", "those that ran count"

    backend.run(scenario)


def test_what_others_did_with_a_lost_leg_is_left_alone_and_their_attempts_count(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        first = await claimed(stores, job, lease_s=0.0)
        assert await stores.jobs.requeue(job, 60, 5) == "ok"
        second = await claimed(stores, job, "w2#1", lease_s=0.0)
        assert await stores.jobs.give_back(first.lease) == "refunded"
        assert (await stores.jobs.job(job)).attempts == 1
        assert await stores.jobs.claim(await claim_of(stores, job, "w2#1"), 30) != "busy", "it is the second's still"
        assert await stores.jobs.requeue(job, 60, 5) == "busy"
        assert await stores.jobs.renew([second.lease], 0.0) == {}
        assert await stores.jobs.requeue(job, 60, 5) == "ok"
        assert await stores.jobs.give_back(second.lease) == "refunded"
        third = await claimed(stores, job, "w3#1")
        assert third.attempt == 3
        assert (await stores.jobs.job(job)).attempts == 1
        assert len(await queue_of(stores, DISPATCH_QUEUE)) == 3
        await stores.jobs.transfer(third.lease, "c", **step_to(third, "a"))
        assert await stores.jobs.give_back(third.lease) == "stale"
        last = await claimed(stores, job)
        await stores.jobs.finish(last.lease, "d", [done()], [])
        assert await stores.jobs.give_back(last.lease) == "stale"

    backend.run(scenario)


def test_a_failed_job_goes_on_where_it_was_when_it_is_retried(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        failed = Ended(leg=1, status="failed", reason="ERROR", error="x")
        await stores.jobs.finish(leg.lease, "f", [failed], [])
        box = outbox(job, 1, queue_for("a"), leg.context)
        await stores.jobs.retry(job, box, Retried(leg=1), 60.0)
        again = await claimed(stores, job)
        assert (again.lease.leg, again.attempt, again.context) == (1, 1, leg.context)
        with pytest.raises(InvalidRequest, match="running"):
            await stores.jobs.retry(job, box, Retried(leg=1), 60.0)

    backend.run(scenario)


def test_a_retried_job_waits_for_its_sessions_turn(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        await stores.jobs.finish(leg.lease, "f", [Ended(status="failed", reason="ERROR", error="x")], [])
        running = await another(stores, job, "2")
        box = outbox(job, 0, DISPATCH_QUEUE, first_context(job).with_id(leg.context.metadata.handoff_id))
        await stores.jobs.retry(job, box, Retried(), 60.0)
        assert (await stores.jobs.job(job)).status == "waiting"
        await finished(stores, running)
        assert (await claimed(stores, job)).attempt == 1

    backend.run(scenario)


def test_values_over_64_kb_stand_beside_the_journal_and_are_read_as_if_in_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        prompt = "字" * 400_000
        job = await submitted(stores, prompt)
        [entry] = await stores.jobs.journal(job)
        assert isinstance(entry.record, JobRequested)
        assert entry.record.prompt == prompt
        [(_, fields)] = await as_any(stores.client.xrange(keys.journal(job)))
        assert len(fields["r"]) < 100
        [message] = await queue_of(stores, DISPATCH_QUEUE)
        assert len(json.dumps(message)) < 4096
        assert len((await stores.jobs.job(job)).summary) <= 120

    backend.run(scenario)


def test_everything_that_a_long_job_needs_lives_as_long_as_its_deadline(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await stores.jobs.reserve(None, "r")
        year = 365 * 86_400
        long = submission(job)
        await stores.jobs.submit(long.__class__(job, long.request, long.context, long.outbox, year))
        await stores.catalogs.publish("cat", {"a": "d"}, {"d": "{}"}, replaces=None)
        leg = await moved(stores, job, "a")
        await stores.jobs.append(leg.lease, "t", [reply("x" * 70_000)], used_ms=0, is_progress=True)
        await stores.jobs.suspend(leg.lease, "s", [LegSuspended(leg=1, cause="retry", delay_s=year)], year)
        session = job.partition(".")[0]
        needed = [keys.job(job), keys.journal(job), keys.blobs(job), keys.session(session), keys.catalog("cat")]
        assert all([await stores.client.ttl(key) > 2 * year for key in needed])

    backend.run(scenario)


def test_jobs_whose_keys_have_expired_leave_the_lists(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        gone, kept = await submitted(stores, request_id="1"), await submitted(stores, request_id="2")
        await stores.client.delete(keys.job(gone))
        await stores.client.zadd(keys.JOBS, {gone: 1, kept: 1})
        assert await stores.jobs.tidy() == 1
        assert [view.id for view in await stores.jobs.jobs()] == [kept]

    backend.run(scenario)


def test_who_listens_hears_of_a_running_job_that_is_stopped(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)

        async def first_heard() -> str:
            return await anext(stores.jobs.stopped())

        hearing = asyncio.create_task(first_heard())
        while not (await stores.client.pubsub_numsub(keys.STOPPED))[0][1]:  # noqa: ASYNC110 - the server has no event
            await asyncio.sleep(0.01)
        await stores.jobs.stop(job, "user", [CANCELLED], [])
        assert await asyncio.wait_for(hearing, 60) == job

    valkey.run(scenario)


def test_a_newer_program_that_took_the_job_keeps_older_ones_away(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job, lease_s=0.0)
        await stores.client.hset(keys.job(job), "v", 2)
        claim = await claim_of(stores, job, "old#1")
        assert await stores.jobs.claim(claim, 30) == "too_new"
        assert await stores.jobs.requeue(job, 0, 5) == "ok"

    backend.run(scenario)


def test_a_retry_or_a_stop_that_is_sent_again_is_answered_the_same(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "the-same-transmission")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        await stores.jobs.finish(leg.lease, "f", [Ended(status="failed", reason="ERROR", error="x")], [])
        box = outbox(job, 0, DISPATCH_QUEUE, leg.context)
        for _ in range(2):
            await stores.jobs.retry(job, box, Retried(), 60.0)
        end = Ended(leg=0, status="cancelled", reason="ABORTED")
        for _ in range(2):
            assert await stores.jobs.stop(job, "user", [end], []) == "ok"
        kinds = [entry.record.type for entry in await stores.jobs.journal(job)]
        assert kinds == ["request", "leg_started", "ended", "retried", "ended"]

    backend.run(scenario)


@pytest.mark.parametrize(
    "entry",
    [
        {"t": "1", "r": '{"type": "telepathy"}'},
        {"t": "yesterday", "r": '{"type": "ended", "status": "done", "reason": "GOAL"}'},
        {"t": "253402300800000", "r": '{"type": "ended", "status": "done", "reason": "GOAL"}'},
        {"t": "1", "r": "not JSON"},
        {"t": "1"},
        {"x": "1"},
    ],
)
def test_an_entry_that_is_none_of_ours_is_named(backend: Backend, entry: dict[Any, Any]) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.xadd(keys.journal(job), entry, id="2-0")
        with pytest.raises(UnreadableJournal, match=f"entry 2 of the journal of job '{job}' cannot be read"):
            await stores.jobs.journal(job)

    backend.run(scenario)


def test_a_claim_brings_the_journal_along_also_when_it_is_repeated(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg, again = await claimed(stores, job), await claimed(stores, job)
        for one in (leg, again):
            assert [entry.record.type for entry in await stores.jobs.page(one)] == ["request", "leg_started"]
            assert await stores.jobs.page(one) == [], "once: it is not kept as it was stored"
        moved_on = await stores.jobs.transfer(leg.lease, "t", **step_to(leg, "a"))
        assert moved_on[0] == "ok"
        third = await claimed(stores, job)
        assert await stores.jobs.page(third) == await stores.jobs.journal(job)

    backend.run(scenario)


@pytest.mark.parametrize(("text", "brought"), [("x", 500), ("x" * 20_000, 14)])
def test_of_a_long_journal_a_page_comes_with_the_claim_and_the_rest_is_read(
    backend: Backend, text: str, brought: int
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        for n in range(6):
            await stores.jobs.append(leg.lease, f"t{n}", [reply(text)] * 100, used_ms=1, is_progress=True)
        await stores.jobs.suspend(leg.lease, "s", [LegSuspended(leg=1, cause="retry", delay_s=0.0)], 0.0)
        await stores.jobs.requeue(job, 60, 5)
        again = await claimed(stores, job)
        page = await stores.jobs.page(again)
        assert abs(len(page) - brought) <= 4
        entries = await journal_of(stores.jobs, job, again.lease.seq, begun=page)
        assert [entry.seq for entry in entries] == list(range(1, again.lease.seq + 1))

    backend.run(scenario)
