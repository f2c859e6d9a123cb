"""Stopping a job from outside: whatever it races with, the job ends once and its session goes on."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from ekiden.shared.errors import StopFlag
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Ended, ModelReplied, Record, ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, claimed, moved, submission, submitted
from tests.unit.relay.legs import expire, runner_of, take

ROUNDS = 200
INDEXES = (
    *(keys.DEADLINES, keys.LEASES, keys.TIMERS, keys.queued(DISPATCH_QUEUE), keys.queued(queue_for("debugger"))),
    *map(keys.suspended, keys.CAUSES),
)


def calling(call_id: str, leg: int) -> ModelReplied:
    """A reply that calls a tool."""
    call = ToolCall(id=call_id, name="look", args={})
    return ModelReplied(leg=leg, turn=1, message=Message(role="model", parts=(call,)))


def answering(call_id: str, leg: int) -> ToolFinished:
    """That call's result."""
    return ToolFinished(leg=leg, result=ToolResult(call_id=call_id, name="look", content="seen"))


async def work(leg: Leg) -> Outcome:
    """Call a tool; then the router hands over, and the agent answers."""
    await leg.record(calling(f"c{leg.number}", leg.number), is_progress=True)
    await leg.record(answering(f"c{leg.number}", leg.number), is_progress=True)
    if leg.number == 0:
        return Transfer(leg.context.advance("debugger", "go", is_route=True), catalog="cat")
    return Answer("42")


async def run_legs(stores: Stores, job: str) -> None:
    """Serve the job's messages, as workers do, as long as there are any."""
    runner = runner_of(stores, *[work] * 4)
    for queue in (DISPATCH_QUEUE, queue_for("debugger")):
        if (await stores.jobs.job(job)).status == "queued" and await stores.client.llen(queue):
            await runner.run(await take(stores, queue), queue)


def unanswered_or_doubled(records: Sequence[Record]) -> list[str]:
    """Calls that have not exactly one answer."""
    calls = [call.id for record in records if isinstance(record, ModelReplied) for call in record.message.calls]
    answers = Counter(record.result.call_id for record in records if isinstance(record, ToolFinished))
    return [call for call in calls if answers[call] != 1]


async def indexed(stores: Stores, job: str) -> list[str]:
    """The indexes that a job stands in."""
    async with stores.client.pipeline(transaction=False) as asked:
        for index in INDEXES:
            asked.zscore(index, job)
        scores = await asked.execute()
    return [index for index, score in zip(INDEXES, scores, strict=True) if score is not None]


def test_a_stop_that_races_with_everything_ends_the_job_once_and_the_session_goes_on(valkey: Backend) -> None:
    async def stop_later(stores: Stores, job: str, delay_s: float, verdicts: Counter[str]) -> None:
        await asyncio.sleep(delay_s)
        verdicts[await stop_job(stores.jobs, job, "user")] += 1

    async def scenario(stores: Stores) -> None:
        chance, verdicts, ends = random.Random(4), Counter[str](), Counter[str]()
        for number in range(ROUNDS):
            job = await submitted(stores, request_id=str(number))
            session = job.partition(".")[0]
            behind = await stores.jobs.reserve(session, f"behind {number}")
            await stores.jobs.submit(submission(behind))
            delay_s = chance.uniform(0.0, 0.012) if number % 5 else 0.0
            racing = [run_legs(stores, job), stop_later(stores, job, delay_s, verdicts)]
            await asyncio.gather(*(racing if number % 5 else racing[::-1]))  # now and then before it is claimed
            view = await stores.jobs.job(job)
            ends[view.status] += 1
            assert view.status in ("done", "cancelled"), (number, view)
            records = [entry.record for entry in await stores.jobs.journal(job)]
            assert [type(record) for record in records].count(Ended) == 1
            assert isinstance(records[-1], Ended)
            assert unanswered_or_doubled(records) == []
            assert (await stores.jobs.job(behind)).status == "queued"
            assert (await stores.sessions.session(session)).active == behind
            assert await indexed(stores, job) == []
            assert await stop_job(stores.jobs, behind, "user") == "ok"
            assert (await stores.sessions.session(session)).active is None
            await stores.client.delete(DISPATCH_QUEUE, queue_for("debugger"))
        assert min(verdicts["ok"], verdicts["flagged"], verdicts["finished"]) > 0, verdicts
        assert min(ends.values()) > 0, ends

    valkey.run(scenario)


def test_a_job_that_went_on_while_its_journal_was_read_is_looked_at_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "debugger")
        await stores.jobs.append(leg.lease, "t1", [calling("c", 1)], used_ms=0, is_progress=True)
        await expire(stores, job)
        journal = stores.jobs.journal
        read: list[object] = []

        async def slow(*args: object, **options: object) -> object:
            entries = await journal(*args, **options)  # type: ignore[arg-type]
            if not read:  # the worker writes once more before its lease is taken from it
                await stores.jobs.append(leg.lease, "t2", [answering("c", 1)], used_ms=0, is_progress=True)
            read.append(entries)
            return entries

        stores.jobs.journal = slow  # type: ignore[method-assign,assignment]
        assert await stop_job(stores.jobs, job, "user") == "ok"
        stores.jobs.journal = journal  # type: ignore[method-assign]
        records = [entry.record for entry in await stores.jobs.journal(job)]
        assert unanswered_or_doubled(records) == []

    backend.run(scenario)


def test_a_flagged_job_whose_worker_is_gone_is_ended_by_the_sweep(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        ends: dict[StopFlag, str] = {"user": "cancelled", "deadline": "failed"}
        for flag, status in ends.items():
            job = await submitted(stores, request_id=flag)
            await claimed(stores, job)
            assert await stop_job(stores.jobs, job, flag) == "flagged"
            await expire(stores, job)
            await sweep(stores.jobs, grace_s=2, max_attempts=5)
            assert (await stores.jobs.job(job)).status == status

    backend.run(scenario)


def test_a_job_cancelled_in_the_inbox_leaves_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        session = job.partition(".")[0]
        behind = await stores.jobs.reserve(session, "behind")
        await stores.jobs.submit(submission(behind))
        assert await stop_job(stores.jobs, behind, "user") == "ok"
        assert await stores.client.llen(keys.inbox(session)) == 0

    backend.run(scenario)


def test_a_leg_that_must_run_alone_waits_on_a_timer_when_there_is_no_room(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        for owner in ("a#1", "b#1"):
            await claimed(stores, job, owner)
            await expire(stores, job)
        claim = await claim_of(stores, job, "c#1")
        assert await stores.jobs.claim(claim, 5.0, quarantine_from=2, defer_s=60) == "deferred"
        assert (await stores.jobs.job(job)).status == "suspended"
        assert (await stores.pools.suspended())["quarantine"] == 1
        assert await stores.jobs.requeue(job, 0, 5) == "busy"
        await stores.client.zadd(keys.TIMERS, {job: 1})
        assert await stores.jobs.requeue(job, 0, 5) == "ok"
        assert not any((await stores.pools.suspended()).values())
        assert await stores.jobs.claim(claim, 5.0, quarantine_from=2) == "quarantined"
        assert isinstance(await stores.jobs.claim(claim, 5.0), Claimed)

    backend.run(scenario)


def test_a_job_whose_journal_a_newer_program_wrote_ends_by_its_deadline_all_the_same(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.xadd(keys.journal(job), {"t": "1", "r": '{"type": "telepathy"}'}, id="2-0")
        await stores.client.hset(keys.job(job), "seq", 2)
        assert await stop_job(stores.jobs, job, "deadline") == "ok"
        assert (await stores.jobs.job(job)).reason == "TIMEOUT"

    backend.run(scenario)


def test_one_jobs_trouble_keeps_no_other_from_being_swept(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        bad, good = [await submitted(stores, request_id=str(n)) for n in range(2)]
        for job in (bad, good):
            await claimed(stores, job)
            await expire(stores, job)
        requeue = stores.jobs.requeue

        async def faulty(job: str, *args: float, **at: int | None) -> str:
            if job == bad:
                raise ValueError(job)
            return await requeue(job, *args, **at)  # type: ignore[arg-type]

        stores.jobs.requeue = faulty  # type: ignore[method-assign,assignment]
        assert await sweep(stores.jobs, grace_s=2, max_attempts=5) == 1
        assert (await stores.jobs.job(good)).status == "queued"

    backend.run(scenario)
