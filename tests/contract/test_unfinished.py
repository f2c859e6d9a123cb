"""What has not ended is found in the jobs themselves, whatever lists and queues say of it."""

from ekiden.shared.records import LegSuspended
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, moved, submission, submitted
from tests.contract.test_children import end, waiting_parent

KEPT = (":job:", ":journal:", ":session", ":blobs:")


async def one_of_each(stores: Stores) -> dict[str, str]:
    """A job in every state, by that state; the children's parent is suspended, and one of two children runs."""
    jobs = {
        state: await submitted(stores, state, request_id=state) for state in ("queued", "running", "retrying", "ended")
    }
    await claimed(stores, jobs["running"])
    leg = await moved(stores, jobs["retrying"], "debugger")
    await stores.jobs.suspend(leg.lease, "s", [LegSuspended(leg=1, cause="retry", delay_s=60)], 60)
    leg = await claimed(stores, jobs["ended"])
    await stores.jobs.finish(leg.lease, "f", [done(leg=0)], [])
    session = jobs["running"].partition(".")[0]
    jobs["waiting"] = await stores.jobs.reserve(session, "waiting")
    await stores.jobs.submit(submission(jobs["waiting"], "waiting"))
    jobs["parent"], (jobs["first"], jobs["second"]) = await waiting_parent(stores, 2)
    await claimed(stores, jobs["second"])
    return jobs


async def forget_all_lists(stores: Stores) -> None:
    """Delete whatever a question about jobs might look at, but the jobs."""
    async for key in stores.client.scan_iter():
        if not any(part in key for part in KEPT):
            await as_any(stores.client.delete(key))


def test_every_job_that_has_not_ended_is_found_the_oldest_first(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        jobs = await one_of_each(stores)
        found = await stores.jobs.unfinished()
        assert {job.id: job.status for job in found} == {
            jobs["queued"]: "queued",
            jobs["running"]: "running",
            jobs["retrying"]: "suspended",
            jobs["waiting"]: "waiting",
            jobs["parent"]: "suspended",
            jobs["first"]: "queued",
            jobs["second"]: "running",
        }
        ages = [(await stores.jobs.job(job.id)).created_ms for job in found]
        assert ages == sorted(ages)

    backend.run(scenario)


def test_no_list_is_needed_to_find_them(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await one_of_each(stores)
        before = await stores.jobs.unfinished()
        await forget_all_lists(stores)
        assert await stores.jobs.jobs() == []
        assert await stores.jobs.unfinished() == before

    backend.run(scenario)


def test_who_was_stopped_is_marked_and_whose_record_is_incomplete_is_found_all_the_same(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await claimed(stores, job)
        await stores.jobs.stop(job, "user", [done(leg=0)], [])
        half = "a" * 16 + ".1"
        await as_any(stores.client.hset(keys.job(half), "status", "strange"))
        await as_any(stores.client.expire(keys.job(half), 60))
        assert [(one.id, one.is_stopped) for one in await stores.jobs.unfinished()] == [(half, False), (job, True)]
        await as_any(stores.client.hset(keys.job(half), "status", "dead"))
        assert [one.id for one in await stores.jobs.unfinished()] == [job]

    backend.run(scenario)


def test_what_no_claim_would_find_is_no_job(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for key in ("ekiden:{a}:job:b.1", "ekiden:{b.1}:job:b.1", "other:{b}:job:b.1"):
            await as_any(stores.client.hset(key, "status", "queued"))
            await as_any(stores.client.expire(key, 60))
        await as_any(stores.client.set("ekiden:{b}:job:b.1", "text", ex=60))
        assert await stores.jobs.unfinished() == []

    backend.run(scenario)


def test_a_thousand_ended_jobs_hide_none(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        pipeline = stores.client.pipeline()
        for number in range(2_000):
            key = keys.job(f"{'b' * 16}.{number + 1}")
            pipeline.hset(key, "status", "done")
            pipeline.expire(key, 60)
        await pipeline.execute()
        assert [one.id for one in await stores.jobs.unfinished()] == [job]

    valkey.run(scenario)


def test_a_parent_that_ended_while_its_child_did_not_leaves_the_child_to_be_asked_about(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        parent, (first, second) = await waiting_parent(stores, 2)
        await end(stores, first)
        assert [job.id for job in await stores.jobs.unfinished()] == [parent, second]

    backend.run(scenario)
