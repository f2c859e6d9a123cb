"""Finds legs that nobody runs though somebody should, and wakes them. Every pool process sweeps; no leader."""

import structlog

from shared.errors import UnknownJob
from shared.records import Ended
from shared.relay.leg import closing_records, journal_of
from shared.stores.base import JobStore, JobView, Lease

__all__ = ["end_overdue", "sweep"]

log = structlog.get_logger(__name__)


async def sweep(store: JobStore, *, grace_s: float, max_attempts: int) -> int:
    """Wake what is overdue; return how many messages were pushed again. Scripts decide: two sweepers do no harm."""
    woken = 0
    while found := await _wake(store, grace_s, max_attempts):  # one look finds the oldest of each queue only
        woken += found
    return woken


async def _wake(store: JobStore, grace_s: float, max_attempts: int) -> int:
    woken = 0
    for job in await store.overdue(grace_s):
        verdict, _, leg = (await store.requeue(job, grace_s, max_attempts)).partition(" ")
        if verdict == "ok":
            woken += 1
            log.info("leg_requeued", job=job)
        elif verdict == "dead":
            await _bury(store, await store.job(job), int(leg), max_attempts)
    return woken


async def _bury(store: JobStore, job: JobView, leg: int, max_attempts: int) -> None:
    """End a job that nobody can run."""
    error = f"agent {job.agent!r} took its worker along {max_attempts} times without any progress"
    end = Ended(leg=leg, status="dead", reason="ERROR", error=error)
    records = [*closing_records(await journal_of(store, job.id), leg, "Not finished: the job died."), end]
    await store.finish(Lease(job.id, leg, ""), f"dead.{leg}", records, ())
    log.error("job_dead", job=job.id, leg=leg)


async def end_overdue(store: JobStore) -> int:
    """End the jobs whose deadline has passed, whether anybody runs them or not; return how many."""
    overdue = await store.past_deadline()
    for job in overdue:
        try:
            view = await store.job(job)
        except UnknownJob:
            await store.forget(job)
            continue
        end = Ended(leg=view.leg, status="failed", reason="TIMEOUT", error="the job's deadline has passed")
        records = [*closing_records(await journal_of(store, job), view.leg, "Not finished: TIMEOUT."), end]
        log.warning("deadline_passed", job=job, verdict=await store.stop(job, "deadline", records, ()))
    return len(overdue)
