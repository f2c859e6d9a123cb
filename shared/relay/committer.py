"""Writes what a leg ends with, and tells of what is written."""

from collections.abc import Sequence
from typing import Any, cast

from ekiden.shared.errors import StopFlag
from ekiden.shared.hooks.base import Hook
from ekiden.shared.outcomes import Answer, Cancelled, Failed, Outcome, Suspended, Transfer, Unfinished
from ekiden.shared.records import ApprovalAsked, Delegated, Ended, Entry, LegSuspended, Record, Refused, encode_record
from ekiden.shared.relay.journals import Journals
from ekiden.shared.relay.leg import Leg, closing_records, entries_behind
from ekiden.shared.relay.outcome_records import End, end_of, messages_in, stopped_by, submission_of
from ekiden.shared.relay.refusals import why_refused
from ekiden.shared.relay.transitions import move_of, return_of
from ekiden.shared.relay.write_retries import WriteRetries
from ekiden.shared.stores.base import CommitVerdict, JobStore

__all__ = ["Committer"]


class Committer:
    """Commits the legs of one pool process: each in one write, together with what it begins or wakes."""

    def __init__(
        self, store: JobStore, with_retries: WriteRetries, journals: Journals, *, cycles: str, hooks: Hook
    ) -> None:
        """Make a committer.

        Args:
            store: Jobs and journals.
            with_retries: Writes again while nobody knows whether the server has it.
            journals: Forgets those of jobs that have ended.
            cycles: ``deny``, ``parent`` or ``limit:<n>``.
            hooks: Are told what happens.
        """
        self._store = store
        self._with_retries = with_retries
        self._journals = journals
        self._cycles = cycles
        self._hooks = hooks

    async def commit(self, leg: Leg, outcome: Outcome) -> CommitVerdict:
        """Write ``outcome``, or the job's end if somebody has stopped it meanwhile; return what became of the write."""
        match outcome:
            case Transfer():
                verdict, detail = await self._transfer(leg, outcome)
            case Suspended():
                verdict, detail = await self._suspend(leg, outcome)
            case Answer(is_final=False) | Unfinished() | Failed() if leg.context.calls:
                verdict, detail = await self._transfer(leg, return_of(leg.context, outcome, len(leg.entries)))
            case _:
                verdict, detail = await self._finish(leg, outcome)
        if verdict == "cancelled":  # somebody stopped the job just before
            outcome = stopped_by(cast(StopFlag, detail or "user"))
            verdict, _ = await self._finish(leg, outcome)
        if verdict == "ok":
            self._tell(leg, entries_behind(leg.lease.seq, leg.in_flight))
        leg.in_flight = ()
        if verdict == "ok" and isinstance(outcome, Suspended):
            for view in outcome.approvals:
                self._hooks.approval_asked(view)
        leg.hooks.committed(outcome, verdict)
        return verdict

    async def catch_up(self, leg: Leg) -> None:
        """Take in what a write that was broken off has left, and tell of it: nobody else does."""
        if written := [encode_record(record) for record in leg.in_flight]:
            known = len(leg.written)  # and not the lease's position: a write may move that on, and be broken off then
            entries = await self._with_retries(self._store.journal, leg.job, after=known, limit=len(written))
            if [encode_record(entry.record) for entry in entries] == written:
                self._tell(leg, entries)
                leg.take(entries)

    def _tell(self, leg: Leg, entries: Sequence[Entry]) -> None:
        """Tell of what is behind the leg's journal now."""
        leg.in_flight = ()
        leg.hooks.recorded(entries)
        if isinstance(entries[-1].record, Ended):
            self._journals.forget(leg.job)
            self._hooks.job_ended(leg.job, leg.written, entries, in_leg=True)

    async def _finish(self, leg: Leg, outcome: End) -> tuple[CommitVerdict, str]:
        end = end_of(leg.number, outcome)
        records: list[Record] = [*closing_records(leg.entries, leg.number, f"Not finished: {end.reason}."), end]
        told: dict[str, Any] = {"state": {} if isinstance(outcome, Cancelled) else leg.changes, "used_ms": leg.used_ms}
        written, said = leg.begin_write(records), messages_in(leg, end)
        return await self._with_retries(self._store.finish, leg.lease, leg.next_write(), written, said, **told)

    async def _suspend(self, leg: Leg, outcome: Suspended) -> tuple[CommitVerdict, str]:
        begun = {record.child for record in leg.records if isinstance(record, Delegated)}
        records: list[Record] = [
            Delegated(leg=leg.number, call_id=one.call_id, child=one.job, agent=one.agent, objective=one.objective)
            for one in outcome.children
            if one.job not in begun
        ]
        records += map(ApprovalAsked.of, outcome.approvals)
        records.append(
            LegSuspended(leg=leg.number, cause=outcome.cause, delay_s=outcome.delay_s, detail=outcome.detail)
        )
        children = [submission_of(leg, child) for child in outcome.children]
        written = leg.begin_write(records)
        return await self._with_retries(
            self._store.suspend,
            leg.lease,
            leg.next_write(),
            written,
            outcome.delay_s,
            children=children,
            need=outcome.need,
            state=leg.changes if outcome.children else None,
            used_ms=leg.used_ms if leg.is_holding else None,
        )

    async def _transfer(self, leg: Leg, transfer: Transfer) -> tuple[CommitVerdict, str]:
        records, wakes = move_of(leg.job, leg.number, transfer, leg.entries)
        written = leg.begin_write(records)
        verdict, code = await self._with_retries(
            self._store.transfer,
            leg.lease,
            leg.next_write(),
            transfer,
            written,
            wakes,
            cycles=self._cycles,
            state=leg.changes,
            used_ms=leg.used_ms,
        )
        if verdict == "refused":
            text = why_refused(code, transfer)
            name = transfer.tool_name or transfer.context.to_agent
            await leg.record(Refused(leg=leg.number, call_id=transfer.call_id, name=name, code=code, message=text))
        return verdict, code
