"""Follow a job to its end: its journal and what its models write just now, in the order in which things happened."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.live_pieces import LivePieces
from ekiden.dispatcher.journal.tree import OpenChildren, Placed, Views, in_order
from ekiden.dispatcher.journal.view import View
from ekiden.shared.errors import StoreUnavailable, WentBack
from ekiden.shared.ids import session_of
from ekiden.shared.once import Once
from ekiden.shared.records import Ended, Entry, LegSuspended
from ekiden.shared.relay.message import agent_of
from ekiden.shared.stores.live import LiveRead
from ekiden.shared.stores.views import LivePiece

__all__ = ["OUTAGE_S", "Follower", "show_job_tree", "waits_behind"]

OUTAGE_S = 60.0
"""How long a server may be away before a follower gives up."""
_TICK_S = 1.0
_QUIET_S = 2.0
"""How long nothing may happen before we look whether anybody serves the job."""
_PAUSE_S = 0.2
_LOOKED_AT = 20
"""Children of which we look whether anybody serves them."""
T = TypeVar("T")


@dataclass
class Follower:
    """Shows one job, and what becomes of those that it delegates.

    Attributes:
        client: The connection.
        job: Whose journal.
        view: Where it is shown.
        is_served: Pools are on their way, so there is no need to look whether anybody serves the job's queue.
        is_live: Whether pieces of answers in the making are shown as well.
        after: The place in the journal up to which nothing is shown.
        tail: How many entries at most are shown of those that there are already; None: all.
        outage_s: How long the server may be away.
    """

    client: Client
    job: str
    view: View
    is_served: bool = False
    is_live: bool = True
    after: int = 0
    tail: int | None = None
    outage_s: float = OUTAGE_S

    def __post_init__(self) -> None:
        self.may_show = asyncio.Event()
        """Cleared while somebody else uses the terminal."""
        self.may_show.set()
        self.paused = asyncio.Event()
        """Set when a leg waits for people or for jobs below it, or one of these has ended: is there anybody to ask?"""
        self._views = Views(self.job, self.view)
        self._children = OpenChildren(self.job, self.client.cursor(self.job))
        self._places: dict[str, str] = {}
        """Up to where the live stream of each job was read."""
        self._drafts: dict[str, LivePieces] = {}
        self._warned = Once()
        self._last: Entry | None = None

    @property
    def _seq(self) -> int:
        return self._children.cursor(self.job).seq

    async def run(self) -> Ended:
        """Show the job up to its last entry, and return that. Raises ``StoreUnavailable``, ``UnknownJob``."""
        await self._catch_up()
        await self._tell(waits_behind)
        async with _Reads() as reads:
            heard = time.monotonic()
            while (end := await self._end()) is None:
                reads.keep("journal", lambda: self.client.entries_after(self.job, self._children.cursor(self.job)))
                if self.is_live:
                    reads.keep("live", self._read_live)
                if self._children:
                    reads.keep("children", self._read_children)
                try:
                    found = await reads.next(_TICK_S)
                    await self.may_show.wait()
                    if await self._show(found):
                        heard = time.monotonic()
                except StoreUnavailable as error:
                    await self._outlast(error)
                    continue
                except WentBack:
                    await reads.stop()
                    await self._go_back()
                    continue
                self.view.tick()
                if time.monotonic() - heard > _QUIET_S:
                    heard = time.monotonic()
                    await self._tell_why_nothing_happens()
        return end

    async def _show(self, found: dict[str, Any]) -> bool:
        """Show what was read, and before each part what came before it: this is read once more then.

        Before live pieces come the journal's entries, before the journal's entries those of the children.
        """
        entries: list[Entry] = found.get("journal", [])
        live: dict[str, LiveRead] = found.get("live", {})
        below = self._show_placed(found.get("children", []))
        await self._show_entries(entries)
        if live:
            here = self._children.cursor(self.job)
            if not await self._show_entries(await self._ask(lambda: self.client.entries_after(self.job, here, 0.0))):
                await self._show_children()
            for job, (place, pieces) in live.items():
                self._show_pieces(job, pieces)
                self._places[job] = place
        return bool(entries or live or below)

    async def _show_entries(self, entries: list[Entry]) -> bool:
        if entries:
            await self._show_children()
        return bool(self._show_placed([Placed(self.job, entry) for entry in entries]))

    async def _show_children(self) -> None:
        if self._children:
            self._show_placed(await self._ask(lambda: self._children.read(self.client)))

    def _show_placed(self, placed: Sequence[Placed]) -> list[Placed]:
        """Show what is new of it, and return that."""
        new = self._children.learn(placed)
        for job, entry in new:
            self._note(job, entry)
            self._views.of(job).show(entry)
        return new

    def _note(self, job: str, entry: Entry) -> None:
        match entry.record:
            case LegSuspended(cause="approval" | "children"):
                self.paused.set()
            case Ended() if job != self.job:
                self.paused.set()
            case _:
                pass
        if job == self.job:
            self._last = entry
        self._drafts.setdefault(job, LivePieces()).close(entry.record)

    async def _read_children(self) -> list[Placed]:
        """Return what the children have written, before long: there is no waiting for several journals at once."""
        await asyncio.sleep(_TICK_S)
        return await self._children.read(self.client)

    async def _read_live(self) -> dict[str, LiveRead]:
        """Return what is being written, in the job and in those below it that go on: not for long, others may come."""
        jobs = (self.job, *self._children.jobs)
        return await self.client.live_of({job: self._places.get(job, "0") for job in jobs}, _TICK_S)

    def _show_pieces(self, job: str, pieces: list[LivePiece]) -> None:
        drafts, view = self._drafts.setdefault(job, LivePieces()), self._views.of(job)
        for piece in pieces:
            if drafts.is_open(piece):
                view.live(piece)

    async def _catch_up(self) -> None:
        """Show what there is already, or its tail; nothing when this follower goes on after a break."""
        if self._last is not None:
            return
        await self._ask(lambda: self.client.job(self.job))
        placed = in_order(await self._ask(lambda: self.client.journals(self.job)))
        known = [at for at, (job, entry) in enumerate(placed) if job == self.job and entry.seq <= self.after]
        first = max([0 if self.tail is None else len(placed) - self.tail, *(at + 1 for at in known[-1:]), 0])
        for job, entry in self._children.learn(placed[:first]):
            self._note(job, entry)
            self._views.of(job).learn(entry)
        self._show_placed(placed[first:])

    async def _go_back(self) -> None:
        """Go on behind what the server still has, and say so."""
        was = self._seq
        entries = await self._ask(lambda: self._children.go_back(self.client, self.job))
        kept = entries[: self._seq]
        self._last = kept[-1] if kept else None
        if self._seq < was:
            self._places = {}  # the clock of another host may be behind, and what comes be before what we have read
        self._drafts[self.job] = LivePieces()
        for entry in kept:
            self._drafts[self.job].close(entry.record)
        whose = f"steps {self._seq + 1} to {was} are" if self._seq < was else "some of what its child jobs did is"
        self.view.note(
            f"the server went back in time: {whose} forgotten; job {self.job} goes on behind step {self._seq}"
        )

    async def _end(self) -> Ended | None:
        last = self._last
        if last is None or not isinstance(last.record, Ended):
            return None
        return last.record if await self._ask(lambda: self.client.has_ended(self.job, last)) else None

    async def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the server's answer, however often it has to be asked while it is away."""
        while True:
            try:
                return await question()
            except StoreUnavailable as error:
                await self._outlast(error)

    async def _outlast(self, error: StoreUnavailable) -> None:
        """Return when the server answers again; say once that it does not. Raises ``StoreUnavailable`` in the end."""
        if self.outage_s <= 0:
            raise error
        self.view.note(f"the server does not answer: waiting up to {self.outage_s:g} s for it")
        deadline = time.monotonic() + self.outage_s
        while time.monotonic() < deadline:
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                    await self.client.job(self.job)
                self.view.note("the server answers again")
                return
            await asyncio.sleep(_PAUSE_S)
        raise StoreUnavailable(
            f"the server has not answered for {self.outage_s:g} s. The job may go on: `ekiden job follow {self.job}` "
            "shows it once the server is back"
        ) from error

    async def _tell_why_nothing_happens(self) -> None:
        await self._tell(unhealthy)
        if not self.is_served:
            await self._tell(waits_behind)
            for job in (self.job, *self._children.jobs[:_LOOKED_AT]):
                await self._tell(without_pool, job)

    async def _tell(
        self, reason: Callable[[Client, str], Coroutine[Any, Any, str | None]], job: str | None = None
    ) -> None:
        """Say once why the job (or one below it) does not go on, if it does not."""
        with contextlib.suppress(StoreUnavailable):  # the next read says so
            if (text := await reason(self.client, job or self.job)) is not None and self._warned.first(text):
                self.view.note(text)


async def waits_behind(client: Client, job: str) -> str | None:
    """Say which job of its session ``job`` waits for, if it does."""
    if (await client.job(job)).status != "waiting":
        return None
    active = (await client.session(session_of(job))).active
    return f"job {job} waits behind job {active} of its session" if active else None


async def unhealthy(client: Client, _: str) -> str | None:
    """Say what keeps the server from going on with any job, if something does."""
    return await client.health_problem()


async def without_pool(client: Client, job: str) -> str | None:
    """Say that no pool serves the queue that ``job`` waits in, if so, and what to do."""
    found = await client.job(job)
    if found.status != "queued" or any(found.queue in pool.queues for pool in await client.pools()):
        return None
    agent = agent_of(found.queue)
    whom, command = (f"agent {agent!r}", f"worker --agents {agent}") if agent else ("new jobs", "dispatcher")
    return f"the job waits: no running pool serves {whom}; start one with `ekiden {command}`"


def show_job_tree(job: str, placed: Sequence[Placed], view: View, tail: int | None) -> None:
    """Show the journals of a job and of those below it as they are now, or their tail."""
    views = Views(job, view)
    first = 0 if tail is None else max(0, len(placed) - tail)
    for index, (one, entry) in enumerate(placed):
        of_one = views.of(one)
        (of_one.show if index >= first else of_one.learn)(entry)


class _Reads:
    """Reads that wait at the server, side by side; one that has nothing yet goes on while others are served."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def keep(self, name: str, read: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin the read ``name`` unless it is under way."""
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(read())

    async def next(self, wait_s: float) -> dict[str, Any]:
        """Return what has been read, by name; nothing after ``wait_s``."""
        await asyncio.wait(self._tasks.values(), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        done = {name: task for name, task in self._tasks.items() if task.done()}
        self._tasks = {name: task for name, task in self._tasks.items() if name not in done}
        errors = [error for task in done.values() if (error := task.exception()) is not None]
        if errors:
            raise errors[0]
        return {name: task.result() for name, task in done.items()}

    async def __aenter__(self) -> "_Reads":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Break off what is under way: it was asked for from places that are no more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks = {}
