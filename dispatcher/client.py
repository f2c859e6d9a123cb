"""The Python API behind the command line: submit a request, follow its job, read the result.

async with Client("redis://localhost") as client:
    job = await client.submit("the tests of this project fail", cwd="/srv/shop")
    async for entry in client.follow(job):
        print(entry.record)
    print((await client.job(job)).result)
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from ekiden.dispatcher.approvals import Approvals
from ekiden.dispatcher.conversations import Conversations
from ekiden.dispatcher.forking.client_part import Forking
from ekiden.dispatcher.identity import person_at
from ekiden.dispatcher.journal_cursor import JournalCursor, delegated_in
from ekiden.dispatcher.learning.client_part import Learning
from ekiden.dispatcher.operations import Operations
from ekiden.dispatcher.remembering import Remembering
from ekiden.dispatcher.requests import (
    SubmitRequest,
    checked_folder,
    checked_inputs,
    checked_request,
    checked_risks,
    checked_state,
)
from ekiden.dispatcher.retrying import Retrying
from ekiden.dispatcher.submitting import Created, OwnJobs, create_job
from ekiden.shared.approvals import WhenAsked
from ekiden.shared.composition import LateHooks
from ekiden.shared.errors import NotConfirmed, NotPermitted, StoreUnavailable, WentBack
from ekiden.shared.records import Ended, Entry, HandedOff
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.risk import Risk
from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.settings.values import JOB_DEADLINE_S
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.storable import storable
from ekiden.shared.stores.base import OnBusy
from ekiden.shared.stores.job_reader import Unfinished
from ekiden.shared.stores.live import LiveRead
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.replication import RequireReplicas
from ekiden.shared.stores.views import JobView

__all__ = ["Client"]

WAIT_S = 2.0
"""How long one read of a journal blocks; below the connection's timeout."""
MAX_FOLLOWED = 1_000
"""Jobs that one client follows at once: each holds a connection while it waits, beside those for all other commands."""
MAX_JOB_TREE = 2_000
"""Jobs below one whose journals are read with its own."""
_PAGE = 20
"""How many jobs are asked for in one question."""
_AT_ONCE = 20
"""How many questions are put to the server side by side."""

Q = TypeVar("Q")
A = TypeVar("A")


class Client(Operations, Approvals, Conversations, Forking, Learning, Remembering, Retrying):
    """Talks to one server. Needs neither a model's key nor agent files. One event loop only.

    ``wait_replicas``: replicas that must have what it changes (a submission, a cancellation, a retry) before that
    counts as done; where they do not in time, ``NotConfirmed`` is raised: it is done, but may be lost with the server.
    ``signing``: signs requests, where the pools believe no others. ``notes``: the folder of those kept in files.
    """

    def __init__(self, url: str, wait_replicas: int = 0, signing: Signing = OFF, notes: Path | None = None) -> None:
        confirming = RequireReplicas(wait_replicas)
        self._stores = open_stores(url, retries=3, confirming=confirming, signing=signing)
        self._waiting = open_stores(url, retries=3, connections=MAX_FOLLOWED)
        self._hooks = LateHooks("ekiden-client")
        self._wait_replicas = wait_replicas
        self._notes_folder = notes
        self._by_intake = False
        """Whether the server's rules let this user push requests only: a dispatcher runs the scripts for it."""
        self._own = OwnJobs()
        self._is_checked = False
        self._checking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._stores.ping()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stores.close()
        await self._waiting.close()
        await self._hooks.close()

    async def submit(
        self,
        prompt: str,
        *,
        agent: str | None = None,
        strategy: str | None = None,
        cwd: str | Path | None = None,
        session: str | None = None,
        user: str = "",
        policy: SessionPolicy = "route",
        on_busy: OnBusy = "queue",
        deadline_s: float = JOB_DEADLINE_S,
        request_id: str | None = None,
        state: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        approve: Collection[Risk] = (),
        when_asked: WhenAsked = "park",
        asks: bool = False,
    ) -> str:
        """Create a job and return its id: it is stored and queued then. The same ``request_id`` gives the same job.

        The first submission with an id counts; one that asks for something else under it is refused.

        Args:
            prompt: What the user wants.
            agent: Who should take it; None lets the dispatcher route.
            strategy: How it routes this request: one of ``strategies``, or ``auto``: as it is set up, whatever the
                session's policy; None: as that has it.
            cwd: The folder that file tools start in; None: the workers' workspace root.
            session: An existing session to continue; None begins a new one.
            user: Whose session a new one is.
            policy: Who gets the later messages of a new session: whom each is routed to (``route``), who spoke last
                (``sticky``), or who got the first (``entry``).
            on_busy: While another job of the session runs: wait in the inbox, be refused, or cancel that one.
            deadline_s: When a job that has not ended by then ends as failed.
            request_id: Chosen by the caller, to repeat a submit whose answer was lost.
            state: Session variables to set when the job begins, JSON; None takes one away.
            inputs: What the agent's file declares as ``inputs``, by name, for an agent that is named.
            approve: Risks of which every call is approved in advance, so far as the caller may approve it.
            when_asked: What becomes of any other call that is asked about: it waits (``park``), or is denied.
            asks: Whether the caller says who takes it, where several agents are about as likely: then nobody gets it,
                and the job's ``Unrouted`` record has their names.

        Raises:
            InvalidRequest: the prompt is empty, something else of the request cannot be kept, or its id is another's.
            SessionBusy: with ``on_busy="reject"``.
            UnknownAgent: the catalog in force has no such agent.
            UnknownJob: the session does not exist (any more).
            ConfigurationError: the server is too old, or may throw jobs away.
            StoreUnavailable: the server does not answer (``NotTaken``: no dispatcher, where only one may create jobs);
                the job may exist, so repeat with the same ``request_id``.
            NotPermitted: the Redis user may not submit.
            NotConfirmed: the job is stored and may run, but replicas do not have it; the same ``request_id``, which the
                error has, is the same job and waits for them again.
        """
        request = checked_request(
            prompt=storable(prompt),
            request_id=request_id or secrets.token_hex(16),
            agent=storable(agent),
            strategy=storable(strategy),
            cwd=checked_folder(cwd),
            session=session,
            user=storable(user),
            policy=policy,
            on_busy=on_busy,
            deadline_s=deadline_s,
            state=checked_state(state or {}),
            inputs=None if inputs is None else checked_inputs(inputs, agent),
            approve=checked_risks(approve),
            when_asked=when_asked,
            asks=asks,
        )
        await self._check()
        person = await person_at(self._stores, user)
        told = {"traceparent": self._hooks.traceparent(), "by": storable(person.name), "is_claimed": person.is_claimed}
        request = request.model_copy(update=told)
        running = (await self._stores.sessions.session(session)).active if session else None
        began_ns = time.time_ns()
        job, is_new, _ = await self._create(request)
        if is_new:
            self._hooks.started().job_submitted(job, request.traceparent, DISPATCH_QUEUE, began_ns)
        if on_busy == "interrupt" and running not in (None, job):
            await self.cancel(str(running))
        return job

    async def _create(self, request: SubmitRequest) -> Created:
        """Create the job, or let a dispatcher do so where the server's rules do not let us run scripts."""
        try:
            created = await self._created(request)
        except NotConfirmed as error:
            self._own.note(error.job, request.request_id)
            raise
        self._own.note(created.job, request.request_id)
        return created

    async def _created(self, request: SubmitRequest) -> Created:
        if not self._by_intake:
            try:
                return await create_job(self._stores, request)
            except NotPermitted:
                self._by_intake = True
        from ekiden.dispatcher.intake import ask_dispatcher

        return await ask_dispatcher(self._stores, request, self._wait_replicas)

    def cursor(self, job: str) -> JournalCursor:
        """Return the beginning of a job's journal, to read on from; it is known whether it was submitted here."""
        return self._own.cursor(job)

    async def follow(self, job: str, after: int = 0) -> AsyncIterator[Entry | None]:
        """Yield the journal's entries from the start (or behind ``after``) to the job's end.

        Yields None every ``WAIT_S`` in which nothing happens. Goes on by itself after a lost connection. Where a server
        comes back with less than it had, entries come again: what was yielded from the first of them on is void.

        Raises ``UnknownJob``, also when the server has lost the whole job, were its number another job's by now.
        """
        cursor = self.cursor(job)
        for entry in (await self.entries(job))[:after]:
            cursor.note(entry)
        while True:
            try:
                entries = await self.entries_after(job, cursor)
            except StoreUnavailable:
                await self._stores.ping()  # reconnects, or says for good that nobody answers
                continue
            except WentBack:
                cursor.go_back(await self.entries(job))
                continue
            for entry in entries:
                cursor.note(entry)
                yield entry
            if not cursor.seq:
                await self.job(job)  # or is it lost before anything was read of it?
            if not entries:
                yield None
            elif await self.has_ended(job, entries[-1]):
                return

    async def entries_after(self, job: str, cursor: JournalCursor, wait_s: float = WAIT_S) -> list[Entry]:
        """Return a page of the journal's entries behind ``place``, waiting up to ``wait_s`` for the first.

        Raises ``WentBack`` when the journal has lost what was read of it.
        """
        stores = self._waiting if wait_s else self._stores
        return await stores.jobs.journal(job, cursor.seq, wait_s=wait_s, seen_ms=cursor.seen_ms)

    async def has_ended(self, job: str, last: Entry) -> bool:
        """Tell whether nothing comes behind ``last``: an ended job may have been retried meanwhile."""
        return isinstance(last.record, Ended) and (await self.job(job)).is_over

    async def wait(self, job: str) -> JobView:
        """Return the job once it has ended, whoever submitted it: on one connection for all. Raises as ``follow``."""
        cursor = self.cursor(job)
        while True:
            try:
                with self._stores.ends.news_of(job) as news:
                    while not cursor.checked(view := await self.job(job)).is_over:
                        await news.wait()
                        news.clear()
                    return view
            except StoreUnavailable:
                await self._stores.ping()  # reconnects, or says for good that nobody answers

    async def end_of(self, job: JobView) -> Ended | None:
        """Return the record of a job's end; None: it has not ended, or its journal is gone."""
        entries = await self._stores.jobs.journal(job.id, after=job.seq - 1)
        return next((one.record for one in reversed(entries) if isinstance(one.record, Ended)), None)

    async def entries(self, job: str) -> list[Entry]:
        """Return the whole journal as it is now. Raises ``UnknownJob``."""
        await self._stores.jobs.job(job)
        return await self._journal(job)

    async def _journal(self, job: str) -> list[Entry]:
        from ekiden.shared.relay.leg import journal_of  # what runs legs: who submits does without

        return await journal_of(self._stores.jobs, job)

    async def journals(self, job: str) -> dict[str, list[Entry]]:
        """Return the whole journals of a job and of all that was delegated below it, parents first.

        At most ``MAX_JOB_TREE`` of them. Raises ``UnknownJob``.
        """
        found = {job: await self.entries(job)}
        level = delegated_in(job, found[job])
        while level := level[: MAX_JOB_TREE - len(found)]:
            journals = await _each(self._journal, level)
            found |= (read := dict(zip(level, journals, strict=True)))
            level = [child for one, journal in read.items() for child in delegated_in(one, journal)]
        return found

    async def newest_entries(self, job: JobView, count: int) -> list[Entry]:
        """Return the last entries of a job's journal, as far as it was when the job was looked at, and newer ones."""
        return await self._stores.jobs.journal(job.id, max(0, job.seq - count))

    async def new_entries(self, read: Mapping[str, JournalCursor]) -> dict[str, list[Entry]]:
        """Return what the journals of jobs have behind the places up to which each was read; a page at most.

        Raises ``WentBack`` when one has lost what was read of it.
        """
        pages = await _each(lambda job: self.entries_after(job, read[job], 0.0), read)
        return dict(zip(read, pages, strict=True))

    async def children(self, job: str) -> list[JobView]:
        """Return the jobs that ``job`` has delegated, oldest first."""
        found: list[JobView] = []
        while True:  # they are counted from 1
            behind = len(found)
            found += await self._stores.jobs.views([f"{job}.{behind + n}" for n in range(1, _PAGE + 1)])
            if len(found) < behind + _PAGE:
                return found

    async def count_children(self, jobs: Iterable[str]) -> list[int]:
        """Return how many jobs each of ``jobs`` has delegated."""
        return [len(found) for found in await _each(self.children, jobs)]

    async def chain(self, job: str) -> list[HandedOff]:
        """Return the moves of control, the route first."""
        return [entry.record for entry in await self.entries(job) if isinstance(entry.record, HandedOff)]

    async def job(self, job: str) -> JobView:
        """Return a job as it is now. Raises ``UnknownJob``."""
        return await self._stores.jobs.job(job)

    async def jobs(self, limit: int = 20, status: str | None = None) -> list[JobView]:
        """Return the newest jobs, newest first, of one status or of all."""
        return await self._stores.jobs.jobs(limit, status)

    async def unfinished(self) -> list[Unfinished]:
        """Return every job that has not ended, delegated ones too, the oldest first, whatever lists say."""
        return await self._stores.jobs.unfinished()

    async def artifact(self, job: str, ref: str) -> str | bytes | None:
        """Return what a job keeps under ``Artifact.ref``; None: it is gone."""
        return await self._stores.artifacts.read(job, ref)

    async def live(self, job: str, after: str = "0", wait_s: float = WAIT_S) -> LiveRead:
        """Return pieces of answers in the making behind ``after``, and the place to go on from."""
        return (await self.live_of({job: after}, wait_s)).get(job, (after, []))

    async def live_of(self, places: Mapping[str, str], wait_s: float = WAIT_S) -> dict[str, LiveRead]:
        """Return the same of several jobs of one session, each behind its place: of those that have written."""
        stores = self._waiting if wait_s else self._stores
        return await stores.live.read_all(places, wait_s=wait_s)

    async def resolve(self, prefix: str) -> str:
        """Return the one job whose id begins so. Raises ``UnknownJob``, ``AmbiguousId``."""
        return await self._stores.jobs.resolve(prefix)

    async def cancel(self, job: str) -> Literal["ok", "flagged", "finished"]:
        """Cancel a job: ended now (``ok``), soon by the worker that runs it (``flagged``), or over before.

        Raises ``UnknownJob``, ``NotConfirmed``.
        """
        from ekiden.shared.relay.termination import stop_or_wait

        return await stop_or_wait(self._stores.jobs, job, "user", self._hooks.started())

    async def _check(self) -> None:
        """Look at the server's settings before the first submit, once for however many come together."""
        async with self._checking:
            if not self._is_checked:
                await self._stores.check()
                self._is_checked = True


async def _each(ask: Callable[[Q], Awaitable[A]], questions: Iterable[Q]) -> list[A]:
    """Ask all, a few at once; return the answers in order."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(question: Q) -> A:
        async with gate:
            return await ask(question)

    return list(await asyncio.gather(*map(one, questions)))
