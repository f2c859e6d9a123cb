"""A job together with those that were delegated below it: their entries in one order, and who follows them live."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.view import View
from ekiden.dispatcher.journal_cursor import JournalCursor
from ekiden.shared.errors import UnknownJob
from ekiden.shared.ids import parent_of
from ekiden.shared.records import Delegated, Ended, Entry

__all__ = ["OpenChildren", "Placed", "Views", "in_order"]

MAX_FOLLOWED = 100
"""Children that are followed live at once; of the others their parent's results tell."""


class Placed(NamedTuple):
    """An entry and the job whose journal it is of."""

    job: str
    entry: Entry


def in_order(journals: Mapping[str, Sequence[Entry]]) -> list[Placed]:
    """Return the entries of all journals as they came; at the same moment, the first journal's first."""
    placed = [[Placed(job, entry) for entry in entries] for job, entries in journals.items()]
    return list(merge(*placed, key=lambda one: one.entry.at_ms))


class Views:
    """The views of a job and of those below it."""

    def __init__(self, job: str, view: View) -> None:
        self._views = {job: view}

    def of(self, job: str) -> View:
        """Return the view of ``job``, made by its parent's when it is first asked for."""
        if job not in self._views:
            parent = parent_of(job)
            assert parent is not None, f"job {job!r} is not below the one that is shown"
            self._views[job] = self.of(parent).below(job)
        return self._views[job]


class OpenChildren:
    """The delegated jobs that have not ended, as far as their journals were read."""

    def __init__(self, job: str, cursor: JournalCursor) -> None:
        self._read = {job: cursor}
        """Every job that was heard of, and up to which place its journal was read."""
        self._open: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def jobs(self) -> list[str]:
        """Their ids, the elder ones first."""
        return [job for job in self._read if job in self._open]

    def cursor(self, job: str) -> JournalCursor:
        """Return up to where the journal of ``job`` was read."""
        return self._read.setdefault(job, JournalCursor(job))

    def learn(self, placed: Iterable[Placed]) -> list[Placed]:
        """Take note of entries; return those that are new."""
        return [one for one in placed if self._is_new(one)]

    async def read(self, client: Client) -> list[Placed]:
        """Return what they have now behind what was read."""
        return in_order(await client.new_entries({job: self._read[job] for job in self.jobs}))

    async def go_back(self, client: Client, job: str) -> list[Entry]:
        """Go back to what the journals still have; return that of ``job``. Raises ``UnknownJob`` when it is lost."""
        entries = await client.entries(job)
        self.cursor(job).go_back(entries)
        for child, cursor in self._read.items():
            if child != job and cursor.go_back(await _entries_of(client, child)):
                self._open.add(child)
        return entries

    @property
    def _has_room(self) -> bool:
        return len(self._open) < MAX_FOLLOWED

    def _is_new(self, placed: Placed) -> bool:
        job, entry = placed
        if entry.seq <= self.cursor(job).seq:
            return False
        self.cursor(job).note(entry)
        match entry.record:
            case Delegated(child=child) if self._has_room and child not in self._read and parent_of(child) == job:
                self.cursor(child)
                self._open.add(child)
            case Ended():
                self._open.discard(job)
            case _:
                pass
        return True


async def _entries_of(client: Client, child: str) -> list[Entry]:
    """Return a journal; an empty one when the server has lost the job with the record that began it."""
    try:
        return await client.entries(child)
    except UnknownJob:
        return []
