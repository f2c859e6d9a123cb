"""Jobs on Redis: every change of state is one script (``lua/``)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from shared.errors import AmbiguousId, EkidenError, JobCancelled, LostLease, UnknownJob
from shared.handoff import VERSION, HandoffContext
from shared.ids import new_session_id, session_of
from shared.records import Ended, Entry, Record, decode_record, encode_record
from shared.stores import keys
from shared.stores.base import (
    Claim,
    Claimed,
    ClaimVerdict,
    CommitVerdict,
    JobView,
    Lease,
    Step,
    Submission,
)
from shared.stores.redis import Redis, as_any, translated
from shared.stores.scripts import Scripts

__all__ = ["RedisJobStore"]


class RedisJobStore:
    """Implements ``JobStore`` on Redis 7+ or Valkey, with broker and state in one database."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)

    @translated
    async def reserve(self, session: str | None, request_id: str, user: str = "") -> str:
        """See ``JobStore``. Raises ``UnknownJob`` for a session that does not exist."""
        drawn = session or new_session_id()
        verdict = await self._scripts.run(
            "reserve",
            [keys.session(drawn), keys.request(drawn, request_id)],
            ["0" if session else "1", user, keys.SESSION_TTL_S, keys.REQUEST_TTL_S],
        )
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no session {session!r} (any more)")
        if verdict[0] == "taken":
            return await self.reserve(None, request_id, user)
        return f"{drawn}.{verdict[1]}"

    @translated
    async def submit(self, submission: Submission) -> bool:
        """See ``JobStore``."""
        job, box, context = submission.job, submission.outbox, submission.context
        verdict = await self._scripts.run(
            "submit",
            [*_own(job), keys.session(session_of(job)), box.queue, keys.queued(box.queue), keys.JOBS, keys.JOB_IDS],
            [
                job,
                context.metadata.handoff_id,
                context.encode(),
                box.queue,
                box.message,
                _summary(submission.request.prompt),
                submission.request.cwd or "",
                VERSION,
                keys.SESSION_TTL_S,
                encode_record(submission.request),
            ],
        )
        return verdict[0] == "ok"

    @translated
    async def claim(self, claim: Claim, lease_s: float) -> Claimed | ClaimVerdict:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "claim",
            [*_own(claim.job), keys.session(session_of(claim.job)), keys.LEASES, keys.queued(claim.queue)],
            [claim.job, claim.leg, claim.handoff_id, claim.owner, _ms(lease_s), VERSION, keys.SESSION_TTL_S],
        )
        if verdict[0] != "ok":
            return cast(ClaimVerdict, verdict[0])
        _, fence, attempt, context, seq, used_ms, catalog, cwd, cancel = verdict
        return Claimed(
            lease=Lease(claim.job, claim.leg, fence, claim.queue),
            context=HandoffContext.decode(context),
            attempt=int(attempt),
            seq=int(seq),
            used_ms=int(used_ms),
            catalog=catalog,
            cwd=cwd,
            is_cancelled=bool(cancel),
        )

    @translated
    async def append(
        self, lease: Lease, token: str, records: Sequence[Record], *, used_ms: int, is_progress: bool
    ) -> int:
        """See ``JobStore``."""
        args: list[str | int] = [
            lease.fence,
            lease.leg,
            token,
            int(is_progress),
            used_ms,
            *(encode_record(record) for record in records),
        ]
        verdict = await self._scripts.run("append", _own(lease.job), args)
        if verdict[0] == "cancelled":
            raise JobCancelled(f"job {lease.job!r} was cancelled")
        if verdict[0] != "ok":
            raise LostLease(f"leg {lease.leg} of job {lease.job!r} is not ours any more ({verdict[0]})")
        return int(verdict[1])

    @translated
    async def transfer(self, lease: Lease, commit_id: str, step: Step) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        context, box = step.context, step.outbox
        verdict = await self._scripts.run(
            "transfer",
            [*_own(lease.job), keys.LEASES, box.queue, keys.queued(box.queue)],
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
                encode_record(step.record),
            ],
        )
        return cast(CommitVerdict, verdict[0]), verdict[1] if len(verdict) > 1 else ""

    @translated
    async def suspend(self, lease: Lease, commit_id: str, record: Record, delay_s: float) -> CommitVerdict:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "suspend",
            [*_own(lease.job), keys.LEASES, keys.TIMERS],
            [*_commit(lease, commit_id), _ms(delay_s), keys.SESSION_TTL_S, encode_record(record)],
        )
        return cast(CommitVerdict, verdict[0])

    @translated
    async def finish(self, lease: Lease, commit_id: str, end: Ended, messages: Iterable[str]) -> CommitVerdict:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "finish",
            _ending_keys(lease.job, lease.queue),
            [*_commit(lease, commit_id), keys.SESSION_TTL_S, *_ending_args(end, messages)],
        )
        return cast(CommitVerdict, verdict[0])

    @translated
    async def cancel(self, job: str, end: Ended) -> Literal["ok", "flagged", "finished"]:
        """See ``JobStore``. Raises ``UnknownJob``."""
        queue = (await self.job(job)).queue
        while True:
            verdict = await self._scripts.run(
                "cancel",
                _ending_keys(job, queue),
                [job, keys.cancel_channel(), keys.SESSION_TTL_S, queue, *_ending_args(end, ())],
            )
            if verdict[0] != "moved":  # it was handed over just now: the key of another queue's index is needed
                break
            queue = verdict[1]
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no job {job!r} (any more)")
        return cast(Literal["ok", "flagged", "finished"], verdict[0])

    @translated
    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """See ``JobStore``."""
        if not leases:
            return {}
        stop = await self._scripts.run(
            "renew",
            [keys.LEASES, *(keys.job(lease.job) for lease in leases)],
            [_ms(lease_s), *(text for lease in leases for text in (lease.job, lease.fence))],
        )
        found = (line.split(" ", 1) for line in stop)
        return {job: cast(Literal["lost", "cancelled"], why) for why, job in found}

    @translated
    async def overdue(self, grace_s: float, limit: int = 100) -> list[str]:
        """See ``JobStore``. Of each queue only the oldest message is looked at: the others are younger."""
        seconds, micros = await as_any(self._redis.time())
        now = seconds * 1000 + micros // 1000
        queues = sorted(await as_any(self._redis.smembers(keys.QUEUES)))
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS):
            pipeline.zrangebyscore(index, "-inf", now, start=0, num=limit)
        for queue in queues:
            pipeline.zrangebyscore(keys.queued(queue), "-inf", now - _ms(grace_s), start=0, num=1)
        return [job for found in await pipeline.execute() for job in found]

    @translated
    async def requeue(self, job: str, grace_s: float, max_attempts: int) -> str:
        """See ``JobStore``."""
        queue = await as_any(self._redis.hget(keys.job(job), "queue"))
        if queue is None:
            await self._forget(job)
            return "gone"
        verdict = await self._scripts.run(
            "requeue",
            [keys.job(job), keys.LEASES, keys.TIMERS, queue, keys.queued(queue)],
            [job, queue, _ms(grace_s), max_attempts],
        )
        return " ".join(verdict)

    async def _forget(self, job: str) -> None:
        """Take a job whose record is gone out of every index: it would hide what is younger from the sweeper."""
        indexes = [keys.queued(queue) for queue in await as_any(self._redis.smembers(keys.QUEUES))]
        pipeline = self._redis.pipeline(transaction=False)
        for index in (keys.LEASES, keys.TIMERS, *indexes):
            pipeline.zrem(index, job)
        await pipeline.execute()

    @translated
    async def job(self, job: str) -> JobView:
        """See ``JobStore``."""
        fields = await as_any(self._redis.hgetall(keys.job(job)))
        if not fields:
            raise UnknownJob(f"there is no job {job!r} (any more): `ekiden jobs` lists those that there are")
        return _view(job, fields)

    @translated
    async def jobs(self, limit: int = 20) -> list[JobView]:
        """See ``JobStore``."""
        ids = await as_any(self._redis.zrevrange(keys.JOBS, 0, limit - 1))
        pipeline = self._redis.pipeline(transaction=False)
        for job in ids:
            pipeline.hgetall(keys.job(job))
        found = await pipeline.execute() if ids else []
        return [_view(job, fields) for job, fields in zip(ids, found, strict=True) if fields]

    @translated
    async def resolve(self, prefix: str) -> str:
        """See ``JobStore``."""
        if await as_any(self._redis.exists(keys.job(prefix))):
            return prefix
        found = await as_any(self._redis.zrangebylex(keys.JOB_IDS, f"[{prefix}", f"[{prefix}\xff", 0, 2))
        if not prefix or not found:
            raise UnknownJob(f"no job id begins with {prefix!r}: `ekiden jobs` lists those that there are")
        if len(found) > 1:
            raise AmbiguousId(
                f"several job ids begin with {prefix!r}, such as {found[0]} and {found[1]}: type more of it"
            )
        return cast(str, found[0])

    @translated
    async def journal(self, job: str, after: int = 0, *, wait_s: float = 0.0, limit: int = 500) -> list[Entry]:
        """See ``JobStore``."""
        block = _ms(wait_s) if wait_s else None
        streams = await as_any(self._redis.xread({keys.journal(job): f"{after}-0"}, count=limit, block=block))
        rows = _rows_of(streams)
        return [
            Entry(seq=int(row.partition("-")[0]), at_ms=int(fields["t"]), record=decode_record(fields["r"]))
            for row, fields in rows
        ]


def _rows_of(streams: object) -> list[tuple[str, dict[str, str]]]:
    """Return the rows of an XREAD over one stream, whatever protocol version shaped them."""
    if isinstance(streams, Mapping):  # RESP3
        pages = cast("Mapping[str, list[list[tuple[str, dict[str, str]]]]]", streams)
        return next(iter(pages.values()))[0] if pages else []
    return cast("list[tuple[str, list[tuple[str, dict[str, str]]]]]", streams)[0][1] if streams else []


def _own(job: str) -> list[str]:
    return [keys.job(job), keys.journal(job)]


def _commit(lease: Lease, commit_id: str) -> list[str | int]:
    return [lease.job, lease.fence, lease.leg, commit_id]


def _ending_keys(job: str, queue: str) -> list[str]:
    session = session_of(job)
    return [*_own(job), keys.session(session), keys.messages(session), keys.LEASES, keys.TIMERS, keys.queued(queue)]


def _ending_args(end: Ended, messages: Iterable[str]) -> list[str | int]:
    said = list(messages)
    result = end.answer if end.answer is not None else end.error or ""
    return [end.status, end.reason, result, len(said), *said, encode_record(end)]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _summary(prompt: str) -> str:
    return " ".join(prompt.split())[:120]


def _view(job: str, fields: Mapping[str, str]) -> JobView:
    if "status" not in fields:
        raise EkidenError(f"the record of job {job!r} is incomplete: another program writes to this server")
    return JobView(
        id=job,
        status=cast("Literal['queued']", fields["status"]),
        agent=fields["agent"],
        leg=int(fields["leg"]),
        queue=fields["queue"],
        summary=fields.get("summary", ""),
        created_ms=int(fields["created_ms"]),
        ended_ms=int(fields["ended_ms"]) if "ended_ms" in fields else None,
        attempts=int(fields["attempts"]),
        depth=int(fields["depth"]),
        catalog=fields.get("catalog", ""),
        cwd=fields.get("cwd", ""),
        reason=fields.get("reason"),
        result=fields.get("result"),
        cancel_requested="cancel" in fields,
    )
