"""Finds legs that nobody runs though somebody should, and wakes them. Every pool process sweeps; no leader."""

from typing import cast

import structlog

from ekiden.shared.errors import StopFlag, StoreUnavailable, UnknownJob, UnreadableJournal
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.hooks.base import NO_HOOKS, Hook
from ekiden.shared.outcomes import Failed
from ekiden.shared.records import Ended, Entry, HandedOff
from ekiden.shared.relay.answering import expire_approvals
from ekiden.shared.relay.leg import entries_behind, journal_of
from ekiden.shared.relay.termination import records_that_close, stop_job
from ekiden.shared.relay.transitions import move_of, return_of
from ekiden.shared.stores.base import JobStore, Lease
from ekiden.shared.stores.views import JobView

__all__ = ["end_overdue", "sweep"]

log = structlog.get_logger(__name__)


async def sweep(store: JobStore, *, grace_s: float, max_attempts: int, hooks: Hook = NO_HOOKS) -> int:
    """End what is past its deadline and wake what is overdue; return how many messages were pushed again.

    Scripts decide: two sweepers do no harm.
    """
    await end_overdue(store, at_ms := await store.passed_ms(), hooks)
    woken = 0
    while found := await _wake(
        store, grace_s, max_attempts, at_ms, hooks
    ):  # one look finds the oldest of each queue only
        woken += found
        at_ms = await store.passed_ms()  # pools vouch for relay time while they sweep, however much there is
    return woken


async def _wake(store: JobStore, grace_s: float, max_attempts: int, at_ms: int, hooks: Hook) -> int:
    woken = 0
    for job in await store.overdue(grace_s, at_ms=at_ms):
        try:
            woken += await _see_to(store, job, grace_s, max_attempts, at_ms, hooks)
        except StoreUnavailable:
            raise
        except Exception:  # one job's trouble must not keep all others waiting
            log.exception("job_not_swept", job=job)
    return woken


async def _see_to(store: JobStore, job: str, grace_s: float, max_attempts: int, at_ms: int, hooks: Hook) -> bool:
    verdict, _, detail = (await store.requeue(job, grace_s, max_attempts, at_ms=at_ms)).partition(" ")
    if verdict == "ok":
        log.info("leg_requeued", job=job)
        hooks.leg_requeued(job)
    elif verdict == "stopped":
        log.info("stopped_job_ended", job=job, verdict=await stop_job(store, job, cast(StopFlag, detail), hooks))
    elif verdict == "unanswered":
        await expire_approvals(store, job, at_ms, hooks)
    elif verdict == "dead":
        await _bury(store, await store.job(job), int(detail), max_attempts, hooks)
    return verdict == "ok"


async def _bury(store: JobStore, job: JobView, leg: int, max_attempts: int, hooks: Hook) -> None:
    """End a job that nobody can run; where an agent waits for the one that died, that one goes on."""
    error = (
        f"agent {job.agent!r} took its worker along {max_attempts} times without any progress: "
        f"see the workers' logs, then `ekiden job retry {job.id}`"
    )
    end = Ended(leg=leg, status="dead", reason="ERROR", error=error)
    try:
        entries = await journal_of(store, job.id)
    except UnreadableJournal:  # a newer program wrote it
        entries = []
    # Named by the position, for a job that is retried may die on the same leg again, and that is another death.
    lease, commit = Lease(job.id, leg, "", job.catalog, job.seq), f"dead.{leg}.{job.seq}"
    if (current := _context_of(entries)) is not None and current.calls:
        back = return_of(current, Failed("ERROR", error), len(entries))
        records, wakes = move_of(job.id, leg, back, entries)
        if (await store.transfer(lease, commit, back, records, wakes))[0] == "ok":
            hooks.leg_buried(job.id, entries, entries_behind(job.seq, records))
        log.error("agent_dead", job=job.id, leg=leg, agent=job.agent, back_to=back.context.to_agent)
        return
    records = records_that_close(entries, end)
    verdict, _ = await store.finish(lease, commit, records, ())
    if verdict == "ok":
        hooks.job_ended(job.id, entries, entries_behind(job.seq, records), in_leg=False)
    log.error("job_dead", job=job.id, leg=leg)


def _context_of(entries: list[Entry]) -> HandoffContext | None:
    moves = (entry.record.context for entry in reversed(entries) if isinstance(entry.record, HandedOff))
    return next(moves, None)


async def end_overdue(store: JobStore, at_ms: int | None = None, hooks: Hook = NO_HOOKS) -> int:
    """End the jobs whose deadline has passed at ``at_ms`` (None: now), whether anybody runs them; return how many."""
    overdue = await store.past_deadline(at_ms=at_ms)
    for job in overdue:
        try:
            log.warning("deadline_passed", job=job, verdict=await stop_job(store, job, "deadline", hooks))
        except UnknownJob:
            await store.forget(job)
        except StoreUnavailable:
            raise
        except Exception:  # as above
            log.exception("job_not_swept", job=job)
    return len(overdue)
