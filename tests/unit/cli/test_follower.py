"""Following a job: journal and live text in the order in which things happened, each once; outages outlasted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import Follower, waits_behind
from ekiden.dispatcher.journal_cursor import JournalCursor
from ekiden.shared.errors import StoreUnavailable, UnknownJob
from ekiden.shared.records import Delegated, Entry, LegSuspended, Noticed
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed, claims_in
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.submissions import ChildSubmission
from ekiden.shared.stores.views import LivePiece
from tests.contract.relay_world import claimed, done, moved, reply, submission, submitted
from tests.contract.rewinding import Snapshot
from tests.contract.test_children import FAILED, children_of, end

T = TypeVar("T")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than people need it, and wait for a tenth of the time in one read."""
    monkeypatch.setattr("ekiden.dispatcher.journal.follower._TICK_S", 0.1)
    monkeypatch.setattr("ekiden.dispatcher.journal.follower._QUIET_S", 0.2)
    monkeypatch.setattr("ekiden.shared.stores.job_ends.LOOK_S", 0.2)
    monkeypatch.setattr(Client.entries_after, "__defaults__", (0.2,))
    monkeypatch.setattr(Client.live, "__defaults__", ("0", 0.2))


class Seen:
    """A view that keeps what it is shown."""

    def __init__(self, changed: asyncio.Event | None = None) -> None:
        self.events: list[str] = []
        self.notes: list[str] = []
        self.learnt: list[str] = []
        self.children: dict[str, Seen] = {}
        self._changed = changed or asyncio.Event()

    def show(self, entry: Entry) -> None:
        self._add(entry.record.type)

    def learn(self, entry: Entry) -> None:
        self.learnt.append(entry.record.type)

    def below(self, job: str) -> "Seen":
        self.children[job] = Seen(self._changed)
        return self.children[job]

    def live(self, piece: LivePiece) -> None:
        self._add(piece.text)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._changed.set()

    def tick(self) -> None:
        pass

    async def until(self, event: str) -> None:
        """Return when ``event`` was shown."""
        await self.until_so(lambda: event in self.events)

    async def until_so(self, condition: Callable[[], object]) -> None:
        """Return when something was shown that makes ``condition`` true."""
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def _add(self, event: str) -> None:
        self.events.append(event)
        self._changed.set()


def run(url: str, scenario: Callable[[Stores, Client, Seen], Awaitable[T]]) -> T:
    async def whole() -> T:
        stores = open_stores(url)
        await as_any(stores.client.flushall())
        async with Client(url) as client:
            try:
                return await scenario(stores, client, Seen())
            finally:
                await stores.close()

    return asyncio.run(whole())


def piece(text: str, leg: Claimed, turn: int = 1) -> LivePiece:
    return LivePiece(leg=leg.lease.leg, fence=leg.lease.fence, turn=turn, text=text)


async def record(stores: Stores, leg: Claimed, token: str, turn: int = 1) -> None:
    written = reply().model_copy(update={"turn": turn})
    await stores.jobs.append(leg.lease, token, [written], used_ms=0, is_progress=True)


BEFORE = ["request", "leg_started", "handoff", "leg_started"]


def test_a_late_follower_sees_recorded_turns_from_the_journal_and_the_open_one_live(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        await stores.live.append(leg.lease.job, [piece("recorded", leg)])
        await record(stores, leg, "a")
        await stores.live.append(leg.lease.job, [piece("open", leg, 2)])
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await seen.until("open")
        await stores.live.append(leg.lease.job, [piece("more", leg, 2)])
        await seen.until("more")
        await record(stores, leg, "b", 2)
        await stores.jobs.finish(leg.lease, "end", [done()], [])
        assert (await following).answer == "42"
        assert seen.events == [*BEFORE, "model_reply", "open", "more", "model_reply", "ended"]

    run(valkey_url, scenario)


def test_a_reply_that_was_seen_while_it_was_written_and_comes_with_the_end_is_shown_once(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await stores.live.append(leg.lease.job, [piece("seen while", leg)])
        await seen.until("seen while")
        await stores.live.append(leg.lease.job, [piece("it was written", leg)])
        await stores.jobs.finish(leg.lease, "end", [reply(), done()], [])
        assert (await following).answer == "42"
        shown = [event for event in seen.events if event != "it was written"]  # which may have come too late
        assert shown == [*BEFORE, "seen while", "model_reply", "ended"]
        assert seen.events[-2:] == ["model_reply", "ended"]

    run(valkey_url, scenario)


def test_pieces_of_an_earlier_attempt_are_void(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        old = leg.lease.fence
        pieces = [piece("void", leg), piece("valid", leg).model_copy(update={"fence": f"{claims_in(old) + 1}.w2"})]
        await stores.live.append(leg.lease.job, pieces)
        await stores.jobs.suspend(leg.lease, "s", [LegSuspended(leg=leg.lease.leg, cause="retry", delay_s=0.0)], 0.0)
        await stores.jobs.requeue(leg.lease.job, 0.0, 5)
        again = await claimed(stores, leg.lease.job)
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await seen.until("valid")
        await stores.jobs.finish(again.lease, "end", [done()], [])
        await following
        assert "void" not in seen.events

    run(valkey_url, scenario)


def test_a_tail_shows_the_last_entries_and_learns_the_others(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        await record(stores, leg, "a")
        await stores.jobs.finish(leg.lease, "end", [done()], [])
        await Follower(client, leg.lease.job, seen, tail=2).run()
        assert seen.events == ["model_reply", "ended"]
        assert seen.learnt == BEFORE

    run(valkey_url, scenario)


def test_nothing_is_shown_while_somebody_else_uses_the_terminal(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        follower = Follower(client, leg.lease.job, seen, is_served=True)
        following = asyncio.create_task(follower.run())
        await seen.until("leg_started")
        follower.may_show.clear()
        await stores.jobs.finish(leg.lease, "end", [done()], [])
        await client.wait(leg.lease.job)
        assert "ended" not in seen.events
        follower.may_show.set()
        await following
        assert seen.events[-1] == "ended"

    run(valkey_url, scenario)


def test_a_job_that_waits_for_another_of_its_session_says_so_once(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        first = await submitted(stores)
        second = await stores.jobs.reserve(first.partition(".")[0], "r2")
        await stores.jobs.submit(submission(second))
        assert await waits_behind(client, second) == f"job {second} waits behind job {first} of its session"
        assert await waits_behind(client, first) is None
        following = asyncio.create_task(Follower(client, second, seen, is_served=True).run())
        await seen.until("request")
        await client.cancel(second)
        await following
        assert len(seen.notes) == 1

    run(valkey_url, scenario)


class Away(Client):
    """A client whose server is away for some of its answers: a real one cannot be stopped in mid-read at will."""

    away = 0

    async def entries_after(self, job: str, cursor: JournalCursor, wait_s: float = 2.0) -> list[Entry]:
        self._fail()
        return await super().entries_after(job, cursor, wait_s)

    async def job(self, job: str):  # type: ignore[no-untyped-def]  # as the client's
        self._fail()
        return await super().job(job)

    def _fail(self) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("gone")


def follow_with_outage(url: str, away: int, outage_s: float) -> Seen:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> Seen:
        leg = await moved(stores, await submitted(stores), "debugger")
        await stores.jobs.finish(leg.lease, "end", [done()], [])
        async with Away(url) as flaky:
            flaky.away = away
            await Follower(flaky, leg.lease.job, seen, outage_s=outage_s).run()
        return seen

    return run(url, scenario)


def test_a_server_that_comes_back_is_waited_for_and_said_once(valkey_url: str) -> None:
    seen = follow_with_outage(valkey_url, away=3, outage_s=20)
    assert seen.notes == ["the server does not answer: waiting up to 20 s for it", "the server answers again"]
    assert seen.events == [*BEFORE, "ended"]


def test_a_server_that_stays_away_ends_the_following_with_what_to_do(valkey_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"not answered for 0\.3 s.*ekiden job follow"):
        follow_with_outage(valkey_url, away=1_000, outage_s=0.3)


def test_a_job_that_is_gone_is_not_waited_for(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        with pytest.raises(UnknownJob):
            await Follower(client, "aaaaaaaaaaaaaaaa.1", seen).run()

    run(valkey_url, scenario)


async def delegated(stores: Stores, leg: Claimed, count: int) -> list[str]:
    """Suspend ``leg`` on so many children, as the relay does; their ids."""
    children: list[ChildSubmission] = children_of(leg, count)
    calls = [
        Delegated(leg=leg.lease.leg, call_id=one.child.call_id, child=one.child.job, agent="scout") for one in children
    ]
    pause = LegSuspended(leg=leg.lease.leg, cause="children", delay_s=0)
    token = f"{leg.lease.fence}.s"
    assert await stores.jobs.suspend(leg.lease, token, [*calls, pause], 0.0, children=children) == ("ok", "")
    return [one.child.job for one in children]


def test_children_are_followed_while_they_go_on_and_before_their_parent_does(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "lead")
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        first, second = await delegated(stores, leg, 2)
        await seen.until("suspended")
        child = await claimed(stores, first)
        await seen.until_so(lambda: first in seen.children)
        await seen.children[first].until("leg_started")
        assert seen.children[first].events == ["request", "handoff", "leg_started"]
        [grandchild] = await delegated(stores, child, 1)
        await end(stores, grandchild)
        await end(stores, first, FAILED)
        await end(stores, second)
        again = await claimed(stores, leg.lease.job)
        await stores.jobs.finish(again.lease, "end", [done()], [])
        await following
        assert seen.children[first].events[-1] == "ended"
        assert seen.children[second].events == ["request", "handoff", "leg_started", "ended"]
        assert seen.children[first].children[grandchild].events[-1] == "ended"
        assert seen.events[-2:] == ["leg_started", "ended"]

    run(valkey_url, scenario)


def test_a_late_follower_sees_each_entry_of_parent_and_children_once(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "lead")
        [child] = await delegated(stores, leg, 1)
        running = await claimed(stores, child)
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await seen.until("suspended")
        await stores.jobs.finish(running.lease, "e", [done()], [])
        again = await claimed(stores, leg.lease.job)
        await stores.jobs.finish(again.lease, "end", [done()], [])
        await following
        assert seen.children[child].events == ["request", "handoff", "leg_started", "ended"]
        assert seen.events.count("suspended") == 1
        tail = Seen()
        await Follower(client, leg.lease.job, tail, tail=3).run()
        assert (tail.children[child].events, tail.events) == (["ended"], ["leg_started", "ended"])
        assert tail.children[child].learnt == ["request", "handoff", "leg_started"]

    run(valkey_url, scenario)


def test_a_child_that_nobody_serves_is_said_so(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "lead")
        await delegated(stores, leg, 1)
        following = asyncio.create_task(Follower(client, leg.lease.job, seen).run())
        await seen.until_so(lambda: seen.notes)
        assert seen.notes == [
            "the job waits: no running pool serves agent 'scout'; start one with `ekiden worker --agents scout`"
        ]
        await client.cancel(leg.lease.job)
        await following

    run(valkey_url, scenario)


async def notice(stores: Stores, leg: Claimed, *texts: str) -> None:
    for text in texts:
        record = Noticed(leg=leg.lease.leg, text=text)
        await stores.jobs.append(leg.lease, f"{leg.lease.fence}.{text}", [record], used_ms=0, is_progress=True)


class Texts(Seen):
    """A view that keeps the texts of notices."""

    def show(self, entry: Entry) -> None:
        self._add(entry.record.text if isinstance(entry.record, Noticed) else entry.record.type)


def test_a_server_that_goes_back_is_said_once_and_what_it_has_is_shown(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Seen) -> None:
        seen = Texts()
        leg = await moved(stores, await submitted(stores), "debugger")
        before = Snapshot(valkey_url)
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await notice(stores, leg, "void 1", "void 2", "void 3")
        await seen.until("void 3")
        before.restore()
        again = await claimed_again(stores, leg)
        await notice(stores, again, "valid")
        await seen.until("valid")
        await stores.jobs.finish(again.lease, "end", [done()], [])
        assert (await following).answer == "42"
        assert seen.events == [*BEFORE, "void 1", "void 2", "void 3", "leg_started", "valid", "ended"]
        [note] = seen.notes
        assert note.startswith("the server went back in time: steps 5 to 7 are forgotten; job")
        assert note.endswith("goes on behind step 4")

    run(valkey_url, scenario)


async def claimed_again(stores: Stores, leg: Claimed) -> Claimed:
    """Take the leg over, as another worker does once its lease has run out."""
    await as_any(stores.client.zadd(keys.LEASES, {leg.lease.job: 1}))
    return await claimed(stores, leg.lease.job, "w2#1")


def test_a_journal_that_has_grown_again_beyond_what_was_read_is_no_less_another_one(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Seen) -> None:
        seen = Texts()
        leg = await moved(stores, await submitted(stores), "debugger")
        before = Snapshot(valkey_url)
        await notice(stores, leg, *(f"valid {n}" for n in range(6)))
        await stores.jobs.finish(leg.lease, "end", [done()], [])
        grown = Snapshot(valkey_url)
        before.restore()
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await notice(stores, await claimed_again(stores, leg), "void 1", "void 2")
        await seen.until("void 2")
        grown.restore()
        await following
        assert seen.events == [*BEFORE, "leg_started", "void 1", "void 2", *(f"valid {n}" for n in range(6)), "ended"]

    run(valkey_url, scenario)


def test_a_job_that_the_server_has_lost_altogether_ends_the_following(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        before = Snapshot(valkey_url)
        leg = await moved(stores, await submitted(stores), "debugger")
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        waiting = asyncio.create_task(client.wait(leg.lease.job))
        await seen.until("handoff")
        before.restore()
        for task in (following, waiting):
            with pytest.raises(UnknownJob):
                await asyncio.wait_for(task, 60)

    run(valkey_url, scenario)


async def another(stores: Stores, job: str) -> None:
    """Give the number of ``job`` to another request, and end what comes of it."""
    assert await stores.jobs.reserve(job.partition(".")[0], "another's") == job
    assert await stores.jobs.submit(submission(job, "another's", "another's"))
    leg = await claimed(stores, job)
    await stores.jobs.finish(leg.lease, "end", [done("another's", leg=0)], [])


def test_another_job_that_got_the_number_of_a_lost_one_is_never_taken_for_it(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        first = await claimed(stores, await submitted(stores))
        await stores.jobs.finish(first.lease, "end", [done(leg=0)], [])
        session = first.lease.job.partition(".")[0]
        before = Snapshot(valkey_url)
        await another(stores, f"{session}.2")
        theirs = Snapshot(valkey_url)
        before.restore()
        job = await client.submit("mine", session=session)
        assert job == f"{session}.2"
        read_some = asyncio.create_task(Follower(client, job, seen, is_served=True).run())
        await seen.until("request")
        theirs.restore()
        for following in (read_some, Follower(client, job, Seen()).run(), client.wait(job)):
            with pytest.raises(UnknownJob, match="another request has its number now; submit yours again"):
                await asyncio.wait_for(following, 60)
        assert seen.events == ["request"]
        async with Client(valkey_url) as third:
            assert (await third.wait(job)).result == "another's"

    run(valkey_url, scenario)


def test_who_waits_for_a_job_goes_on_with_what_the_server_still_has(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "debugger")
        before = Snapshot(valkey_url)
        await notice(stores, leg, "void 1", "void 2")
        places: list[int] = []

        async def follow() -> None:
            async for entry in client.follow(leg.lease.job, after=4):
                if entry is None:
                    continue
                places.append(entry.seq)
                if entry.seq == 6 and len(places) == 2:
                    before.restore()
                    again = await claimed_again(stores, leg)
                    await stores.jobs.finish(again.lease, "end", [done()], [])

        await asyncio.wait_for(follow(), 60)
        assert places == [5, 6, 5, 6]
        assert (await asyncio.wait_for(client.wait(leg.lease.job), 60)).result == "42"

    run(valkey_url, scenario)


def test_children_that_go_back_are_read_again_and_those_that_are_lost_are_let_go(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, seen: Seen) -> None:
        leg = await moved(stores, await submitted(stores), "lead")
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await seen.until("leg_started")
        without = Snapshot(valkey_url)
        [child] = await delegated(stores, leg, 1)
        begun = Snapshot(valkey_url)
        await claimed(stores, child)
        await seen.until_so(lambda: child in seen.children and "leg_started" in seen.children[child].events)
        begun.restore()
        await seen.until_so(lambda: seen.notes)
        await end(stores, child)
        await seen.children[child].until("ended")
        assert seen.children[child].events == ["request", "handoff", "leg_started", "leg_started", "ended"]
        assert "some of what its child jobs did is forgotten" in seen.notes[0]
        without.restore()
        await seen.until_so(lambda: len(seen.notes) == 2)
        again = await claimed_again(stores, leg)
        await stores.jobs.finish(again.lease, "end", [done()], [])
        await asyncio.wait_for(following, 60)
        assert seen.events[-2:] == ["leg_started", "ended"]

    run(valkey_url, scenario)


def test_what_is_written_live_is_seen_also_where_the_clock_went_back_with_the_server(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client, _: Seen) -> None:
        seen = Texts()
        leg = await moved(stores, await submitted(stores), "debugger")
        before = Snapshot(valkey_url)
        following = asyncio.create_task(Follower(client, leg.lease.job, seen, is_served=True).run())
        await notice(stores, leg, "void step")
        in_ten_minutes = f"{round(time.time() * 1000) + 600_000}-0"
        ahead = piece("void text", leg).model_dump_json()
        await stores.client.xadd(keys.live(leg.lease.job), {"p": ahead}, id=in_ten_minutes)
        await seen.until("void text")
        before.restore()
        again = await claimed_again(stores, leg)
        await seen.until_so(lambda: seen.notes)
        await stores.live.append(leg.lease.job, [piece("valid text", again)])
        await seen.until("valid text")
        await stores.jobs.finish(again.lease, "end", [done()], [])
        await following

    run(valkey_url, scenario)
