"""What a fork is given beside the steps of the other job: its session's variables, its agents, its limits."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.dispatcher.forking.making import Changes
from ekiden.dispatcher.forking.points import ForkPoint
from ekiden.dispatcher.journal_cursor import delegated_in
from ekiden.dispatcher.requests import require_agent
from ekiden.dispatcher.session_state import changes_of, counted, state_at
from ekiden.shared.definitions.graph import END
from ekiden.shared.errors import InvalidRequest, NoCatalog, UnknownJob, UnreadableDefinition
from ekiden.shared.ids import parent_of, session_of
from ekiden.shared.job_limits import BUDGETS, JobLimits
from ekiden.shared.records import Entry, HandedOff, NodeFinished
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import JobView

if TYPE_CHECKING:
    from ekiden.shared.definitions.catalog import Catalog

__all__ = ["agents_for", "check_graphs", "job_to_fork", "limits_for", "state_before"]


async def job_to_fork(stores: Stores, job: str) -> tuple[JobView, list[Entry]]:
    """Return a job that can be forked, with its journal.

    Raises ``UnknownJob``, and ``InvalidRequest`` for a job that another one has delegated.
    """
    view = await stores.jobs.job(job)
    if (parent := parent_of(job)) is not None:
        begun = (entry.seq for entry in await _journal(stores, parent) if getattr(entry.record, "child", "") == job)
        where = next((f", which delegated it at step {seq}" for seq in begun), "")
        raise InvalidRequest(
            f"job {job!r} works for job {parent!r}{where}, and has no user to answer to: fork that one before it "
            f"delegates (`ekiden job fork {parent}` lists where), and it delegates anew"
        )
    return view, await _journal(stores, job)


async def agents_for(
    stores: Stores, job: JobView, point: ForkPoint, catalog: "Catalog | None", changes: Changes
) -> str:
    """Return the digest of the catalog that a fork is pinned to; empty: it is routed, by the one in force.

    Raises ``InvalidRequest``, ``UnknownAgent``, ``NoCatalog``.
    """
    if not point.leg:
        if catalog is not None:
            raise InvalidRequest(
                f"at {point.seq} the job is yet to be routed, and the dispatcher routes by the catalog in force: fork "
                "it behind the route to have other agents"
            )
        in_force = await stores.catalogs.in_force() if changes.agent else None
        if in_force is not None:
            require_agent(changes.agent, in_force.manifest)
        return ""
    digest = catalog.digest if catalog is not None else job.catalog
    names = catalog.names if catalog else await _manifest(stores, job)
    for agent in (changes.agent or point.agent, *point.waiting):
        require_agent(agent, names)
    return digest


def check_graphs(entries: Sequence[Entry], point: ForkPoint, catalog: "Catalog") -> None:
    """Raise ``InvalidRequest`` where the job is in a graph there that other agent files lack, or a node of it."""
    shared = [entry.record for entry in entries[: point.seq]]
    moved = [record.context for record in shared if isinstance(record, HandedOff)]
    ended = [record for record in shared if isinstance(record, NodeFinished)]
    for at in moved[-1].graphs if moved else ():
        where = f"at {point.seq} the job is in the graph of agent {at.graph!r}, which"
        before = "fork it before that graph begins"
        if at.graph not in catalog:
            raise InvalidRequest(f"{where} the agent files have no more: {before}")
        if (graph := catalog.definition(at.graph).graph) is None:
            raise InvalidRequest(f"{where} is no graph in the agent files: {before}")
        passed = {at.node, *(name for one in ended if one.run == at.run for name in (one.node, *one.next))}
        for name in sorted(passed - {"", END}):
            if name not in graph.by_name:
                raise InvalidRequest(f"{where} has no node {name!r} in the agent files, and has come to it: {before}")


async def _manifest(stores: Stores, job: JobView) -> Mapping[str, str]:
    try:
        return await stores.catalogs.manifest(job.catalog)
    except NoCatalog:
        raise NoCatalog(
            f"the agents of job {job.id!r} (catalog {job.catalog[:12]!r}) are not on the server any more: name a "
            "folder with agent files by --catalog, or fork the job before it was routed"
        ) from None


async def limits_for(
    stores: Stores, job: JobView, entries: Sequence[Entry], catalog: "Catalog | None"
) -> dict[str, int]:
    """Return what a fork may use up, as the store counts it: what the job may, with other agents what their files say.

    A limit of the job that is no word of its first agent's file is one of the settings, and holds on.
    """
    had = await stores.forks.limits_of(job.id)
    route = next((entry.record.context.to_agent for entry in entries if isinstance(entry.record, HandedOff)), "")
    if catalog is None or route not in catalog:
        return had
    said = await _said_by_file(stores, job, route)
    of_others = {what: most for what, most in had.items() if what in BUDGETS or said.get(what) != most}
    of_file = catalog.definition(route).limits.of_job.lowest(JobLimits(**load_settings().job_limits)).counted()
    return {what: min(found[what] for found in (of_others, of_file) if what in found) for what in of_others | of_file}


async def _said_by_file(stores: Stores, job: JobView, agent: str) -> Mapping[str, int]:
    """Return the limits in the file of the job's first agent, as it was; none where nobody has it any more."""
    from ekiden.shared.definitions.model import AgentDefinition  # who only submits does without

    try:
        text = await stores.catalogs.definition(job.catalog, (await stores.catalogs.manifest(job.catalog))[agent])
        return AgentDefinition.from_json(text).limits.of_job.counted()
    except (NoCatalog, KeyError, UnreadableDefinition):
        return {}


async def state_before(stores: Stores, job: str, entries: Sequence[Entry], at: int) -> dict[str, Any]:
    """Return the session's variables as they were behind the step ``at`` of a job of it.

    One that no journal of the session has set, or whose journal is gone, is as it is now.
    """
    session = session_of(job)
    now = await stores.sessions.state(session)
    if not now and not any(changes_of(entry.record) for entry in entries[:at]):
        return {}
    count = (await stores.sessions.session(session)).jobs
    steps: list[tuple[Entry, bool]] = [(entry, entry.seq <= at) for entry in entries]
    until_ms = entries[at - 1].at_ms
    others = [f"{session}.{number}" for number in range(1, count + 1)]
    others = [*(one for one in others if one != job), *delegated_in(job, entries)]
    while others:
        journal = await _journal_if_there(stores, other := others.pop())
        others += delegated_in(other, journal)
        steps += [(entry, entry.at_ms <= until_ms) for entry in counted(journal)]
    in_order = sorted(steps, key=lambda step: step[0].at_ms)
    return state_at(now, [(entry.record, is_counted) for entry, is_counted in in_order])


async def _journal(stores: Stores, job: str) -> list[Entry]:
    from ekiden.shared.relay.leg import journal_of  # what runs legs: who submits does without

    return await journal_of(stores.jobs, job)


async def _journal_if_there(stores: Stores, job: str) -> list[Entry]:
    try:
        return await _journal(stores, job)
    except UnknownJob:
        return []
