"""What a sweeper asks and changes, on Redis."""

from typing import cast

from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.clock import RelayClock
from ekiden.shared.stores.job_reader import RedisJobReader
from ekiden.shared.stores.redis import Redis, as_any, ms, translated
from ekiden.shared.stores.replication import ReplicaWait
from ekiden.shared.stores.scripts import Scripts

__all__ = ["RedisJobSweeper"]


class RedisJobSweeper(RedisJobReader):
    """The reading and the sweeping part of ``JobStore``."""

    def __init__(self, client: Redis, confirming: ReplicaWait | None = None, signing: Signing = OFF) -> None:
        super().__init__(client, signing)
        self._scripts = Scripts(client, confirming)
        self.clock = RelayClock(client, self._scripts)

    async def passed_ms(self) -> int:
        """See ``JobStore``."""
        return await self.clock.passed_ms()

    async def unfollowed_ms(self) -> int | None:
        """See ``JobStore``."""
        return await self.clock.unfollowed_ms()

    @translated
    async def overdue(self, grace_s: float, limit: int = 100, *, at_ms: int | None = None) -> list[str]:
        """See ``JobStore``. Of each queue only the oldest message is looked at: the others are younger."""
        now = await self._at(at_ms)
        queues = sorted(await as_any(self._redis.smembers(keys.QUEUES)))
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS):
            pipeline.zrangebyscore(index, "-inf", now, start=0, num=limit)
        for queue in queues:
            pipeline.zrangebyscore(keys.queued(queue), "-inf", now - ms(grace_s), start=0, num=1)
        return [job for found in await pipeline.execute() for job in found]

    @translated
    async def past_deadline(self, limit: int = 100, *, at_ms: int | None = None) -> list[str]:
        """See ``JobStore``."""
        now = await self._at(at_ms)
        return cast(list[str], await as_any(self._redis.zrangebyscore(keys.DEADLINES, "-inf", now, start=0, num=limit)))

    @translated
    async def requeue(self, job: str, grace_s: float, max_attempts: int, *, at_ms: int | None = None) -> str:
        """See ``JobStore``."""
        queue = await as_any(self._redis.hget(keys.job(job), "queue"))
        if queue is None:
            await self.forget(job)
            return "gone"
        verdict = await self._scripts.run(
            "requeue",
            job=keys.job(job),
            queue=queue,
            id=job,
            grace_ms=ms(grace_s),
            max_attempts=max_attempts,
            passed_ms=await self._at(at_ms),
        )
        return " ".join(verdict)

    @translated
    async def forget(self, job: str) -> None:
        """See ``JobStore``."""
        suspended = map(keys.suspended, keys.CAUSES)
        indexes = [keys.queued(queue) for queue in await as_any(self._redis.smembers(keys.QUEUES))]
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS, keys.DEADLINES, keys.JOBS, keys.JOB_IDS, *indexes, *suspended):
            pipeline.zrem(index, job)
        if asked := [
            one for one in await as_any(self._redis.zrange(keys.APPROVALS, 0, -1)) if one.startswith(f"{job}:")
        ]:
            pipeline.zrem(keys.APPROVALS, *asked)
        await pipeline.execute()

    @translated
    async def tidy(self, limit: int = 100) -> int:
        """See ``JobStore``."""
        cutoff = await self.clock.passed_ms() - keys.SESSION_TTL_S * 1000
        old = await as_any(self._redis.zrangebyscore(keys.JOBS, "-inf", cutoff, start=0, num=limit))
        gone = [job for job in old if not await as_any(self._redis.exists(keys.job(job)))]
        for job in gone:
            await self.forget(job)
        await as_any(self._redis.zremrangebyscore(keys.SESSIONS, "-inf", cutoff))
        return len(gone)

    async def _at(self, at_ms: int | None) -> int:
        return await self.clock.passed_ms() if at_ms is None else at_ms
