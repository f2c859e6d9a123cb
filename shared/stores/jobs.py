"""Jobs on Redis: every change of state is one script (``lua/``)."""

import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from ekiden.shared.errors import InvalidRequest, JobCancelled, LostLease, SessionBusy, UnknownJob, WentBack
from ekiden.shared.handoff import VERSION, HandoffContext
from ekiden.shared.ids import new_session_id, root_of, session_id_for, session_of
from ekiden.shared.job_limits import read_spending
from ekiden.shared.outcomes import Transfer
from ekiden.shared.records import Ended, HandedOff, LegSuspended, Record, ToolStarted
from ekiden.shared.signing import split
from ekiden.shared.stores import keys
from ekiden.shared.stores.arguments import child_of, commit_of, count_of, session_keys, transfer_of, variables_of
from ekiden.shared.stores.base import (
    UNSIGNED,
    Appended,
    Claim,
    Claimed,
    ClaimVerdict,
    CommitVerdict,
    Lease,
    OnBusy,
    SignedContext,
    StopFlag,
)
from ekiden.shared.stores.job_approvals import RedisJobApprovals
from ekiden.shared.stores.journal_signatures import CONTEXT, signed_start
from ekiden.shared.stores.redis import ms, sent_at, translated
from ekiden.shared.stores.submissions import ChildSubmission, NewSession, Outbox, Submission, digest_of, summary_of

__all__ = ["RedisJobStore"]


class RedisJobStore(RedisJobApprovals):
    """Implements ``JobStore`` on Redis 7+ or Valkey, with broker and state in one database.

    Replicas, where they are waited for, must have what would hurt if it were lost: submissions, commits, stops, and the
    record that a tool begins. A lost claim, reply or result is only done again.
    """

    @translated
    async def reserve(self, session: str | None, request_id: str, user: str = "", policy: str = "route") -> str:
        """See ``JobStore``. Raises ``UnknownJob`` for a session that does not exist."""
        if session is not None:
            verdict = await self._reserve_in(session, request_id, user, policy, is_new=False)
            if verdict[0] == "gone":
                raise UnknownJob(f"there is no session {session!r} (any more)")
            return f"{session}.{verdict[1]}"
        drawn = session_id_for(request_id)
        while (verdict := await self._reserve_in(drawn, request_id, user, policy, is_new=True))[0] == "taken":
            drawn = new_session_id()
        return f"{drawn}.{verdict[1]}"

    async def _reserve_in(self, session: str, request_id: str, user: str, policy: str, *, is_new: bool) -> list[str]:
        return await self._scripts.run(
            "reserve",
            session=keys.session(session),
            number=keys.request(session, request_id),
            session_id=session,
            is_new=int(is_new),
            user=user,
            request_ttl=keys.REQUEST_TTL_S,
            policy=policy,
        )

    @translated
    async def submit(self, submission: Submission, on_busy: OnBusy = "queue") -> bool:
        """See ``JobStore``."""
        job, box, context = submission.job, submission.outbox, submission.context
        request_id, begun = submission.request.request_id or "", submission.begins or NewSession()
        verdict = await self._scripts.run(
            "submit",
            **session_keys(job),
            number=keys.request(session_of(job), request_id),
            id=job,
            session_id=session_of(job),
            begins=int(submission.begins is not None),
            user=begun.user,
            request_ttl=keys.REQUEST_TTL_S,
            policy=begun.policy,
            handoff=context.metadata.handoff_id,
            context=self._signing.sign(CONTEXT, (job, 0, ""), context.encode()),
            queue=box.queue,
            message=box.message,
            summary=summary_of(submission.request.prompt),
            cwd=submission.request.cwd or "",
            version=VERSION,
            agent=submission.request.agent or "",
            on_busy=on_busy,
            deadline_s=submission.deadline_s,
            request=request_id,
            asked=digest_of(submission.request),
            records=await self._stored(job, [submission.request]),
            changes=job,
        )
        if verdict[0] == "busy":
            raise SessionBusy(f"job {verdict[1]!r} of this session still runs: wait for it, cancel it, or let it queue")
        if verdict[0] == "taken":
            raise WentBack(
                f"job {job!r} is another request's now: the server went back in time, or its session is another's"
            )
        if verdict[0] == "another":
            raise InvalidRequest(
                f"request id {submission.request.request_id!r} is that of job {job!r}, which was asked for something "
                "else: a new request needs an id of its own, or none"
            )
        return verdict[0] != "exists"

    @translated
    async def claim(
        self, claim: Claim, lease_s: float, *, quarantine_from: int = 1_000_000, defer_s: float = 0.0
    ) -> Claimed | ClaimVerdict:
        """See ``JobStore``."""
        asked_at = time.monotonic()
        verdict = await self._scripts.run(
            "claim",
            **session_keys(claim.job),
            root=keys.job(root_of(claim.job)),
            id=claim.job,
            leg=claim.leg,
            handoff=claim.handoff_id,
            owner=claim.owner,
            lease_ms=ms(lease_s),
            version=VERSION,
            quarantine_from=quarantine_from,
            defer_ms=ms(defer_s),
            known=claim.known,
            records=[signed_start(self._signing, claim)],
        )
        if verdict[0] != "ok":
            return cast(ClaimVerdict, verdict[0])
        _, fence, attempt, context, seq, used_ms, catalog, cwd, cancel, variables, spent, untrusted, rows = verdict
        seal, text = split(context)
        return Claimed(
            lease=Lease(claim.job, claim.leg, fence, catalog, int(seq)),
            context=HandoffContext.decode(text),
            signed=SignedContext(seal, text, claim.agent) if self._signing else UNSIGNED,
            attempt=int(attempt),
            used_ms=int(used_ms),
            catalog=catalog,
            cwd=cwd,
            stop=cast(StopFlag, cancel) if cancel else None,
            has_state=variables != "0",
            is_untrusted=bool(untrusted),
            spending=read_spending(spent),
            sent_at=max(asked_at, sent_at()),
            rows=cast("list[str]", rows),
        )

    @translated
    async def give_back(self, lease: Lease) -> Literal["ok", "refunded", "stale"]:
        """See ``JobStore``."""
        ours: dict[str, Any] = {"id": lease.job, "fence": lease.fence, "leg": lease.leg}
        verdict = await self._scripts.run("give_back", job=keys.job(lease.job), **ours)
        return cast(Literal["ok", "refunded", "stale"], verdict[0])

    @translated
    async def append(
        self, lease: Lease, token: str, records: Sequence[Record], *, used_ms: int, is_progress: bool
    ) -> Appended:
        """See ``JobStore``."""
        stored, head = await self._signed(lease.job, records, lease.seq, lease.head)
        verdict = await self._scripts.run(
            "append",
            job=keys.job(lease.job),
            journal=keys.journal(lease.job),
            session=keys.session(session_of(lease.job)),
            root=keys.job(root_of(lease.job)),
            id=lease.job,
            fence=lease.fence,
            leg=lease.leg,
            seq=lease.seq,
            token=token,
            is_progress=int(is_progress),
            used_ms=used_ms,
            **count_of(records),
            records=stored,
            changes=lease.job if _has_effects(records) else "",
        )
        if verdict[0] == "cancelled":
            raise JobCancelled(f"job {lease.job!r} is to stop ({verdict[1]})", cast(StopFlag, verdict[1]))
        if verdict[0] != "ok":
            raise LostLease(f"leg {lease.leg} of job {lease.job!r} is not ours any more ({verdict[0]})")
        lease.seq, lease.head = int(verdict[1]), head
        return Appended(lease.seq, read_spending(verdict[2]))

    @translated
    async def transfer(
        self,
        lease: Lease,
        commit_id: str,
        transfer: Transfer,
        records: Sequence[Record],
        outbox: Outbox,
        *,
        cycles: str = "deny",
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        moved, job, catalog = records[-1], lease.job, transfer.catalog or lease.catalog
        assert isinstance(moved, HandedOff), "the last record of a leg that hands over is its move"
        verdict = await self._scripts.run(
            "transfer",
            job=keys.job(job),
            journal=keys.journal(job),
            catalog=keys.catalog(catalog),
            root=keys.job(root_of(job)),
            state=keys.state(session_of(job)),
            session=keys.session(session_of(job)),
            **commit_of(lease, commit_id),
            **transfer_of(transfer),
            **count_of(records),
            used_ms="" if used_ms is None else used_ms,
            kind=moved.kind,
            cycles=cycles,
            context=self._signing.sign(CONTEXT, (job, lease.leg + 1, catalog), transfer.context.encode()),
            queue=outbox.queue,
            message=outbox.message,
            digest=catalog,
            variables=variables_of(state or {}),
            records=await self._stored(job, records, lease.seq, lease.head),
            changes=job,
        )
        return _verdict(verdict)

    @translated
    async def suspend(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        delay_s: float,
        *,
        children: Sequence[ChildSubmission] = (),
        need: int = 0,
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        pause = records[-1]
        assert isinstance(pause, LegSuspended), "the last record of a leg that suspends is its pause"
        verdict = await self._scripts.run(
            "suspend",
            **session_keys(lease.job),
            catalog=keys.catalog(lease.catalog),
            root=keys.job(root_of(lease.job)),
            **commit_of(lease, commit_id),
            **count_of(records),
            used_ms="" if used_ms is None else used_ms,
            cause=pause.cause,
            delay_ms=ms(delay_s),
            need=need,
            variables=variables_of(state or {}),
            children=[field for child in children for field in await self._begun(child, lease.catalog)],
            approvals=self._asking(lease.job, records),
            records=await self._stored(lease.job, records, lease.seq, lease.head),
            changes=lease.job,
        )
        return _verdict(verdict)

    async def _begun(self, submission: ChildSubmission, catalog: str) -> list[str | int]:
        """Return what the script needs to begin a child."""
        child = submission.child
        context = self._signing.sign(CONTEXT, (child.job, submission.leg, catalog), child.context.encode())
        write = self._copied if child.behind else self._stored
        return child_of(submission, context, await write(child.job, submission.records))

    @translated
    async def finish(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        messages: Sequence[str],
        *,
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        verdict = await self._scripts.run(
            "finish",
            **session_keys(lease.job),
            root=keys.job(root_of(lease.job)),
            **commit_of(lease, commit_id),
            **count_of(records),
            used_ms="" if used_ms is None else used_ms,
            **await self._ending(lease, records, messages, state or {}),
            changes=lease.job,
        )
        return _verdict(verdict)

    @translated
    async def stop(
        self,
        job: str,
        flag: StopFlag,
        records: Sequence[Record],
        messages: Iterable[str],
        *,
        seq: int | None = None,
        unfollowed_ms: int | None = None,
    ) -> Literal["ok", "flagged", "finished", "moved"]:
        """See ``JobStore``. Raises ``UnknownJob``."""
        verdict = await self._scripts.run(
            "stop",
            **session_keys(job),
            id=job,
            flag=flag,
            seq="" if seq is None else seq,
            token=secrets.token_hex(8),
            unfollowed_ms="" if unfollowed_ms is None else unfollowed_ms,
            **await self._ending(Lease(job, 0, "", seq=seq or 0), records, messages, {}),
            changes=job,
        )
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no job {job!r} (any more)")
        return cast(Literal["ok", "flagged", "finished", "moved"], verdict[0])

    @translated
    async def retry(self, job: str, outbox: Outbox, record: Record, deadline_s: float) -> None:
        """See ``JobStore``. Raises ``UnknownJob``, ``InvalidRequest``."""
        seq = (await self.job(job)).seq if self._signing else 0
        verdict = await self._scripts.run(
            "retry",
            **session_keys(job),
            id=job,
            message=outbox.message,
            deadline_s=deadline_s,
            token=secrets.token_hex(8),
            records=await self._stored(job, [record], seq, None),
            changes=job,
        )
        if verdict[0] == "gone":
            raise UnknownJob(f"there is no job {job!r} (any more)")
        if verdict[0] == "child":
            raise InvalidRequest(
                f"job {job!r} was delegated, and its result told: retry {verdict[1]!r}, if that failed"
            )
        if verdict[0] == "refused":
            raise InvalidRequest(f"job {job!r} is {verdict[1]}: only a job that failed or died can be retried")

    @translated
    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """See ``JobStore``."""
        if not leases:
            return {}
        stop = await self._scripts.run(
            "renew",
            jobs=[keys.job(lease.job) for lease in leases],
            lease_ms=ms(lease_s),
            leases=[field for lease in leases for field in (lease.job, lease.fence, lease.seq)],
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

    async def _ending(
        self, lease: Lease, records: Sequence[Record], messages: Iterable[str], state: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return status, reason, result, state, messages and records as the scripts that end a job take them."""
        end = records[-1]
        assert isinstance(end, Ended), "the last record of a job is its end"
        return {
            "status": end.status,
            "reason": end.reason,
            "result": end.answer if end.answer is not None else end.error or "",
            "variables": variables_of(state),
            "said": list(messages),
            "records": await self._stored(lease.job, records, lease.seq, lease.head),
        }


def _has_effects(records: Sequence[Record]) -> bool:
    """Tell whether a tool is about to begin: were that forgotten, it would begin again."""
    return any(isinstance(record, ToolStarted) for record in records)


def _verdict(verdict: list[str]) -> tuple[CommitVerdict, str]:
    return cast(CommitVerdict, verdict[0]), verdict[1] if len(verdict) > 1 else ""
