"""One leg in the hands of a worker: its lease, its context and the job's journal, kept in memory while it runs."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from math import inf
from typing import Any, Protocol

from ekiden.shared.conversation import Conversation
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.hooks.base import LegHook
from ekiden.shared.messages import error_result
from ekiden.shared.outcomes import Outcome, SuspendCause
from ekiden.shared.processes.tools import Lifetime
from ekiden.shared.records import (
    Ended,
    Entry,
    Forked,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    StateChanged,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.live import Live
from ekiden.shared.relay.write_retries import WriteRetries
from ekiden.shared.stores.base import Appends, Claimed, JobReader, Lease
from ekiden.shared.stores.sessions import SessionMessage
from ekiden.shared.stores.views import JobView

__all__ = [
    "Folds",
    "Handler",
    "Leg",
    "MadeProgress",
    "backoff_s",
    "closing_records",
    "entries_behind",
    "freed",
    "journal_of",
]

PAGE = 500
MAX_BACKOFF_S = 30.0

_writes = itertools.count(1)
"""Of the whole process: a leg that is opened a second time under one lease must not use an id again."""


class MadeProgress(Exception):  # no error: the leg goes on elsewhere
    """The leg was to run alone until it made progress, and has."""


@dataclass(frozen=True)
class Folds:
    """What legs have made of the beginning of their job's journal: one that follows here goes on from there."""

    upto: int
    """How many entries the journal had when this leg was claimed: the later ones may come to nothing."""
    made: dict[tuple[str, int], tuple[int, Any]] = field(default_factory=dict)
    """By what it is about: of how many entries, and what."""
    is_kept: bool = False
    """Whether a leg that follows here will find it."""


class Leg:
    """What a handler works with. Every step is recorded (``record``) before the next one begins; the last: ``hold``."""

    def __init__(
        self,
        claimed: Claimed,
        entries: list[Entry],
        store: Appends,
        *,
        with_retries: WriteRetries | None = None,
        earlier: list[SessionMessage] | None = None,
        jobs: JobReader | None = None,
        state: Mapping[str, Any] | None = None,
        live: Live | None = None,
        until_progress: bool = False,
        hooks: LegHook | None = None,
        lifetime: Lifetime | None = None,
        folds: Folds | None = None,
    ) -> None:
        self.lease: Lease = claimed.lease
        self.context: HandoffContext = claimed.context
        self.attempt = claimed.attempt
        self.catalog, self.cwd = claimed.catalog, claimed.cwd
        self.entries = entries
        self.conversation, self.records = Conversation(), list[Record]()
        """The turns of this leg, and all that it has recorded, also in earlier attempts."""
        self.folds = folds or Folds(claimed.lease.seq)
        self.earlier = earlier or []
        """What was said in the session before this job, oldest first."""
        self.spending, self._counted_ms, self.is_session_untrusted = (
            claimed.spending,
            claimed.used_ms,
            claimed.is_untrusted,
        )
        """What the root job has used up of what has a limit, and how much of this leg's time is in that; whether its
        session has read text of unknown authors."""
        self.live = live
        """Where pieces of an answer go while it is written, if anywhere."""
        self.hooks = hooks or LegHook()
        """Are told what happens."""
        self.lifetime = lifetime
        """What processes that the leg starts must not outlive; None: only this process."""
        self._store, self._jobs = store, jobs
        self._with_retries = with_retries or WriteRetries(0.0)
        self._state = dict(state or {})
        self.changes: dict[str, Any] = dict(self.request.state) if self.number == 0 and entries else {}
        """Session variables that the next commit of this leg writes; None takes one away."""
        self._note_own(entries)
        self.in_flight: Sequence[Record] = ()
        """What a write that is not answered yet puts into the journal: broken off, it may be there all the same."""
        self._held: list[Record] = []
        self._until_progress, self._has_progressed = until_progress, False
        self._began = time.monotonic() - claimed.used_ms / 1000  # as if it had never been interrupted
        self._appending = asyncio.Lock()  # a repeated append is recognised as the last one: one at a time

    @property
    def job(self) -> str:
        """The job's id."""
        return self.lease.job

    @property
    def number(self) -> int:
        """Which leg of the job; 0 is the routing."""
        return self.lease.leg

    @property
    def agent(self) -> str:
        """Who runs."""
        return self.context.to_agent

    @cached_property
    def request(self) -> JobRequested:
        """What the user asked for."""
        first = self.entries[0].record
        assert isinstance(first, JobRequested), "the first record of a job is its request"
        return first

    @property
    def added(self) -> str:
        """What the user has added to that in forks."""
        return "\n\n".join(
            one.record.prompt for one in self.entries if isinstance(one.record, Forked) and one.record.prompt
        )

    @property
    def asked(self) -> str:
        """The request, with what was added to it."""
        return "\n\n".join(filter(None, (self.request.prompt, self.added)))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What the agent is called with: by the step of a graph, or by whoever asked for the job."""
        return self.context.step_inputs or self.request.inputs or {}

    @property
    def state(self) -> dict[str, Any]:
        """The session's variables as this leg sees them."""
        return {name: value for name, value in (self._state | self.changes).items() if value is not None}

    async def children(self, jobs: Sequence[str]) -> list[JobView]:
        """Return jobs that this leg delegated, as they are now: they live as long as it does."""
        assert self._jobs is not None, "this leg was opened without a reader of jobs"
        return await self._jobs.views(jobs)

    async def ends(self, jobs: Sequence[str]) -> dict[str, Ended]:
        """Return how those of these jobs have ended that have."""
        assert self._jobs is not None, "this leg was opened without a reader of jobs"
        return await self._jobs.ends(jobs)

    async def recorded_by(self, job: str) -> list[Record]:
        """Return all that a job has recorded which this leg delegated."""
        assert self._jobs is not None, "this leg was opened without a reader of jobs"
        return [entry.record for entry in await journal_of(self._jobs, job)]

    @property
    def used_ms(self) -> int:
        """Time spent on this leg, over all attempts."""
        return round((time.monotonic() - self._began) * 1000)

    @property
    def left_of_job_s(self) -> float:
        """Return the time that the job leaves this leg, in seconds; infinite where it has no limit of time."""
        used = self.spending.get("max_seconds")
        return inf if used is None else used.most - used.spent - (self.used_ms - self._counted_ms) / 1000

    def next_write(self) -> str:
        """Return an id for one append or commit: the same when its transmission is repeated, new for any other."""
        return f"{self.lease.fence}.{next(_writes)}"

    @property
    def written(self) -> list[Entry]:
        """The journal: what this leg knows, without what it holds."""
        return self.entries[: len(self.entries) - len(self._held)] if self._held else self.entries

    def hold(self, *records: Record) -> None:
        """Take in steps that end the leg, and let the next write put them into the journal, in front of its own.

        So they need no script of their own: they are written with the leg's commit, or with what is recorded in its
        place where it is refused. Until then nothing may have an effect: a crash takes what is held with it.
        """
        assert not self._appending.locked(), "where a write is on its way, nobody knows yet which position comes next"
        self._take_in(entries_behind(self.lease.seq + len(self._held), records))
        self._held += records

    @property
    def is_holding(self) -> bool:
        """Whether steps, which are progress, go with the next write."""
        return bool(self._held)

    def begin_write(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return what a write of ``records`` puts into the journal: with what is held, which comes first."""
        self.in_flight = [*self._held, *records]
        return self.in_flight

    async def record(self, *records: Record, is_progress: bool = False) -> None:
        """Append ``records``. Raises ``LostLease`` or ``JobCancelled``: then nothing was written.

        A leg that runs alone until it makes progress is broken off before its next tools start, with ``MadeProgress``.
        """
        if self._until_progress and self._has_progressed and any(isinstance(one, ToolStarted) for one in records):
            raise MadeProgress
        async with self._appending:
            written, is_progress = self.begin_write(records), is_progress or self.is_holding
            used_ms = self.used_ms
            seq, spending = await self._with_retries(
                self._store.append,
                self.lease,
                self.next_write(),
                written,
                used_ms=used_ms,
                is_progress=is_progress,
            )
            self.spending, self._counted_ms = spending, used_ms
            self._has_progressed |= is_progress
            self.take(entries := entries_behind(seq - len(written), written))
        self.hooks.recorded(entries)

    async def read_on(self, entries: Sequence[Entry]) -> None:
        """Take in what stands in the journal behind what the leg was made with, by pages: others want to run."""
        for first in range(0, len(entries), PAGE):
            await asyncio.sleep(0)
            page = entries[first : first + PAGE]
            self.entries += page
            self._note_own(page)

    def let_go(self) -> None:
        """Let the journal of a leg that has ended be freed; a long one by pages, once those who hear of it are done."""
        if len(self.entries) > PAGE:
            task = asyncio.get_running_loop().create_task(freed(self))
            _being_freed.add(task)
            task.add_done_callback(_being_freed.discard)

    def take(self, entries: Sequence[Entry]) -> None:
        """Go on behind ``entries``, which a write has put into the journal: what was held is the first of them."""
        self._take_in(entries[len(self._held) :])
        self._held, self.in_flight = [], ()
        for entry in entries:
            self.lease.seq = entry.seq
            if entry.seal is not None and not isinstance(entry.record, LegStarted):
                self.lease.head = entry.seal.tag

    def _note_own(self, entries: Sequence[Entry]) -> None:
        """Note those of a journal's entries that this leg has written."""
        number = self.number
        for record in [entry.record for entry in entries if entry.record.leg == number]:
            self._note(record)

    def _take_in(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        for entry in entries:
            self._note(entry.record)

    def _note(self, record: Record) -> None:
        """Keep what a record of this leg says of its turns, and the variables that it writes."""
        self.records.append(record)
        self.conversation.note(record)
        match record:
            case LegSuspended(cause="children"):
                self.changes = {}  # committed with that pause, and somebody else's since
            case StateChanged():
                self.changes |= record.changes
            case _:
                pass


_being_freed: set[asyncio.Task[None]] = set()


async def freed(leg: Leg) -> None:
    """Free a leg's journal by pages: all at once would stop the loop for longer than opening it did."""
    while leg.entries:
        del leg.entries[-PAGE:]
        del leg.records[-PAGE:]
        del leg.conversation.turns[-PAGE:]
        await asyncio.sleep(0)


class Handler(Protocol):
    """Runs legs. Called again with the same leg after a refused transfer: it goes on behind the last record."""

    async def run(self, leg: Leg) -> Outcome:
        """Carry the leg to an outcome; knows no queue and commits nothing."""
        ...


def backoff_s(leg: Leg, cause: SuspendCause) -> float:
    """Return 0.5 s, doubled for every time since the last reply that the leg has waited for this cause."""
    recent = takewhile(lambda record: not isinstance(record, ModelReplied), reversed(leg.records))
    pauses = sum(isinstance(one, LegSuspended) and one.cause == cause and one.delay_s > 0 for one in recent)
    return min(0.5 * 2.0 ** min(pauses, 10), MAX_BACKOFF_S)


def entries_behind(seq: int, records: Sequence[Record]) -> list[Entry]:
    """Return ``records`` as the journal has them that was as long as ``seq`` before."""
    now_ms = round(time.time() * 1000)
    return [Entry(number, now_ms, record) for number, record in enumerate(records, seq + 1)]


async def journal_of(
    store: JobReader, job: str, upto: int | None = None, *, begun: Sequence[Entry] = ()
) -> list[Entry]:
    """Return a job's journal as far as ``upto``, read in pages behind what of it is there already."""
    entries = list(begun)
    while upto is None or len(entries) < upto:
        page = await store.journal(job, after=len(entries), limit=PAGE)
        if not page:
            break
        entries += page
    return entries


def closing_records(entries: list[Entry], leg: int, why: str) -> list[Record]:
    """Return a result for every tool call of ``leg`` that has none: the job ends, and no call stays without one."""
    conversation = Conversation(entry.record for entry in entries if entry.record.leg == leg)
    started = conversation.turns[-1].started if conversation.turns else ()
    results = [error_result(call, why, is_unknown=call.id in started) for call in conversation.open_calls]
    return [ToolFinished(leg=leg, result=one) for one in results]
