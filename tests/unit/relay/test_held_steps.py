"""The last steps of a leg, which are held until its commit: every way out of a leg takes them along."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.hooks.base import Hook, Hooks, LegHook
from ekiden.shared.outcomes import Answer, Failed, Outcome, Suspended, Transfer
from ekiden.shared.records import Ended, Entry, ModelReplied, Nudged
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend, real_backend
from tests.contract.relay_world import claimed, reply, submitted
from tests.unit.relay.legs import Move, expire, runner_of, take, types_of
from tests.unit.relay.test_runner import Instead, begun

CANCEL = Ended(leg=0, status="cancelled", reason="ABORTED")
HELD = reply("my last word", leg=0, tokens=60)


@pytest.fixture
def backend() -> Backend:
    return real_backend()


class Hearing(Hook, LegHook):
    """Notes which entries of the journal it is told of, and what stood before the end of a job."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.before_end: list[int] = []

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        return self

    def recorded(self, entries: Sequence[Entry]) -> None:
        self.told += [(entry.seq, entry.record.type) for entry in entries]

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        self.before_end = [entry.seq for entry in [*entries, *records]]


def holding(outcome: Outcome) -> Move:
    async def move(leg: Leg) -> Outcome:
        leg.hold(HELD)
        return outcome

    return move


async def stay(leg: Leg) -> Outcome:
    leg.hold(HELD)
    await asyncio.sleep(60)
    raise AssertionError


async def hand_over(leg: Leg) -> Outcome:
    leg.hold(HELD)
    return Transfer(leg.context.advance("a", "because", is_route=True))


async def run(stores: Stores, *moves: Move, hooks: Hook | None = None, **instead: Any) -> str:
    runner = runner_of(stores, *moves, store=Instead(stores.jobs, **instead), hooks=hooks or Hook())
    return await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE)


async def never_called(*args: Any, **options: Any) -> Any:
    raise AssertionError("a script of its own")


@pytest.mark.parametrize(
    ("move", "kinds"),
    [
        (holding(Answer("42")), ["model_reply", "ended"]),
        (holding(Failed("TIMEOUT", "too late")), ["model_reply", "ended"]),
        (holding(Suspended("retry", 60.0)), ["model_reply", "suspended"]),
        (hand_over, ["model_reply", "handoff"]),
    ],
)
def test_what_is_held_is_written_by_the_commit_and_told_once_behind_it(
    backend: Backend, move: Move, kinds: list[str]
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        hearing = Hearing()
        assert await run(stores, move, hooks=hearing, append=never_called) == "ok"
        assert await types_of(stores, job) == ["request", "leg_started", *kinds]
        assert hearing.told == list(enumerate(kinds, 3))
        assert hearing.before_end in ([], [1, 2, 3, 4]), "what is held is no part of the journal before its end"
        assert (await stores.jobs.job(job)).spent.tokens == 60

    backend.run(scenario)


def test_what_is_held_counts_for_the_leg_at_once_and_for_nobody_else_before_it_is_written(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        hearing = Hearing()

        async def look(leg: Leg) -> Outcome:
            leg.hold(HELD)
            assert [entry.seq for entry in leg.entries] == [1, 2, 3]
            assert [turn.reply for turn in leg.conversation.turns] == [HELD]
            assert (leg.lease.seq, len(leg.written), hearing.told) == (2, 2, [])
            assert await stores.jobs.renew([leg.lease], 30.0) == {}
            return Answer("42")

        assert await run(stores, look, hooks=hearing) == "ok"
        assert len(await types_of(stores, job)) == 4

    backend.run(scenario)


def test_a_refused_transfer_leaves_what_is_held_to_its_refusal(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        hearing = Hearing()

        async def too_deep(leg: Leg) -> Outcome:
            leg.hold(HELD.model_copy(update={"leg": 1}))
            return Transfer(leg.context.advance("b", "because"), call_id="c", tool_name="transfer_to_b", max_depth=0)

        assert await run(stores, hand_over) == "ok"
        runner = runner_of(stores, too_deep, Answer("42"), hooks=hearing)
        assert await runner.run(await take(stores, queue_for("a")), queue_for("a")) == "ok"
        kinds = ["model_reply", "handoff_refused", "ended"]
        assert (await types_of(stores, job))[-4:] == ["leg_started", *kinds]
        assert hearing.told == list(enumerate(kinds, 6))
        assert (await stores.jobs.job(job)).spent.tokens == 120

    backend.run(scenario)


def test_the_next_record_takes_along_what_is_held(backend: Backend) -> None:
    async def nudge(leg: Leg) -> Outcome:
        leg.hold(HELD)
        await leg.record(Nudged(leg=0, text="go on"))
        assert (leg.lease.seq, leg.is_holding) == (4, False)
        leg.hold(reply("again", leg=0, tokens=5))
        return Answer("42")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        hearing = Hearing()
        assert await run(stores, nudge, hooks=hearing) == "ok"
        kinds = ["model_reply", "nudged", "model_reply", "ended"]
        assert await types_of(stores, job) == ["request", "leg_started", *kinds]
        assert hearing.told == list(enumerate(kinds, 3))
        assert (await stores.jobs.job(job)).spent.tokens == 65

    backend.run(scenario)


async def _by_record(stores: Stores, leg: Leg) -> Outcome:
    await stores.jobs.stop(leg.job, "user", [CANCEL], [])
    await leg.record(Nudged(leg=0, text="not written"))
    raise AssertionError


async def _by_commit(stores: Stores, leg: Leg) -> Outcome:
    await stores.jobs.stop(leg.job, "user", [CANCEL], [])
    return Answer("42")


async def _by_deadline(stores: Stores, leg: Leg) -> Outcome:
    await stores.jobs.stop(leg.job, "deadline", [CANCEL], [])
    return Transfer(leg.context.advance("a", "because", is_route=True))


@pytest.mark.parametrize(
    ("noticed", "status"), [(_by_record, "cancelled"), (_by_commit, "cancelled"), (_by_deadline, "failed")]
)
def test_a_job_that_is_stopped_ends_behind_what_is_held(
    backend: Backend, noticed: Callable[[Stores, Leg], Any], status: str
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        hearing = Hearing()

        async def move(leg: Leg) -> Outcome:
            leg.hold(HELD)
            outcome: Outcome = await noticed(stores, leg)
            return outcome

        assert await run(stores, move, hooks=hearing) == "ok"
        assert (await stores.jobs.job(job)).status == status
        assert await types_of(stores, job) == ["request", "leg_started", "model_reply", "ended"]
        assert hearing.told == [(3, "model_reply"), (4, "ended")]
        assert (await stores.jobs.job(job)).spent.tokens == 60

    backend.run(scenario)


@pytest.mark.parametrize(("cause", "end"), [("stopping", "suspended"), ("cancelled", "ended")])
def test_a_leg_that_is_broken_off_takes_along_what_is_held(backend: Backend, cause: str, end: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, stay)
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        if cause == "stopping":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            await stores.jobs.stop(job, "user", [CANCEL], [])
            await runner._leases.renew(stores.jobs)
            assert await asyncio.wait_for(running, 60) == "ok"
        assert await types_of(stores, job) == ["request", "leg_started", "model_reply", end]
        assert (await stores.jobs.job(job)).spent.tokens == 60

    backend.run(scenario)


@pytest.mark.parametrize("write", ["append", "finish"])
def test_a_write_that_was_broken_off_has_taken_along_what_is_held(backend: Backend, write: str) -> None:
    """The server has it, and its answer never came: it is in the journal once, and told of once."""
    written = asyncio.Event()

    async def move(leg: Leg) -> Outcome:
        leg.hold(HELD)
        if write == "append":
            await leg.record(Nudged(leg=0, text="go on"))
        return Answer("42")

    async def scenario(stores: Stores) -> None:
        async def answer_lost(lease: Any, *args: Any, **options: Any) -> Any:
            await getattr(stores.jobs, write)(replace(lease), *args, **options)
            written.set()
            await asyncio.sleep(60)

        job = await submitted(stores)
        hearing = Hearing()
        runner = runner_of(stores, move, store=Instead(stores.jobs, **{write: answer_lost}), hooks=hearing)
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await asyncio.wait_for(written.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        kinds = {"append": ["model_reply", "nudged", "suspended"], "finish": ["model_reply", "ended"]}[write]
        assert await types_of(stores, job) == ["request", "leg_started", *kinds]
        assert hearing.told == list(enumerate(kinds, 3))
        assert (await stores.jobs.job(job)).spent.tokens == 60

    backend.run(scenario)


def test_a_limit_that_breaks_a_write_off_ends_the_leg_behind_what_is_written(backend: Backend) -> None:
    """Else the position would be wrong, and the leg would wait for the end of its own lease."""

    async def scenario(stores: Stores) -> None:
        async def answer_lost(lease: Any, *args: Any, **options: Any) -> Any:
            await stores.jobs.append(replace(lease), *args, **options)
            raise TimeoutError

        async def limited(leg: Leg) -> Outcome:
            leg.hold(HELD)
            try:
                await leg.record(Nudged(leg=0, text="go on"))
            except TimeoutError:
                return Failed("TIMEOUT", "max_seconds")
            raise AssertionError

        job = await submitted(stores)
        hearing = Hearing()
        assert await run(stores, limited, hooks=hearing, append=answer_lost) == "ok"
        kinds = ["model_reply", "nudged", "ended"]
        assert await types_of(stores, job) == ["request", "leg_started", *kinds]
        assert hearing.told == list(enumerate(kinds, 3))

    backend.run(scenario)


def test_what_a_lost_leg_held_is_lost_with_it_and_asked_for_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        message = await take(stores, DISPATCH_QUEUE)

        async def taken(leg: Leg) -> Outcome:
            leg.hold(HELD)
            await expire(stores, job)
            await claimed(stores, job, "another#1", lease_s=0.0)
            return Answer("42")

        hearing = Hearing()
        assert await runner_of(stores, taken, hooks=hearing).run(message, DISPATCH_QUEUE) == "fenced"
        assert (hearing.told, (await stores.jobs.job(job)).spent.tokens) == ([], 0)
        await expire(stores, job)

        async def again(leg: Leg) -> Outcome:
            assert leg.conversation.turns == [], "the reply is asked for again"
            leg.hold(HELD)
            return Answer("42")

        assert await runner_of(stores, again).run(message, DISPATCH_QUEUE) == "ok"
        view = await stores.jobs.job(job)
        assert (view.status, view.spent.tokens) == ("done", 60), "what is in the journal is what counts"
        replies = [entry for entry in await stores.jobs.journal(job) if isinstance(entry.record, ModelReplied)]
        assert len(replies) == 1

    backend.run(scenario)


def test_a_server_that_is_away_at_the_commit_gets_what_is_held_once_it_is_back(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        failing = iter([False, True, True])

        async def flaky(*args: Any, **options: Any) -> Any:
            is_written = next(failing, None)
            verdict = None if is_written is False else await stores.jobs.finish(*args, **options)
            if is_written is not None:
                raise StoreUnavailable("it never came, or its answer did not")
            return verdict

        job = await submitted(stores)
        hearing = Hearing()
        runner = runner_of(stores, holding(Answer("42")), store=Instead(stores.jobs, finish=flaky), hooks=hearing)
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert await types_of(stores, job) == ["request", "leg_started", "model_reply", "ended"]
        assert hearing.told == [(3, "model_reply"), (4, "ended")]
        assert (await stores.jobs.job(job)).spent.tokens == 60
        assert await stores.client.zscore(keys.LEASES, job) is None

    backend.run(scenario)


class Reading(Hook, LegHook):
    """Keeps the journal that it is shown, and notes how long that is when the leg is left."""

    journal: Sequence[Entry] = ()
    at_the_end = 0

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        return self

    def opened(self, entries: Sequence[Entry]) -> None:
        self.journal = entries

    def left(self, error: BaseException | None) -> None:
        self.at_the_end = len(self.journal)


def test_a_long_journal_is_freed_page_by_page_once_who_hears_of_its_leg_has_seen_all_of_it(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.shared.relay.leg.PAGE", 2)

    async def long(leg: Leg) -> Outcome:
        await leg.record(*(reply(f"{turn}", leg=0) for turn in range(5)))
        return Answer("done")

    async def scenario(stores: Stores) -> None:
        await submitted(stores)
        reading = Reading()
        runner = runner_of(stores, long, hooks=Hooks(reading))
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert reading.at_the_end == len(reading.journal) == 7, "request, start, five replies"
        left = []
        while reading.journal:
            await asyncio.sleep(0)
            left.append(len(reading.journal))
        assert left == [5, 3, 1, 0]

    backend.run(scenario)
