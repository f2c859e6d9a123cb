"""What a job needs outlives it, without being looked at in every step; what an ended one holds no more is gone."""

from ekiden.shared.records import LegSuspended
from ekiden.shared.stores import keys
from ekiden.shared.stores.job_reader import LARGEST_INLINE
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, moved, reply, step_to, submitted

SOON_S = 1_000


async def soon(stores: Stores, *names: str) -> None:
    """Let keys end soon."""
    for name in names:
        await stores.client.expire(name, SOON_S)


def test_a_claim_gives_keys_their_time_again_once_an_hour(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await soon(stores, keys.journal(job), keys.job(job))
        leg = await claimed(stores, job)
        assert await stores.client.ttl(keys.journal(job)) <= SOON_S, "that is not looked at in every step"
        await stores.jobs.transfer(leg.lease, "t", **step_to(leg, "a"))
        kept_ms = int(await as_any(stores.client.hget(keys.job(job), "kept_ms")))
        await as_any(stores.client.hset(keys.job(job), "kept_ms", kept_ms - 2 * keys.KEEP_EVERY_S * 1000))
        await claimed(stores, job)
        for name in (keys.journal(job), keys.job(job)):
            assert await stores.client.ttl(name) > keys.SESSION_TTL_S

    backend.run(scenario)


def test_a_job_of_the_version_before_gets_its_time_at_the_next_claim(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await as_any(stores.client.hdel(keys.job(job), "kept_ms"))
        await soon(stores, keys.journal(job))
        await claimed(stores, job)
        assert await stores.client.ttl(keys.journal(job)) > keys.SESSION_TTL_S

    backend.run(scenario)


def test_a_large_value_that_comes_later_is_kept_as_long_as_its_job(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        await stores.jobs.append(leg.lease, "t", [reply("x" * LARGEST_INLINE)], used_ms=1, is_progress=True)
        await soon(stores, keys.blobs(job))
        await stores.jobs.transfer(leg.lease, "m", **step_to(leg, "b"))
        await claimed(stores, job)
        assert await stores.client.ttl(keys.blobs(job)) > keys.SESSION_TTL_S

    backend.run(scenario)


def test_variables_that_come_later_are_kept_as_long_as_their_job(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        await stores.jobs.transfer(leg.lease, "m", **step_to(leg, "a", state={"x": 1}))
        assert await stores.client.ttl(keys.state(job.partition(".")[0])) > keys.SESSION_TTL_S

    backend.run(scenario)


def test_an_ended_job_holds_nothing_that_only_a_living_one_needs(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await claimed(stores, job)
        pause = LegSuspended(cause="retry", delay_s=3600.0)
        await stores.jobs.suspend(leg.lease, "s", [pause], 3600.0)
        assert await stores.jobs.stop(job, "user", [done(leg=0)], []) == "ok"
        fields = await as_any(stores.client.hgetall(keys.job(job)))
        assert not {"message", "owner", "cause"} & fields.keys()
        assert await stores.client.zcard(keys.suspended("retry")) == await stores.client.zcard(keys.TIMERS) == 0

    backend.run(scenario)
