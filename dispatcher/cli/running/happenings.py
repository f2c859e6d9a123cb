"""What ``ekiden up`` tells of the jobs that it serves: a line for each that begins, each move of control, each end."""

import asyncio
import time
from collections.abc import Sequence

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.notices import Notice, Notices
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.actors import Actors
from ekiden.dispatcher.journal_cursor import JournalCursor
from ekiden.shared.errors import StoreUnavailable, UnknownJob, WentBack
from ekiden.shared.records import ApprovalAsked, Delegated, Ended, Entry, HandedOff, JobRequested, NodeFinished, Retried
from ekiden.shared.stores.views import JobView

__all__ = ["Happenings"]

MOST = 50
"""Jobs that are looked at: of more that come within a second, the others are counted."""
_LOOK_S = 1.0
_REMEMBERED = 1_000


class _Told:
    """A job, and how far it was told."""

    def __init__(self, cursor: JournalCursor) -> None:
        self.cursor = cursor
        self.is_over = False
        self.summary = ""
        self.began_ms = 0
        self.actors = Actors()


class Happenings:
    """Tells them on standard output, one look after the other. What was over before the first look is not told."""

    def __init__(self, client: Client, out: Output) -> None:
        self._client = client
        self._out = out
        self._notices = Notices(out.symbols)
        self._jobs: dict[str, _Told] = {}
        self._is_first = True

    async def run(self) -> None:
        """Return never."""
        while True:
            try:
                await self.look()
            except (StoreUnavailable, UnknownJob, WentBack):  # it is away, or has gone back: what is there then counts
                self._jobs, self._is_first = {}, True
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Tell what has happened since the look before."""
        views = await self._client.jobs(MOST)
        new = [view for view in reversed(views) if view.id not in self._jobs]
        for view in new:
            await self._begin(view)
        if len(new) == MOST and not self._is_first:
            self._tell("", Notice("note", "more jobs began than are told: `ekiden jobs` lists them", "yellow"))
        self._is_first = False
        for view in views:
            self._jobs[view.id].is_over &= view.is_over  # it may have been retried
        going = {job: told.cursor for job, told in self._jobs.items() if not told.is_over}
        for job, entries in (await self._client.new_entries(going)).items():
            self._show(job, entries)
        self._forget()

    async def _begin(self, view: JobView) -> None:
        told = self._jobs[view.id] = _Told(self._client.cursor(view.id))
        told.summary = view.summary
        if self._is_first:  # what it has done was told before, or was nobody's to tell
            told.is_over = view.is_over
            for entry in await self._client.entries(view.id) if not view.is_over else ():
                self._learn(told, entry)

    def _learn(self, told: _Told, entry: Entry) -> None:
        told.cursor.note(entry)
        told.actors.note(entry.record)
        match entry.record:
            case JobRequested():
                told.began_ms = entry.at_ms
            case Ended():
                told.is_over = True
            case Retried():
                told.is_over = False
            case _:
                pass

    def _show(self, job: str, entries: Sequence[Entry]) -> None:
        told = self._jobs[job]
        for entry in entries:
            self._learn(told, entry)
            if (notice := self._notice(told, entry)) is not None:
                self._tell(job, notice)

    def _notice(self, told: _Told, entry: Entry) -> Notice | None:
        record = entry.record
        agent = str(told.actors.of(record.leg))
        match record:
            case HandedOff(kind="route", context=context):
                return Notice("route", f"{context.to_agent}: {self._notices.cut(told.summary)}", "bold")
            case HandedOff():
                return self._notices.move(record, agent, str(told.actors.of(record.leg + 1)))
            case Delegated(child=child):
                return self._notices.delegation(agent, [str(told.actors.below[child])])
            case ApprovalAsked():
                return self._notices.of(record, agent)
            case NodeFinished(error=str(error)) if error:
                return self._notices.of(record, agent)
            case Ended(answer=answer, error=error):
                ended = self._notices.end_of_child(agent, record.status, record.reason, answer or error or "")
                took = f" ({(entry.at_ms - (told.began_ms or entry.at_ms)) / 1000:.1f} s)"
                return ended._replace(text=ended.text + took)
        return None

    def _tell(self, job: str, notice: Notice) -> None:
        text = " ".join(filter(None, (time.strftime("%H:%M:%S"), self._out.symbols[notice.symbol], job, notice.text)))
        self._out.line(text, notice.style)

    def _forget(self) -> None:
        over = [job for job, told in self._jobs.items() if told.is_over]
        for job in over[: max(0, len(over) - _REMEMBERED)]:
            del self._jobs[job]
