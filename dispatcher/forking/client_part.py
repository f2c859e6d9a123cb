"""The part of the client that forks jobs."""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.dispatcher.forking.again import beginning_of
from ekiden.dispatcher.forking.making import Changes, Origin, digest_of, steps_of
from ekiden.dispatcher.forking.points import ForkPoint, point_at, points_of
from ekiden.dispatcher.forking.reading import agents_for, check_graphs, job_to_fork, limits_for, state_before
from ekiden.dispatcher.forking.workspace import commit_of
from ekiden.dispatcher.identity import person_at
from ekiden.dispatcher.requests import checked_risks, checked_state
from ekiden.dispatcher.submitting import unconfirmed
from ekiden.shared.approvals import WhenAsked
from ekiden.shared.composition import LateHooks
from ekiden.shared.errors import NotConfirmed
from ekiden.shared.ids import session_id_for
from ekiden.shared.records import Entry
from ekiden.shared.relay.message import outbox, queue_of_leg
from ekiden.shared.risk import Risk
from ekiden.shared.settings.values import JOB_DEADLINE_S
from ekiden.shared.storable import storable
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import Fork
from ekiden.shared.stores.views import JobView

if TYPE_CHECKING:
    from ekiden.shared.definitions.catalog import Catalog

__all__ = ["ForkedJob", "Forking"]


@dataclass(frozen=True)
class ForkedJob:
    """A fork that there is now."""

    job: str
    origin: str
    point: ForkPoint
    is_new: bool
    """False: an earlier request with the same id has created it."""
    cwd: str
    """The folder that it works in, as it is now; empty: the workers' workspace root."""
    commit: str
    """The commit that the folder has checked out, if that is known here."""
    has_same_agents: bool = False
    """Other agent files were named, and they are those that the job has anyway."""


class Forking:
    """Begins jobs behind the steps of other ones."""

    _stores: Stores
    _hooks: LateHooks

    async def fork_points(self, job: str) -> list[ForkPoint]:
        """Return where a job can be forked, the first step first.

        Raises ``UnknownJob``, and ``InvalidRequest`` for a job that another one has delegated.
        """
        _, entries = await job_to_fork(self._stores, job)
        return points_of(entries)

    async def beginning_of(self, job: str, entries: Sequence[Entry]) -> Fork | None:
        """Return what the fork ``job`` began with, by its journal; None: it is no fork."""
        return await beginning_of(self._stores, job, entries)

    async def fork(
        self,
        job: str,
        at: int,
        *,
        prompt: str = "",
        state: Mapping[str, Any] | None = None,
        agent: str | None = None,
        catalog: "Catalog | None" = None,
        approve: Collection[Risk] = (),
        when_asked: WhenAsked | None = None,
        deadline_s: float = JOB_DEADLINE_S,
        request_id: str | None = None,
    ) -> ForkedJob:
        """Begin a new job that has the steps of ``job`` up to ``at``, and goes on from there in a session of its own.

        What stands there is neither asked nor done again, and not paid for; what was spent counts for no limit. The
        session has what was said before ``job``, and its variables as they were. Files are as they are now. The other
        job may run on; neither hears of the other. The same ``request_id`` gives the same job.

        Args:
            job: Which job, ended or not.
            at: The step: the ``seq`` of one of ``fork_points``.
            prompt: What the user says: before the routing in the place of the request, later besides.
            state: Session variables to set; None takes one away.
            agent: Who goes on, in the place of who had control.
            catalog: Agents in the place of those that the job is pinned to: of this job alone, they are not in force.
            approve: Risks of which every call is approved in advance, so far as the caller may approve it; what was
                approved for ``job`` counts for no other.
            when_asked: What becomes of any other call that is asked about; None: what ``job`` does with it.
            deadline_s: When a job that has not ended by then ends as failed.
            request_id: Chosen by the caller, to repeat a fork whose answer was lost.

        Raises:
            InvalidRequest: a delegated job, no such point, or a request id that is another's.
            UnknownAgent: the catalog has no such agent.
            UnknownJob: there is none.
            NoCatalog: the job's agents are not on the server any more.
            Forged: somebody else has written to the job's journal, where jobs are signed.
            NotPermitted: the Redis user may not begin jobs by itself.
            StoreUnavailable, NotConfirmed: as ``submit``.
        """
        stores, request_id = self._stores, request_id or secrets.token_hex(16)
        view, entries = await job_to_fork(stores, job)
        stores.forks.check(job, entries)
        point = point_at(points_of(entries), at, job)
        said, digest = checked_state(state or {}), catalog.digest if catalog is not None else ""
        changes = Changes(storable(prompt).strip(), agent or "", said, digest, checked_risks(approve), when_asked)
        pinned = await agents_for(stores, view, point, catalog, changes)
        if catalog is not None:
            check_graphs(entries, point, catalog)
        fork_id = f"{session_id_for(request_id)}.{job.rpartition('.')[2]}"
        origin, trace, began_ns = await self._origin(view, entries), self._hooks.traceparent(), time.time_ns()
        steps = steps_of(origin, point, changes, fork_id, request_id, trace)
        box = outbox(fork_id, steps.leg, queue_of_leg(steps.leg, steps.context.to_agent), steps.context)
        fork = Fork(
            fork_id,
            job,
            steps.records,
            steps.leg,
            steps.context,
            box,
            pinned,
            request_id,
            digest_of(job, at, changes, deadline_s),
            deadline_s,
            await limits_for(stores, view, entries, catalog) if steps.leg else {},
            {**await state_before(stores, job, entries, at), **said},
        )
        if catalog is not None:
            await stores.catalogs.add(*catalog.to_store())
        try:
            is_new = await stores.forks.begin(fork)
        except NotConfirmed as error:
            raise unconfirmed(error, fork_id, request_id) from error
        if is_new:
            self._hooks.started().job_submitted(fork_id, trace, box.queue, began_ns)
        is_same = catalog is not None and catalog.digest == view.catalog
        return ForkedJob(fork_id, job, point, is_new, origin.cwd, origin.commit, is_same)

    async def _origin(self, job: JobView, entries: list[Entry]) -> Origin:
        person = await person_at(self._stores)
        commit = await asyncio.to_thread(commit_of, job.cwd)
        return Origin(job.id, entries, job.cwd, commit, storable(person.name), person.is_claimed)
