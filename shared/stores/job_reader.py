"""Reading jobs and journals on Redis: nothing here changes anything."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from ekiden.shared.errors import AmbiguousId, EkidenError, StopFlag, UnknownJob, UnreadableJournal, WentBack
from ekiden.shared.job_limits import spending_in
from ekiden.shared.records import LATEST_MS, Ended, Entry, Record, decode_record, encode_record
from ekiden.shared.signing import OFF, Seal, Signing, split
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.journal_signatures import chained, chained_as_copied, is_start
from ekiden.shared.stores.redis import Redis, as_any, ms, translated
from ekiden.shared.stores.views import TERMINAL, JobStatus, JobView, Spent

__all__ = ["RedisJobReader", "Unfinished"]

LARGEST_INLINE = 65_536
"""Bytes of a journal entry; a larger one is kept beside the journal and named in it."""
_BLOB = "@"
"""How an entry begins whose record is kept beside the journal; JSON begins otherwise."""


_NEEDED = frozenset({"status", "agent", "leg", "queue", "handoff", "created_ms", "attempts", "depth"})
_UNFINISHED = ("status", "agent", "summary", "cancel", "created_ms")


class Unfinished(NamedTuple):
    """A job that has not ended, as its record says, which may be incomplete."""

    id: str
    status: str
    agent: str
    summary: str
    is_stopped: bool
    """Whether somebody stopped it: it will end at its next step."""


class RedisJobReader:
    """The reading half of ``JobStore``."""

    def __init__(self, client: Redis, signing: Signing = OFF) -> None:
        self._redis = client
        self._signing = signing

    @translated
    async def job(self, job: str) -> JobView:
        """See ``JobStore``."""
        fields = await as_any(self._redis.hgetall(keys.job(job)))
        if not fields:
            raise UnknownJob(f"there is no job {job!r} (any more): `ekiden jobs` lists those that there are")
        return _view(job, fields)

    @translated
    async def jobs(self, limit: int = 20, status: str | None = None) -> list[JobView]:
        """See ``JobStore``."""
        found: list[JobView] = []
        start = 0
        while len(found) < limit and (ids := await as_any(self._redis.zrevrange(keys.JOBS, start, start + 99))):
            start += len(ids)
            found += [view for view in await self.views(ids) if status in (None, view.status)]
        return found[:limit]

    @translated
    async def views(self, jobs: Sequence[str]) -> list[JobView]:
        """See ``JobStore``."""
        pipeline = self._redis.pipeline(transaction=False)
        for job in jobs:
            pipeline.hgetall(keys.job(job))
        return [_view(job, fields) for job, fields in zip(jobs, await pipeline.execute(), strict=True) if fields]

    @translated
    async def ends(self, jobs: Sequence[str]) -> dict[str, Ended]:
        """See ``JobReader``."""
        pipeline = self._redis.pipeline(transaction=False)
        for job in jobs:
            pipeline.xrevrange(keys.journal(job), count=1)
        last = zip(jobs, await pipeline.execute(), strict=True)
        found = [(job, rows[0][0], rows[0][1].get("t", ""), rows[0][1].get("r", "")) for job, rows in last if rows]
        ends = {job: (await self._entries(job, [tuple(row)]))[0].record for job, *row in found}
        return {job: end for job, end in ends.items() if isinstance(end, Ended)}

    @translated
    async def unfinished(self) -> list[Unfinished]:
        """Return every job that has not ended, the oldest first, whether or not any list or queue names it.

        Looks at every job's hash: scripts decide by that alone.
        """
        found: list[tuple[str, Unfinished]] = []
        cursor = 0
        while True:
            cursor, names = await as_any(self._redis.scan(cursor, match=keys.job("*"), count=1_000, _type="HASH"))
            pipeline = self._redis.pipeline(transaction=False)
            for name in names:
                pipeline.hmget(name, _UNFINISHED)
            found += filter(None, map(_unfinished, names, await pipeline.execute() if names else ()))
            if not cursor:
                return [job for _, job in sorted(dict(found).items())]

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
    async def journal(
        self, job: str, after: int = 0, *, wait_s: float = 0.0, limit: int = 500, seen_ms: int | None = None
    ) -> list[Entry]:
        """See ``JobStore``. A server goes back only by losing its connections: one that sees both sees one history."""
        journal, place = keys.journal(job), f"{after}-0"
        pipeline = self._redis.pipeline(transaction=False)
        if seen_ms is not None:
            pipeline.xrange(journal, place, place)
        pipeline.xread({journal: place}, count=limit, block=ms(wait_s) if wait_s else None)
        *seen, streams = await pipeline.execute()
        if seen_ms is not None and [int(fields["t"]) for _, fields in seen[0]] != [seen_ms]:
            raise WentBack(f"the journal of job {job!r} has no longer the entry {after} that was read")
        rows = [(row, fields.get("t", ""), fields.get("r", "")) for row, fields in rows_of(streams)]
        return await self._entries(job, rows)

    @translated
    async def page(self, claimed: Claimed) -> list[Entry]:
        """See ``JobStore``."""
        flat = claimed.rows
        rows = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
        claimed.rows.clear()
        return await self._entries(claimed.lease.job, rows)

    async def _entries(self, job: str, rows: Sequence[tuple[str, str, str]]) -> list[Entry]:
        """Read entries of a journal (place, time, text), with the large values that they name."""
        signed = [split(text) for _, _, text in rows]
        texts = await self._whole(job, [text for _, text in signed])
        return [
            _entry(job, row, at, seal, text) for (row, at, _), (seal, _), text in zip(rows, signed, texts, strict=True)
        ]

    async def _whole(self, job: str, texts: list[str]) -> Sequence[str | None]:
        """Put the large values where the entries name them."""
        digests = [text[1:] for text in texts if text.startswith(_BLOB)]
        if not digests:
            return texts
        values = dict(zip(digests, await as_any(self._redis.hmget(keys.blobs(job), digests)), strict=True))
        return [values[text[1:]] if text.startswith(_BLOB) else text for text in texts]

    async def _stored(self, job: str, records: Iterable[Record], seq: int = 0, head: str | None = "") -> list[str]:
        """Return records as the journal has them behind position ``seq``; large ones are written beside it first.

        ``head``: the tag of the last entry that is signed with the one before it; None: it is looked up.
        """
        return (await self._signed(job, records, seq, head))[0]

    async def _copied(self, job: str, records: Sequence[Record]) -> list[str]:
        """Return records as the new journal has them; large ones are written beside it first."""
        texts = [encode_record(record) for record in records]
        stored = await self._outsourced(job, texts)
        if not self._signing:
            return stored
        marks = chained_as_copied(self._signing, job, texts)
        return [mark + text for mark, text in zip(marks, stored, strict=True)]

    async def _signed(
        self, job: str, records: Iterable[Record], seq: int, head: str | None
    ) -> tuple[list[str], str | None]:
        """The same, with the new head."""
        texts = [encode_record(record) for record in records]
        stored = await self._outsourced(job, texts)
        if not self._signing:
            return stored, head
        known = await self._head(job, seq) if head is None else head
        marks, head = chained(self._signing, job, seq, known, texts)
        return [mark + text for mark, text in zip(marks, stored, strict=True)], head

    async def _head(self, job: str, seq: int) -> str:
        """Return the tag of the last chained entry up to position ``seq``; empty where there is none."""
        while seq:
            rows = await as_any(self._redis.xrange(keys.journal(job), f"{seq}-0", f"{seq}-0"))
            seal, text = split(rows[0][1].get("r", "")) if rows else (None, "")
            if not is_start(text):
                return seal.tag if seal else ""
            seq -= 1
        return ""

    async def _outsourced(self, job: str, texts: list[str]) -> list[str]:
        """Write large texts beside the journal; return what stands in it."""
        large = {f"{_BLOB}{_sha256(text)}": text for text in texts if len(text.encode()) > LARGEST_INLINE}
        if not large:
            return texts
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(keys.blobs(job), mapping={name[1:]: text for name, text in large.items()})
        pipeline.expire(keys.blobs(job), keys.SESSION_TTL_S, nx=True)
        pipeline.hdel(keys.job(job), "kept_ms")  # so that the next claim looks after a key that may be new
        await pipeline.execute()
        names = {text: name for name, text in large.items()}
        return [names.get(text, text) for text in texts]


Rows = list[tuple[str, dict[str, str]]]


def rows_of(streams: object) -> Rows:
    """Return the rows of an XREAD over one stream, whatever protocol version shaped them."""
    return next(iter(rows_by_stream(streams).values()), [])


def rows_by_stream(streams: object) -> dict[str, Rows]:
    """Return the rows of an XREAD, of those streams that have any."""
    if isinstance(streams, Mapping):  # RESP3
        pages = cast("Mapping[str, list[Rows]]", streams)
        return {stream: page[0] for stream, page in pages.items()}
    return dict(cast("list[tuple[str, Rows]]", streams or []))


def _unfinished(key: str, fields: Sequence[str | None]) -> tuple[str, Unfinished] | None:
    """Return what sorts it by age, and the job; None: it has ended, or is none that a claim would find."""
    status, agent, summary, cancel, created_ms = fields
    job = key.partition("}:job:")[2]
    if not status or status in TERMINAL or keys.job(job) != key:
        return None
    return f"{created_ms or '':>20} {job}", Unfinished(job, status, agent or "", summary or "", cancel is not None)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(job: str, row: str, at: str, seal: Seal | None, text: str | None) -> Entry:
    """Read an entry. ``text`` is its record without its seal; None: the large value that it names is gone."""
    seq, text = row.partition("-")[0], text or ""
    try:
        record, at_ms = decode_record(text), int(at)
        if not 0 <= at_ms <= LATEST_MS:
            raise ValueError(at_ms)
        return Entry(int(seq), at_ms, record, seal, text if seal else "", len(text))
    except ValueError as error:
        raise UnreadableJournal(
            f"entry {seq} of the journal of job {job!r} cannot be read: another program writes to this server, or a "
            "later version of Ekiden did"
        ) from error


def _view(job: str, fields: Mapping[str, str]) -> JobView:
    if _NEEDED - fields.keys():
        raise EkidenError(f"the record of job {job!r} is incomplete: another program writes to this server")
    return JobView(
        id=job,
        status=cast(JobStatus, fields["status"]),
        agent=fields["agent"],
        leg=int(fields["leg"]),
        queue=fields["queue"],
        handoff_id=fields["handoff"],
        summary=fields.get("summary", ""),
        created_ms=int(fields["created_ms"]),
        ended_ms=int(fields["ended_ms"]) if "ended_ms" in fields else None,
        attempts=int(fields["attempts"]) - int(fields.get("given_back", 0)),
        depth=int(fields["depth"]),
        catalog=fields.get("catalog", ""),
        cwd=fields.get("cwd", ""),
        reason=fields.get("reason"),
        result=fields.get("result"),
        stop=cast("StopFlag | None", fields.get("cancel")),
        spent=Spent(int(fields.get("spent_tokens", 0)), int(fields.get("spent_micro", 0))),
        limits=spending_in(fields),
        seq=int(fields.get("seq", 0)),
        untrusted="untrusted" in fields,
        request_id=fields.get("request", ""),
    )
