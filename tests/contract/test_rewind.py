"""A server that goes back in time: an append-only file that lost its tail, a replica that lagged and was promoted."""

from dataclasses import replace

import pytest

from ekiden.dispatcher.requests import SubmitRequest
from ekiden.dispatcher.submitting import create_job
from ekiden.shared.errors import LostLease, WentBack
from ekiden.shared.records import Ended, LegStarted, LegSuspended, ModelReplied, Noticed, Record, Retried
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed, OnBusy
from ekiden.shared.stores.jobs import RedisJobStore
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.submissions import Submission
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, moved, reply, step_to, submission, submitted, sweepers
from tests.contract.rewinding import remembered, rewind


async def texts_of(stores: Stores, job: str) -> list[str]:
    """Who wrote what into the journal."""
    said: list[str] = []
    for seq, entry in enumerate(await stores.jobs.journal(job), start=1):
        assert entry.seq == seq, "no hole"
        match entry.record:
            case LegStarted(worker=worker):
                said.append(f"{worker} starts")
            case Noticed(text=text):
                said.append(text)
            case _:
                pass
    return said


async def note(stores: Stores, leg: Claimed, token: str, text: str) -> None:
    record = Noticed(leg=leg.lease.leg, text=text)
    await stores.jobs.append(leg.lease, token, [record], used_ms=0, is_progress=True)


def test_two_workers_whose_claims_were_counted_alike_never_look_alike(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        before = await remembered(stores)
        first = await claimed(stores, job, "A#1")
        await note(stores, first, "1", "A: 1")
        await rewind(stores, before)
        second = await claimed(stores, job, "B#1")
        assert first.lease.fence != second.lease.fence
        assert await stores.jobs.renew([first.lease], 30.0) == {job: "lost"}
        assert await stores.jobs.renew([second.lease], 30.0) == {}
        await note(stores, second, "1", "B: 1")
        for token in ("1", "2"):
            with pytest.raises(LostLease):
                await note(stores, first, token, "A: again")
        assert (await stores.jobs.transfer(first.lease, "c", **step_to(first, "x")))[0] == "fenced"
        assert (await stores.jobs.finish(first.lease, "c", [done(leg=0)], []))[0] == "fenced"
        assert await texts_of(stores, job) == ["B starts", "B: 1"]

    backend.run(scenario)


def test_a_writer_that_remembers_more_than_the_server_stops_and_the_leg_goes_on_from_there(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job, "A#1")
        await note(stores, leg, "1", "A: 1")
        before = await remembered(stores)
        await note(stores, leg, "2", "A: forgotten")
        await rewind(stores, before)
        assert await stores.jobs.renew([leg.lease], 30.0) == {job: "lost"}
        with pytest.raises(LostLease, match="moved"):
            await note(stores, leg, "3", "A: 3")
        with pytest.raises(LostLease, match="moved"):
            await note(stores, leg, "2", "A: forgotten")
        pause: list[Record] = [LegSuspended(leg=0, cause="retry", delay_s=0)]
        assert (await stores.jobs.suspend(leg.lease, "c", pause, 0.0))[0] == "moved"
        assert (await stores.jobs.transfer(leg.lease, "c", **step_to(leg, "x")))[0] == "moved"
        assert (await stores.jobs.finish(leg.lease, "c", [done(leg=0)], []))[0] == "moved"
        await as_any(stores.client.zadd(keys.LEASES, {job: 1}))
        second = await claimed(stores, job, "B#1")
        await note(stores, second, "3", "B: 2")
        assert await texts_of(stores, job) == ["A starts", "A: 1", "B starts", "B: 2"]

    backend.run(scenario)


def test_an_append_on_its_way_while_leases_are_renewed_does_not_lose_the_leg(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        believed = leg.lease.seq
        await note(stores, leg, "1", "written, and its reply not read yet")
        leg.lease.seq = believed
        assert await stores.jobs.renew([leg.lease], 30.0) == {}
        await note(stores, leg, "1", "written, and its reply not read yet")
        await note(stores, leg, "2", "next")
        assert (await texts_of(stores, job))[1:] == ["written, and its reply not read yet", "next"]

    backend.run(scenario)


def test_a_sweeper_buries_nothing_that_went_on_since_it_looked(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job, "A#1", lease_s=0.0)
        lease = await sweepers(stores, job)
        await claimed(stores, job, "B#1", lease_s=0.0)
        end = Ended(leg=0, status="dead", reason="ERROR", error="x")
        assert (await stores.jobs.finish(lease, "d", [end], []))[0] == "moved"
        assert (await stores.jobs.finish(await sweepers(stores, job), "d", [end], []))[0] == "ok"

    backend.run(scenario)


def test_a_job_that_ends_twice_says_its_request_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        failed = Ended(leg=0, status="failed", reason="ERROR", error="x")
        assert (await stores.jobs.finish(leg.lease, "1", [failed], ['"request"']))[0] == "ok"
        box = outbox(job, 0, DISPATCH_QUEUE, leg.context)
        await stores.jobs.retry(job, box, Retried(), 60.0)
        again = await claimed(stores, job, "w2#1")
        assert (await stores.jobs.finish(again.lease, "2", [done(leg=0)], ['"request"', '"answer"']))[0] == "ok"
        said = await as_any(stores.client.zrange(keys.messages(job.partition(".")[0]), 0, -1))
        assert [text.split("\n")[-1] for text in said] == ['"request"', '"answer"']

    backend.run(scenario)


def test_a_retried_job_lives_as_long_as_its_new_deadline(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.catalogs.publish("cat", {"a": "d"}, {"d": "{}"}, replaces=None)
        leg = await moved(stores, job, "a")
        await stores.jobs.append(leg.lease, "1", [reply("x" * 70_000)], used_ms=0, is_progress=True)
        await stores.jobs.finish(leg.lease, "f", [Ended(leg=1, status="failed", reason="ERROR", error="x")], [])
        year = 365 * 86_400.0
        await stores.jobs.retry(job, outbox(job, 1, "ekiden.agent.a", leg.context), Retried(leg=1), year)
        again = await claimed(stores, job, "w2#1")
        assert isinstance((await stores.jobs.journal(job, after=4, limit=1))[0].record, ModelReplied)
        session = job.partition(".")[0]
        for key in (keys.job(job), keys.journal(job), keys.blobs(job), keys.session(session), keys.catalog("cat")):
            assert await stores.client.ttl(key) > year, key
        assert again.attempt == 1

    backend.run(scenario)


def test_a_claim_that_the_server_has_forgotten_gives_no_attempt_back(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job, "killed#1", lease_s=0.0)
        before = await remembered(stores)
        second = await claimed(stores, job, "A#1")
        await rewind(stores, before)
        assert await stores.jobs.give_back(second.lease) == "stale"
        assert (await stores.jobs.job(job)).attempts == 1

    backend.run(scenario)


def test_a_number_that_was_forgotten_and_given_again_is_not_taken_for_ones_own(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = (await submitted(stores)).partition(".")[0]
        before = await remembered(stores)
        job = await stores.jobs.reserve(session, "mine")
        await rewind(stores, before)
        assert await stores.jobs.reserve(session, "another's") == job
        assert await stores.jobs.submit(submission(job, "another's", "another's"))
        with pytest.raises(WentBack, match="is another request's now"):
            await stores.jobs.submit(submission(job, "mine", "mine"))
        assert not await stores.jobs.submit(submission(job, "another's", "another's")), "it is there already"

    backend.run(scenario)


def wanted(said: str, session: str) -> SubmitRequest:
    return SubmitRequest(prompt=said, request_id=said, session=session, deadline_s=60.0)


class _GoesBack(RedisJobStore):
    """A store that forgets a number before the job comes, and gives it to somebody else."""

    async def submit(self, submission: Submission, on_busy: OnBusy = "queue") -> bool:
        if submission.job.endswith(".2"):
            session = submission.job.partition(".")[0]
            await self._redis.delete(keys.request(session, "mine"))
            await as_any(self._redis.hset(keys.session(session), "jobs", 1))
            await create_job(Stores.on(self._redis), wanted("another's", session))
        return await super().submit(submission, on_busy)


def test_a_request_whose_number_was_given_again_becomes_a_job_of_another_number(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = (await submitted(stores)).partition(".")[0]
        mine = wanted("mine", session)
        job, is_new, _ = await create_job(replace(stores, jobs=_GoesBack(stores.client)), mine)
        assert (job, is_new) == (f"{session}.3", True)
        assert [job.summary for job in await stores.jobs.jobs()] == ["mine", "another's", "fix it"]
        assert (await create_job(stores, mine)).job == job

    backend.run(scenario)
