"""What jobs ask persons, and what those say, on Redis."""

import secrets
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.errors import UnreadableJournal
from ekiden.shared.records import ApprovalAsked, Decided, Record, decode_record, encode_record
from ekiden.shared.signing import split
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import DecisionVerdict
from ekiden.shared.stores.job_sweeper import RedisJobSweeper
from ekiden.shared.stores.redis import as_any, ms, translated

__all__ = ["RedisJobApprovals", "job_and_number"]

R = TypeVar("R", ApprovalAsked, Decided)

_KIND = "approval"
"""What is signed for its job and number."""


class RedisJobApprovals(RedisJobSweeper):
    """The part of ``JobStore`` that is about approvals."""

    @translated
    async def waiting(self, below: str | None = None) -> list[ApprovalView]:
        """See ``JobStore``."""
        ids = await as_any(self._redis.zrange(keys.APPROVALS, 0, -1))
        wanted = [job_and_number(one) for one in ids if below is None or one.startswith((f"{below}:", f"{below}."))]
        return [view for view in await self._views(wanted) if view.status == "waiting"]

    @translated
    async def asked(self, jobs: Sequence[str]) -> list[ApprovalView]:
        """See ``JobStore``."""
        pipeline = self._redis.pipeline(transaction=False)
        for job in jobs:
            pipeline.hkeys(keys.approvals(job))
        found = zip(jobs, await pipeline.execute(), strict=True)
        return await self._views(
            [(job, n) for job, names in found for n in sorted(filter(str.isdigit, names), key=int)]
        )

    async def _views(self, wanted: Sequence[tuple[str, str]]) -> list[ApprovalView]:
        if not wanted:
            return []
        pipeline = self._redis.pipeline(transaction=False)
        for job, n in wanted:
            pipeline.hmget(keys.approvals(job), n, f"{n}:times", f"{n}:end")
        found = zip(wanted, await pipeline.execute(), strict=True)
        return [self._view(job, n, *fields) for (job, n), fields in found if fields[0] and fields[1]]

    def _view(self, job: str, n: str, asked: str, times: str, end: str | None) -> ApprovalView:
        text = self._signing.read(_KIND, (job, n), asked) if self._signing else split(asked)[1]
        asked_ms, expires_ms, ends_with_job = map(int, times.split(" "))
        told = {"asked_at_ms": asked_ms, "expires_at_ms": expires_ms, "ends_with_job": bool(ends_with_job)}
        return _read(text, ApprovalAsked).view(**told, **_end_of(end))

    @translated
    async def decide(self, decided: Decided, *, passed_ms: int | None = None) -> DecisionVerdict:
        """See ``JobStore``."""
        job, n = job_and_number(decided.id)
        token = secrets.token_hex(8)
        while True:
            seq = int(await as_any(self._redis.hget(keys.job(job), "seq")) or 0)
            verdict = await self._scripts.run(
                "decide",
                job=keys.job(job),
                journal=keys.journal(job),
                approvals=keys.approvals(job),
                id=job,
                n=n,
                seq=seq,
                token=token,
                digest=decided.digest,
                status=decided.status,
                passed_ms="" if passed_ms is None else passed_ms,
                decided=encode_record(decided),
                records=await self._stored(job, [decided], seq, None),
                changes=job,
            )
            if verdict[0] != "moved":  # by another answer
                return cast(DecisionVerdict, verdict[0])

    @translated
    async def is_signed(self, job: str) -> bool:
        """See ``JobStore``."""
        rows = await as_any(self._redis.xrevrange(keys.journal(job), count=1))
        return bool(rows) and split(rows[0][1].get("r", ""))[0] is not None

    def _asking(self, job: str, records: Iterable[Record]) -> list[str | int]:
        """Return what the script needs to ask: four fields of each approval."""
        fields: list[str | int] = []
        for record in records:
            if isinstance(record, ApprovalAsked):
                n = job_and_number(record.id)[1]
                text = self._signing.sign(_KIND, (job, n), encode_record(record))
                fields += [n, record.digest, ms(record.timeout_s), text]
        return fields


def job_and_number(approval: str) -> tuple[str, str]:
    """Return the parts of an approval's id: its job, and its number there."""
    job, _, n = approval.rpartition(":")
    return job, n


def _end_of(told: str | None) -> dict[str, object]:
    """Return what the view of an approval has of its end, as ``decide.lua`` and the job's end write it."""
    if told is None:
        return {}
    status, at_ms, *said = told.split(" ", 3)
    if not said:
        return {"status": status, "decided_at_ms": int(at_ms)}
    decided = _read(said[1], Decided)
    about = {
        name: getattr(decided, name) for name in ("status", "by", "is_claimed", "origin", "why", "answer", "edited")
    }
    return {"decided_at_ms": int(at_ms), **about}


def _read(text: str, kind: type[R]) -> R:
    try:
        record = decode_record(text)
    except ValueError as error:
        raise UnreadableJournal(
            "an approval cannot be read: another program writes to this server, or a later version of Ekiden did"
        ) from error
    assert isinstance(record, kind)
    return record
