"""Finds legs that nobody runs though somebody should, and wakes them. Every pool process sweeps; no leader."""

import structlog

from shared.records import Ended
from shared.stores.base import JobStore, JobView, Lease

__all__ = ["sweep"]

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
    error = f"agent {job.agent!r} took its worker along {max_attempts} times without any progress"
    end = Ended(leg=leg, status="dead", reason="ERROR", error=error)
    await store.finish(Lease(job.id, leg, "", job.queue), f"dead.{leg}", end, ())
    log.error("job_dead", job=job.id, leg=leg)
