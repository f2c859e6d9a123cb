"""Ends a job from outside: a user's cancel, a deadline. Whoever runs it is told; nobody does: it is ended here."""

import asyncio
from typing import Literal

from ekiden.shared.errors import StopFlag, UnreadableJournal
from ekiden.shared.hooks.base import NO_HOOKS, Hook
from ekiden.shared.outcomes import DEADLINE_PASSED
from ekiden.shared.records import Ended, Entry, Record
from ekiden.shared.relay.leg import closing_records, entries_behind, journal_of
from ekiden.shared.stores.base import JobStore
from ekiden.shared.stores.clock import TRIAL_S

__all__ = ["records_that_close", "stop_job", "stop_or_wait"]


async def stop_job(
    store: JobStore, job: str, flag: StopFlag, hooks: Hook = NO_HOOKS
) -> Literal["ok", "flagged", "finished"]:
    """Stop ``job``: ended now (``ok``), soon by the worker that runs it (``flagged``), or over before.

    Every call in its journal has one answer then. Raises ``UnknownJob``.
    """
    return await _stop(store, job, flag, None, hooks)


async def stop_or_wait(
    store: JobStore, job: str, flag: StopFlag, hooks: Hook = NO_HOOKS
) -> Literal["ok", "flagged", "finished"]:
    """Stop ``job`` as ``stop_job`` does, also where no pool runs, which takes a while to see: not for pools."""
    verdict = await stop_job(store, job, flag, hooks)
    if verdict == "flagged" and (unfollowed_ms := await store.unfollowed_ms()) is not None:
        await asyncio.sleep(TRIAL_S)
        return await _stop(store, job, flag, unfollowed_ms, hooks)
    return verdict


async def _stop(
    store: JobStore, job: str, flag: StopFlag, unfollowed_ms: int | None, hooks: Hook
) -> Literal["ok", "flagged", "finished"]:
    while True:
        view = await store.job(job)
        flag = view.stop or flag  # who came first gives the reason
        entries = await _readable(store, job)
        seq = None if entries is None else len(entries)
        records = records_that_close(entries or [], _end(view.leg, flag))
        verdict = await store.stop(job, flag, records, (), seq=seq, unfollowed_ms=unfollowed_ms)
        if verdict == "ok":
            hooks.job_ended(job, entries or [], entries_behind(len(entries or []), records), in_leg=False)
        if verdict != "moved":  # else it went on while we looked
            return verdict


def records_that_close(entries: list[Entry], end: Ended) -> list[Record]:
    """Return ``end`` behind an answer for every call that has none."""
    return [*closing_records(entries, end.leg, f"Not finished: {end.reason}."), end]


async def _readable(store: JobStore, job: str) -> list[Entry] | None:
    """Return the journal; None when a newer program wrote it, which must keep nobody from ending the job."""
    try:
        return await journal_of(store, job)
    except UnreadableJournal:
        return None


def _end(leg: int, flag: StopFlag) -> Ended:
    if flag == "deadline":
        return Ended(leg=leg, status="failed", reason="TIMEOUT", error=DEADLINE_PASSED)
    why = "the job that delegated it needs it no more" if flag == "parent" else "cancelled by the user"
    return Ended(leg=leg, status="cancelled", reason="ABORTED", error=why)
