"""For programs: what agents write, and what those of delegated jobs do, as they do it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TypeVar

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.activities import Activities, Activity
from ekiden.dispatcher.journal.follower import OUTAGE_S, Follower
from ekiden.dispatcher.journal.tree import Placed
from ekiden.dispatcher.journal.view import View
from ekiden.shared.records import Entry
from ekiden.shared.stores.views import LivePiece

__all__ = ["activities", "pieces", "placed"]


T = TypeVar("T")


def activities(client: Client, job: str, *, outage_s: float = OUTAGE_S) -> AsyncGenerator[Activity, None]:
    """Give what goes on in all jobs that ``job`` has delegated, from their beginning, until ``job`` ends.

    Raises ``UnknownJob``, and ``StoreUnavailable`` where no server answers for ``outage_s``.
    """
    return _found(client, job, _Activities, outage_s)


def pieces(client: Client, job: str, *, outage_s: float = OUTAGE_S) -> AsyncGenerator[LivePiece, None]:
    """Give what the models of ``job`` write and think, and what its tools show, as they do it, until it ends.

    Who comes late gets the answer that is being written from its beginning, and nothing of those before. A piece that
    says ``restart``, or has another ``fence`` than the ones before, makes those of its turn void. Raises as above.
    """
    return _found(client, job, _Pieces, outage_s)


def placed(
    client: Client, job: str, note: Callable[[str], None], *, outage_s: float = OUTAGE_S
) -> AsyncGenerator[Placed, None]:
    """Give the entries of ``job`` and of those below it as they come, until it ends.

    Where a server comes back with less than it had, entries come again: what was in their place is void. ``note`` is
    told why nothing happens. Raises as above.
    """
    return _found(client, job, lambda found: _Entries(found, job, note), outage_s, is_served=False)


async def _found(
    client: Client,
    job: str,
    view: Callable[[asyncio.Queue[T | None]], View],
    outage_s: float,
    *,
    is_served: bool = True,
) -> AsyncGenerator[T, None]:
    """Follow ``job``; yield what its view puts into its queue."""
    found: asyncio.Queue[T | None] = asyncio.Queue()
    following = asyncio.create_task(Follower(client, job, view(found), is_served=is_served, outage_s=outage_s).run())
    following.add_done_callback(lambda _: found.put_nowait(None))
    try:
        while (one := await found.get()) is not None:
            yield one
        await following
    finally:
        following.cancel()
        await asyncio.wait({following})


class _Silent:
    """A view that shows nothing."""

    def show(self, entry: Entry) -> None:
        """See ``View``."""

    def learn(self, entry: Entry) -> None:
        """See ``View``."""

    def below(self, job: str) -> View:
        """See ``View``."""
        return _Silent()

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""

    def note(self, text: str) -> None:
        """See ``View``."""

    def tick(self) -> None:
        """See ``View``."""


class _Entries(_Silent):
    """Passes on what the journals have."""

    def __init__(self, found: asyncio.Queue[Placed | None], job: str, note: Callable[[str], None]) -> None:
        self._found = found
        self._job = job
        self._note = note

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self._found.put_nowait(Placed(self._job, entry))

    def below(self, job: str) -> View:
        """See ``View``."""
        return _Entries(self._found, job, self._note)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._note(text)


class _Pieces(_Silent):
    """Passes on what is written in the job itself."""

    def __init__(self, found: asyncio.Queue[LivePiece | None]) -> None:
        self._found = found

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._found.put_nowait(piece)


class _Activities(_Silent):
    """Passes on what those do that are below the job."""

    def __init__(self, found: asyncio.Queue[Activity | None], read: Activities | None = None) -> None:
        self._found = found
        self._read = read

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self._pass_on(self._read.note(entry) if self._read else ())

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        if self._read:
            self._read.note(entry)

    def below(self, job: str) -> View:
        """See ``View``."""
        return _Activities(self._found, Activities(job))

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._pass_on(self._read.hear(piece) if self._read else ())

    def _pass_on(self, activities: Iterable[Activity]) -> None:
        for one in activities:
            self._found.put_nowait(one)
