"""Runs a job again with the model unplugged: by the real pools, on a server of its own, from what was recorded."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import Difference, first_difference
from ekiden.dispatcher.local.playing import decisions_in, play_through
from ekiden.dispatcher.local.private_place import PrivatePlace, private_place
from ekiden.dispatcher.local.served import unserved, with_served
from ekiden.dispatcher.session_state import state_before
from ekiden.shared.errors import InvalidRequest, UnknownJob
from ekiden.shared.ids import parent_of, root_of, session_of
from ekiden.shared.instruction_parts import speaks_of_files
from ekiden.shared.recordings import number_of, recording_of, write_recording
from ekiden.shared.records import Entry, HandedOff, Hooked, JobRequested, ModelReplied
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.shared.stores.submissions import Fork
from ekiden.shared.stores.views import JobView

__all__ = ["Rerun", "rerun"]

_SIX_HOURS_S = 21_600.0
"""A job that is played again has no deadline to speak of: it takes seconds."""


@dataclass(frozen=True)
class Rerun:
    """What came of it.

    Attributes:
        job: What was run again.
        jobs: How many journals were compared: with those of delegated jobs.
        steps: How many decisions they hold.
        difference: Where the second run first differs; None: nowhere.
        notes: What to know of the comparison.
    """

    job: str
    jobs: int
    steps: int
    difference: Difference | None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        found = self.difference.as_json() if self.difference else None
        counts = {"job": self.job, "equal": found is None, "jobs": self.jobs, "steps": self.steps}
        return {**counts, "difference": found, "notes": list(self.notes)}


@dataclass(frozen=True)
class _Original:
    """All that the second run needs of the first."""

    view: JobView
    journals: Mapping[str, Sequence[Entry]]
    catalog: tuple[dict[str, str], dict[str, str]]
    session: SessionView
    said: Sequence[SessionMessage]
    state: Mapping[str, Any]
    is_untrusted: bool
    fork: Fork | None
    """What it began with, where it is a fork."""

    @property
    def request(self) -> JobRequested:
        first = self.journals[self.view.id][0].record
        assert isinstance(first, JobRequested), "the first record of a job is its request"
        return first


async def rerun(client: Client, job: str, since: int = 0) -> Rerun:
    """Run ``job`` again and compare, from the step ``since`` of its journal on.

    Raises:
        InvalidRequest: it has not ended, was delegated by another one, or has no such step.
        NoCatalog: the server has its agents no more.
    """
    original = await _read(client, job)
    if since > original.view.seq:
        raise InvalidRequest(f"job {job} has {original.view.seq} steps, and none of the number {since}")
    with private_place() as place:
        journals = await _second_run(place, original)
    unknown = unserved(original.journals, journals)
    was = decisions_of(original.journals, unknown)
    now = decisions_of(journals, unknown, played=original.journals)
    difference = first_difference(was, now, since)
    return Rerun(job, len(was), sum(map(len, was.values())), difference, tuple(_notes(original, unknown)))


async def _read(client: Client, job: str) -> _Original:
    if parent_of(job) is not None:
        raise InvalidRequest(f"job {job} is a part of {root_of(job)}: run that again, its parts are compared, too")
    view = await client.job(job)
    if not view.is_over:
        raise InvalidRequest(f"job {job} has not ended ({view.status}): only what has can be run again")
    number = int(number_of(job))
    session = await client.session(session_of(job))
    said = [one for one in await client.messages(session.id) if int(number_of(one.job)) < number]
    earlier = await _earlier(client, session.id, number)
    journals = await with_served(client, await client.journals(job))
    if not any(isinstance(entry.record, HandedOff) for entry in journals[job]):
        raise InvalidRequest(
            f"nobody was found for job {job}: no agent has decided anything in it. `ekiden route` shows whose its "
            "request is now"
        )
    return _Original(
        view,
        journals,
        await client.published(view.catalog),
        replace(session, jobs=number - 1, active=None),
        said,
        state_before([await client.entries(one.id) for one in earlier]),
        any(one.untrusted for one in earlier),
        await client.beginning_of(job, journals[job]),
    )


async def _earlier(client: Client, session: str, number: int) -> list[JobView]:
    """Return the session's jobs before that of the number, as far as they are still kept."""
    found = []
    for job in (f"{session}.{n}" for n in range(1, number)):
        with suppress(UnknownJob):
            found.append(await client.job(job))
    return found


async def _second_run(place: PrivatePlace, original: _Original) -> dict[str, list[Entry]]:
    job, settings = original.view.id, load_settings()
    write_recording(place.folder, job, recording_of(original.journals))
    stores = open_stores(place.url, signing=settings.signing)
    try:
        await stores.catalogs.publish(original.view.catalog, *original.catalog, replaces=None)
        session = original.session
        if original.fork is not None:  # which begins a session of its own, as that of the other job was
            session = replace(session, id=session_of(original.fork.origin))
        await stores.sessions.restore(session, original.said, original.state, is_untrusted=original.is_untrusted)
        root = _folder(place, original)
        with place.pools(root, plays=True) as stack:
            async with client_of(place.url, wait_replicas=0) as client:
                await stack.ready(client)
                if original.fork is None:
                    await _submit(client, original, root)
                else:
                    await stores.forks.begin(_in_folder(original.fork, root))
                await play_through(client, stack, job, decisions_in(original.journals))
                return await client.journals(job)
    finally:
        await stores.close()


async def _submit(client: Client, original: _Original, root: Path | None) -> None:
    request = original.request
    again = await client.submit(
        request.prompt,
        agent=request.agent,
        strategy=request.strategy,
        cwd=root if request.cwd else None,
        session=original.session.id,
        deadline_s=_SIX_HOURS_S,
        state=request.state,
        inputs=request.inputs,
        approve=request.approve,
        when_asked=request.when_asked,
    )
    assert again == original.view.id, "the session had one job less"


def _in_folder(fork: Fork, root: Path | None) -> Fork:
    request, *shared = fork.records
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    moved = request.model_copy(update={"cwd": str(root) if request.cwd else None})
    return replace(fork, records=[moved, *shared], deadline_s=_SIX_HOURS_S)


def _folder(place: PrivatePlace, original: _Original) -> Path | None:
    """Return the folder that the job had, where there is one here: only whether it is a repository is looked at.

    None: its workers had no files to work on, for no agent was told of any.
    """
    if cwd := original.request.cwd:
        return Path(cwd) if Path(cwd).is_dir() else place.work
    prompts = [one.prompt.text for one in _replies(original) if one.prompt is not None]
    return None if prompts and not any(map(speaks_of_files, prompts)) else place.work


def _replies(original: _Original) -> Iterator[ModelReplied]:
    records = (entry.record for entries in original.journals.values() for entry in entries)
    return (record for record in records if isinstance(record, ModelReplied))


def _notes(original: _Original, unserved: Collection[tuple[str, str]]) -> list[str]:
    records = [entry.record for entries in original.journals.values() for entry in entries]
    notes = []
    if original.fork is not None:
        notes.append(f"the job is a fork: what it shares with {original.fork.origin} is taken as it is")
    if any(isinstance(record, Hooked) for record in records):
        notes.append("what hooks said is taken from the journal: none is asked")
    if names := ", ".join(sorted({agent for _, agent in unserved})):
        notes.append(
            f"what MCP servers offered {names} is not recorded, or kept no more: the tools are left out of the "
            "comparison of prompts, and calls of these tools are refused in the second run"
        )
    return notes
