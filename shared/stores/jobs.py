"""Jobs on Redis: every change of state is one script (``lua/``)."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Literal, cast

from shared.errors import InvalidRequest, JobCancelled, LostLease, SessionBusy, UnknownJob
from shared.handoff import VERSION, HandoffContext
from shared.ids import new_session_id, session_id_for, session_of
from shared.records import Ended, LegStarted, Record, encode_record
from shared.stores import keys
from shared.stores.base import (
    Claim,
    Claimed,
    ClaimVerdict,
    CommitVerdict,
    Lease,
    OnBusy,
    Outbox,
    Step,
    StopFlag,
    Submission,
)
from shared.stores.reading import RedisJobReader
from shared.stores.redis import Redis, as_any, translated
from shared.stores.scripts import Scripts

__all__ = ["RedisJobStore"]


class RedisJobStore(RedisJobReader):
    """Implements ``JobStore`` on Redis 7+ or Valkey, with broker and state in one database."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self._scripts = Scripts(client)

    @translated
    async def reserve(self, session: str | None, request_id: str, user: str = "") -> str:
        """See ``JobStore``. Raises ``UnknownJob`` for a session that does not exist."""
        if session is not None:
            verdict = await self._reserve_in(session, request_id, user, is_new=False)
            if verdict[0] == "gone":
                raise UnknownJob(f"there is no session {session!r} (any more)")
            return f"{session}.{verdict[1]}"
        drawn = session_id_for(request_id)
        while (verdict := await self._reserve_in(drawn, request_id, user, is_new=True))[0] == "taken":
            drawn = new_session_id()
        return f"{drawn}.{verdict[1]}"

    async def _reserve_in(self, session: str, request_id: str, user: str, *, is_new: bool) -> list[str]:
        return await self._scripts.run(
            "reserve",
            [keys.session(session), keys.request(session, request_id)],
            [session, int(is_new), user, keys.REQUEST_TTL_S],
        )

    @translated
    async def submit(self, submission: Submission, on_busy: OnBusy = "queue") -> bool:
        """See ``JobStore``."""
        job, box, context = submission.job, submission.outbox, submission.context
        verdict = await self._scripts.run(
            "submit",
            _session_keys(job),
            [
                job,
                context.metadata.handoff_id,
                context.encode(),
                box.queue,
                box.message,
                _summary(submission.request.prompt),
                submission.request.cwd or "",
                VERSION,
                submission.request.agent or "",
                on_busy,
                submission.deadline_s,
                *await self._stored(job, [submission.request]),
            ],
        )
        if verdict[0] == "busy":
            raise SessionBusy(f"job {verdict[1]!r} of this session still runs: wait for it, cancel it, or let it queue")
        return verdict[0] != "exists"

    @translated
    async def claim(
        self, claim: Claim, lease_s: float, *, alone_from: int = 1_000_000, aside_s: float = 0.0
    ) -> Claimed | ClaimVerdict:
        """See ``JobStore``."""
        started = LegStarted(leg=claim.leg, agent=claim.agent, attempt=0, worker=claim.worker)
        record = encode_record(started).replace('"attempt":0', '"attempt":\x01')
        owner, times = claim.owner, (alone_from, _ms(aside_s))
        verdict = await self._scripts.run(
            "claim",
            _session_keys(claim.job),
            [claim.job, claim.leg, claim.handoff_id, owner, _ms(lease_s), VERSION, *times, record],
        )
        if verdict[0] != "ok":
            return cast(ClaimVerdict, verdict[0])
        _, fence, attempt, context, seq, used_ms, catalog, cwd, cancel = verdict
        return Claimed(
            lease=Lease(claim.job, claim.leg, fence, catalog),
            context=HandoffContext.decode(context),
            attempt=int(attempt),
            seq=int(seq),
            used_ms=int(used_ms),
            catalog=catalog,
            cwd=cwd,
            stop=cast(StopFlag, cancel) if cancel else None,
        )

    @translated
    async def append(
        self, lease: Lease, token: str, records: Sequence[Record], *, used_ms: int, is_progress: bool
    ) -> int:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "append",
            [keys.job(lease.job), keys.journal(lease.job)],
            [lease.fence, lease.leg, token, int(is_progress), used_ms, *await self._stored(lease.job, records)],
        )
        if verdict[0] == "cancelled":
            raise JobCancelled(f"job {lease.job!r} is to stop ({verdict[1]})", cast(StopFlag, verdict[1]))
        if verdict[0] != "ok":
            raise LostLease(f"leg {lease.leg} of job {lease.job!r} is not ours any more ({verdict[0]})")
        return int(verdict[1])

    @translated
    async def transfer(self, lease: Lease, commit_id: str, step: Step) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        context, box = step.context, step.outbox
        verdict = await self._scripts.run(
            "transfer",
            [keys.job(lease.job), keys.journal(lease.job), keys.catalog(step.catalog)],
            [
                *_commit(lease, commit_id),
                int(step.is_route),
                context.from_agent,
                context.to_agent,
                step.max_depth,
                step.cycles,
                int(step.may_return),
                context.metadata.handoff_id,
                context.encode(),
                box.queue,
                box.message,
                step.catalog,
                *await self._stored(lease.job, [step.record]),
            ],
        )
        return _verdict(verdict)

    @translated
    async def suspend(
        self, lease: Lease, commit_id: str, records: Sequence[Record], delay_s: float
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "suspend",
            [*_session_keys(lease.job), keys.catalog(lease.catalog)],
            [*_commit(lease, commit_id), _ms(delay_s), *await self._stored(lease.job, records)],
        )
        return _verdict(verdict)

    @translated
    async def finish(
        self, lease: Lease, commit_id: str, records: Sequence[Record], messages: Iterable[str]
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "finish",
            _session_keys(lease.job),
            [*_commit(lease, commit_id), *await self._ending(lease.job, records, messages)],
        )
        return _verdict(verdict)

    @translated
    async def stop(
        self, job: str, flag: StopFlag, records: Sequence[Record], messages: Iterable[str], *, seq: int | None = None
    ) -> Literal["ok", "flagged", "finished", "moved"]:
        """See ``JobStore``. Raises ``UnknownJob``."""
        verdict = await self._scripts.run(
            "stop",
            _session_keys(job),
            [job, flag, keys.STOPPED, "" if seq is None else seq, *await self._ending(job, records, messages)],
        )
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no job {job!r} (any more)")
        return cast(Literal["ok", "flagged", "finished", "moved"], verdict[0])

    @translated
    async def retry(self, job: str, outbox: Outbox, record: Record, deadline_s: float) -> None:
        """See ``JobStore``. Raises ``UnknownJob``, ``InvalidRequest``."""
        verdict = await self._scripts.run(
            "retry",
            _session_keys(job),
            [job, outbox.message, deadline_s, *await self._stored(job, [record])],
        )
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no job {job!r} (any more)")
        if verdict[0] == "refused":
            raise InvalidRequest(f"job {job!r} is {verdict[1]}: only a job that failed or died can be retried")

    @translated
    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """See ``JobStore``."""
        if not leases:
            return {}
        stop = await self._scripts.run(
            "renew",
            [keys.job(lease.job) for lease in leases],
            [_ms(lease_s), *(text for lease in leases for text in (lease.job, lease.fence))],
        )
        found = (line.split(" ", 1) for line in stop)
        return {job: cast(Literal["lost", "cancelled"], why) for why, job in found}

    async def stopped(self) -> AsyncIterator[str]:
        """See ``JobStore``."""
        async with self._redis.pubsub() as channel:
            await translated(channel.subscribe)(keys.STOPPED)
            while True:
                message = await translated(channel.get_message)(ignore_subscribe_messages=True, timeout=1.0)
                if message is not None:
                    yield message["data"]

    @translated
    async def overdue(self, grace_s: float, limit: int = 100) -> list[str]:
        """See ``JobStore``. Of each queue only the oldest message is looked at: the others are younger."""
        now = await self._now_ms()
        queues = sorted(await as_any(self._redis.smembers(keys.QUEUES)))
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS):
            pipeline.zrangebyscore(index, "-inf", now, start=0, num=limit)
        for queue in queues:
            pipeline.zrangebyscore(keys.queued(queue), "-inf", now - _ms(grace_s), start=0, num=1)
        return [job for found in await pipeline.execute() for job in found]

    @translated
    async def past_deadline(self, limit: int = 100) -> list[str]:
        """See ``JobStore``."""
        now = await self._now_ms()
        return cast(list[str], await as_any(self._redis.zrangebyscore(keys.DEADLINES, "-inf", now, start=0, num=limit)))

    @translated
    async def requeue(self, job: str, grace_s: float, max_attempts: int) -> str:
        """See ``JobStore``."""
        queue = await as_any(self._redis.hget(keys.job(job), "queue"))
        if queue is None:
            await self.forget(job)
            return "gone"
        verdict = await self._scripts.run("requeue", [keys.job(job), queue], [job, queue, _ms(grace_s), max_attempts])
        return " ".join(verdict)

    @translated
    async def forget(self, job: str) -> None:
        """See ``JobStore``."""
        indexes = [keys.queued(queue) for queue in await as_any(self._redis.smembers(keys.QUEUES))]
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS, keys.DEADLINES, keys.JOBS, keys.JOB_IDS, *indexes):
            pipeline.zrem(index, job)
        await pipeline.execute()

    @translated
    async def tidy(self, limit: int = 100) -> int:
        """See ``JobStore``."""
        cutoff = await self._now_ms() - keys.SESSION_TTL_S * 1000
        old = await as_any(self._redis.zrangebyscore(keys.JOBS, "-inf", cutoff, start=0, num=limit))
        gone = [job for job in old if not await as_any(self._redis.exists(keys.job(job)))]
        for job in gone:
            await self.forget(job)
        await as_any(self._redis.zremrangebyscore(keys.SESSIONS, "-inf", cutoff))
        return len(gone)

    async def _now_ms(self) -> int:
        seconds, micros = await as_any(self._redis.time())
        return int(seconds) * 1000 + int(micros) // 1000

    async def _ending(self, job: str, records: Sequence[Record], messages: Iterable[str]) -> list[str | int]:
        """Return status, reason, result, messages and records as the scripts that end a job take them."""
        end = records[-1]
        assert isinstance(end, Ended), "the last record of a job is its end"
        said = list(messages)
        result = end.answer if end.answer is not None else end.error or ""
        return [end.status, end.reason, result, len(said), *said, *await self._stored(job, records)]


def _session_keys(job: str) -> list[str]:
    """Return the keys that most scripts share, in their order."""
    session = session_of(job)
    return [
        keys.job(job),
        keys.journal(job),
        keys.blobs(job),
        keys.session(session),
        keys.messages(session),
        keys.inbox(session),
    ]


def _commit(lease: Lease, commit_id: str) -> list[str | int]:
    return [lease.job, lease.fence, lease.leg, commit_id]


def _verdict(verdict: list[str]) -> tuple[CommitVerdict, str]:
    return cast(CommitVerdict, verdict[0]), verdict[1] if len(verdict) > 1 else ""


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _summary(prompt: str) -> str:
    return " ".join(prompt[:2_000].split())[:120]
