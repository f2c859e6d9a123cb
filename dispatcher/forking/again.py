"""A fork as it began: to run it again, the steps that it shares are given to it again."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ekiden.dispatcher.forking.reading import job_to_fork, state_before
from ekiden.shared.errors import UnknownJob
from ekiden.shared.handoff import first_context
from ekiden.shared.records import BY_FORK, Entry, Forked, HandedOff, JobRequested, StateChanged
from ekiden.shared.relay.message import outbox, queue_of_leg
from ekiden.shared.settings.values import JOB_DEADLINE_S
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import Fork

__all__ = ["beginning_of"]


async def beginning_of(stores: Stores, job: str, entries: Sequence[Entry]) -> Fork | None:
    """Return what the fork ``job`` began with, by its journal, which a fork of a fork shares too; None: it is none."""
    at = next((one.seq for one in reversed(entries) if isinstance(one.record, Forked)), None)
    if at is None:
        return None
    forked, request = entries[at - 1].record, entries[0].record
    assert isinstance(forked, Forked), "it was found as such"
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    own = entries[at].record if at < len(entries) else None
    changes = dict(own.changes) if isinstance(own, StateChanged) and own.by == BY_FORK else {}
    records = [entry.record for entry in entries[: at + bool(changes)]]
    moves = [record.context for record in records if isinstance(record, HandedOff)]
    context = moves[-1] if moves else first_context(job, request.traceparent or "")
    return Fork(
        job,
        forked.job,
        records,
        forked.leg,
        context,
        outbox(job, forked.leg, queue_of_leg(forked.leg, context.to_agent), context),
        (await stores.jobs.job(job)).catalog if forked.leg else "",
        request.request_id or job,
        "",
        JOB_DEADLINE_S,
        await stores.forks.limits_of(job) if forked.leg else {},
        {**await _variables(stores, job, entries, forked), **changes},
    )


async def _variables(stores: Stores, job: str, entries: Sequence[Entry], forked: Forked) -> dict[str, Any]:
    """Return the variables that the fork's session began with: as the other job's journal has them, if it is there."""
    with suppress(UnknownJob):
        _, others = await job_to_fork(stores, forked.job)
        return await state_before(stores, forked.job, others, forked.seq)
    return await state_before(stores, job, entries, forked.seq)
