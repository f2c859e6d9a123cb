"""What becomes of a queue message."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import DefinitionError, ModelUnavailable, StopFlag, StoreUnavailable
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.logs import LOG_FIELDS
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.outcomes import Answer, Outcome, Suspended, Transfer
from ekiden.shared.records import Ended, LegSuspended, ModelReplied, Noticed, Record, Refused, ToolFinished, ToolStarted
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.runner import Runner
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import JobStore, Lease
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend, real_backend
from tests.contract.relay_world import claimed, done, moved, reply, submitted
from tests.unit.relay.legs import Playing, expire, handler_of, runner_of, take, types_of

CANCEL = Ended(leg=0, status="cancelled", reason="ABORTED")


@pytest.fixture
def backend() -> Backend:
    return real_backend()


async def never(leg: Leg) -> Outcome:
    """A handler's move that takes for ever."""
    await asyncio.sleep(60)
    raise AssertionError


async def begun(runner: Runner) -> None:
    """Wait until the runner's handler has been called."""
    await asyncio.wait_for(handler_of(runner).begun.wait(), 60)


class Instead:
    """A store with some methods replaced."""

    def __init__(self, store: JobStore, **methods: Any) -> None:
        self._store = store
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_an_answer_ends_the_job_and_goes_into_the_session(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores, "what is it?")
        runner = runner_of(stores, Answer("42"))
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        view = await stores.jobs.job(job)
        assert (view.status, view.result) == ("done", "42")
        assert await types_of(stores, job) == ["request", "leg_started", "ended"]
        said = await stores.sessions.messages(job.partition(".")[0])
        assert [one.message.text for one in said] == ["what is it?", "42"]

    backend.run(scenario)


def test_log_lines_of_a_leg_name_it_and_those_of_the_next_message_do_not(backend: Backend) -> None:
    told: list[object] = []

    async def move(leg: Leg) -> Outcome:
        told.append(LOG_FIELDS.get().get("job"))
        return Answer("42")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, move)
        await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE)
        await runner.run({"v": 99, "job": "x", "leg": 1}, DISPATCH_QUEUE)
        assert told == [job]
        assert LOG_FIELDS.get() == {}

    backend.run(scenario)


async def _busy(stores: Stores, job: str) -> None:
    await claimed(stores, job)


async def _stale(stores: Stores, job: str) -> None:
    await moved(stores, job, "a")


async def _finished(stores: Stores, job: str) -> None:
    leg = await claimed(stores, job)
    await stores.jobs.finish(leg.lease, "c", [done(leg=0)], [])


async def _too_new(stores: Stores, job: str) -> None:
    await stores.client.hset(keys.job(job), "v", "99")


async def _gone(stores: Stores, job: str) -> None:
    await stores.client.delete(keys.job(job), keys.journal(job))


async def _suspended(stores: Stores, job: str) -> None:
    leg = await claimed(stores, job)
    await stores.jobs.suspend(leg.lease, "c", [LegSuspended(cause="retry", delay_s=60)], 60)


@pytest.mark.parametrize("before", [_busy, _stale, _finished, _too_new, _gone, _suspended])
def test_a_message_for_a_leg_that_is_not_ours_is_no_error_and_writes_nothing(
    backend: Backend, before: Callable[[Stores, str], Awaitable[None]]
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        message = await take(stores, DISPATCH_QUEUE)
        await before(stores, job)
        wrote = await types_of(stores, job)
        runner = runner_of(stores)
        assert await runner.run(message, DISPATCH_QUEUE) == before.__name__.removeprefix("_")
        assert handler_of(runner).legs == []
        assert await types_of(stores, job) == wrote

    backend.run(scenario)


def test_a_message_of_a_later_version_that_is_unknown_here_is_left_to_others(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        raw = {"v": 99, "job": "x", "leg": 1, "sash": "another form"}
        assert await runner_of(stores).run(raw, DISPATCH_QUEUE) == "too_new"

    backend.run(scenario)


def test_fields_that_a_later_version_added_to_the_message_are_ignored(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores)
        message = {**await take(stores, DISPATCH_QUEUE), "new": {"field": 1}}
        assert await runner_of(stores, Answer("42")).run(message, DISPATCH_QUEUE) == "ok"

    backend.run(scenario)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("name"),
        SystemExit(2),
        asyncio.CancelledError(),
        OSError("caf\udce9"),
        RecursionError("deep"),
        BaseExceptionGroup("all", [SystemExit(2)]),
    ],
)
def test_an_unexpected_exception_fails_the_job_and_says_what_it_was(backend: Backend, error: BaseException) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        assert await runner_of(stores, error).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        view = await stores.jobs.job(job)
        assert (view.status, view.reason) == ("failed", "ERROR")
        said = str(error).replace("\udce9", "\ufffd")
        assert view.result == f"{type(error).__name__}: {said} (a fault of Ekiden's: see the worker's log)"

    backend.run(scenario)


def test_an_error_of_ours_fails_the_job_with_its_own_text(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        error = DefinitionError("agent 'x' is broken: mend it")
        await runner_of(stores, error).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE)
        view = await stores.jobs.job(job)
        assert (view.status, view.result) == ("failed", "agent 'x' is broken: mend it")

    backend.run(scenario)


def test_an_error_of_ours_that_names_what_is_no_utf_8_ends_the_job_all_the_same(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        error = DefinitionError("the file 'caf\udce9.md' is broken")
        await runner_of(stores, error).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE)
        assert (await stores.jobs.job(job)).result == "the file 'caf\ufffd.md' is broken"

    backend.run(scenario)


@pytest.mark.parametrize("error", [ModelUnavailable("overloaded"), StoreUnavailable("gone")])
def test_a_transient_error_leaves_the_leg_to_be_taken_again(backend: Backend, error: Exception) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, error, Answer("42"))
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "interrupted"
        assert (await stores.jobs.job(job)).status == "running"
        await expire(stores, job)
        assert await stores.jobs.overdue(2) == [job]
        assert await stores.jobs.requeue(job, 2, 5) == "ok"
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert (await stores.jobs.job(job)).result == "42"
        assert [leg.attempt for leg in handler_of(runner).legs] == [1, 2]

    backend.run(scenario)


def test_a_server_that_is_gone_at_the_claim_leaves_the_leg_queued(backend: Backend) -> None:
    async def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("connection refused")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, store=Instead(stores.jobs, claim=gone), lease_s=0.5)
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "interrupted"
        assert (await stores.jobs.job(job)).status == "queued"

    backend.run(scenario)


def test_after_a_refused_transfer_the_handler_has_another_go(backend: Backend) -> None:
    def to(leg: Leg, agent: str) -> HandoffContext:
        return leg.context.advance(agent, "because")

    async def back(leg: Leg) -> Outcome:
        return Transfer(to(leg, "a"), call_id="c7", tool_name="transfer_to_a")

    async def too_deep(leg: Leg) -> Outcome:
        return Transfer(to(leg, "c"), call_id="c8", tool_name="transfer_to_c", max_depth=1)

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "a", "b")
        await stores.jobs.suspend(leg.lease, "c", [LegSuspended(leg=2, cause="retry", delay_s=0)], 0)
        await stores.jobs.requeue(job, 2, 5)
        await stores.client.rpop(queue_for("b"))
        runner = runner_of(stores, back, too_deep, Answer("42"))
        assert await runner.run(await take(stores, queue_for("b")), queue_for("b")) == "ok"
        refused = [r for r in handler_of(runner).legs[-1].records if isinstance(r, Refused)]
        assert [(r.call_id, r.name, r.code) for r in refused] == [
            ("c7", "transfer_to_a", "CIRCULAR_HANDOFF"),
            ("c8", "transfer_to_c", "MAX_DEPTH_EXCEEDED"),
        ]
        assert "'a' has had this job already (user -> a -> b)" in refused[0].message
        assert (await stores.jobs.job(job)).result == "42"

    backend.run(scenario)


def test_a_transfer_moves_the_job_on(backend: Backend) -> None:
    async def route(leg: Leg) -> Outcome:
        return Transfer(leg.context.advance("debugger", "routed", is_route=True), catalog="digest")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        assert await runner_of(stores, route).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        view = await stores.jobs.job(job)
        assert (view.agent, view.leg, view.catalog, view.depth) == ("debugger", 1, "digest", 0)
        assert (await take(stores, queue_for("debugger")))["leg"] == 1

    backend.run(scenario)


def test_a_stopping_pool_gives_the_leg_back_at_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, never, Answer("42"))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):  # so that the pool does not acknowledge it
            await running
        view = await stores.jobs.job(job)
        assert (view.status, view.attempts) == ("suspended", 0)
        paused = (await stores.jobs.journal(job))[-1].record
        assert paused == LegSuspended(leg=0, cause="retry", delay_s=0, detail="worker stopping")
        assert await stores.jobs.overdue(60) == [job]
        assert await stores.jobs.requeue(job, 60, 5) == "ok"
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"

    backend.run(scenario)


def test_a_stopping_pool_gives_back_a_leg_whose_journal_it_still_reads(backend: Backend) -> None:
    reading = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        reading.set()
        await asyncio.sleep(60)

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, store=Instead(stores.jobs, page=slow))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await asyncio.wait_for(reading.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await stores.jobs.job(job)).status == "suspended"

    backend.run(scenario)


def test_a_stopping_pool_whose_server_is_gone_stops_all_the_same(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.shared.relay.runner.GIVE_BACK_S", 0.1)

    async def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("connection refused")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, never, store=Instead(stores.jobs, suspend=gone))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await stores.jobs.job(job)).status == "running"  # until its lease ends

    backend.run(scenario)


def test_a_cancelled_jobs_leg_is_stopped_and_ends_as_cancelled(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, never)
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        assert await stores.jobs.stop(job, "user", [CANCEL], []) == "flagged"
        await runner._leases.renew(stores.jobs)
        assert await asyncio.wait_for(running, 60) == "ok"
        assert (await stores.jobs.job(job)).status == "cancelled"

    backend.run(scenario)


@pytest.mark.parametrize("flag", ["parent", "deadline"])
def test_a_leg_that_a_hint_stops_ends_for_the_reason_that_its_job_is_stopped_for(
    backend: Backend, flag: StopFlag
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, never)
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        assert await stores.jobs.stop(job, flag, [CANCEL], []) == "flagged"
        runner._leases.cancelled(job)
        assert await asyncio.wait_for(running, 60) == "ok"
        ended = [entry.record for entry in await stores.jobs.journal(job) if isinstance(entry.record, Ended)]
        why = {"parent": "the job that delegated it needs it no more", "deadline": "the job's deadline has passed"}
        assert [(end.error, end.status) for end in ended] == [
            (why[flag], {"parent": "cancelled", "deadline": "failed"}[flag])
        ]

    backend.run(scenario)


def test_a_cancelled_job_is_seen_at_the_next_record(backend: Backend) -> None:
    async def record(leg: Leg) -> Outcome:
        await stores_of[0].jobs.stop(leg.job, "user", [CANCEL], [])
        await leg.record(Noticed(leg=0, text="not written"))
        raise AssertionError

    stores_of: list[Stores] = []

    async def scenario(stores: Stores) -> None:
        stores_of.append(stores)
        job = await submitted(stores)
        assert await runner_of(stores, record).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert (await stores.jobs.job(job)).status == "cancelled"
        assert await types_of(stores, job) == ["request", "leg_started", "ended"]

    backend.run(scenario)


@pytest.mark.parametrize("outcome", [Answer("42"), Suspended("retry", 60)])
def test_an_outcome_that_comes_after_the_cancellation_is_not_taken(backend: Backend, outcome: Outcome) -> None:
    stores_of: list[Stores] = []

    async def late(leg: Leg) -> Outcome:
        assert await stores_of[0].jobs.stop(leg.job, "user", [CANCEL], []) == "flagged"
        return outcome

    async def scenario(stores: Stores) -> None:
        stores_of.append(stores)
        job = await submitted(stores)
        assert await runner_of(stores, late).run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        view = await stores.jobs.job(job)
        assert (view.status, view.result) == ("cancelled", "cancelled")

    backend.run(scenario)


def test_a_job_cancelled_while_its_journal_is_read_ends_as_cancelled(backend: Backend) -> None:
    reading = asyncio.Event()

    async def scenario(stores: Stores) -> None:
        async def slow_once(*args: Any, **kwargs: Any) -> Any:
            if not reading.is_set():
                reading.set()
                await asyncio.sleep(60)
            return await stores.jobs.page(*args, **kwargs)

        job = await submitted(stores)
        runner = runner_of(stores, store=Instead(stores.jobs, page=slow_once))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await asyncio.wait_for(reading.wait(), 60)
        await stores.jobs.stop(job, "user", [CANCEL], [])
        await runner._leases.renew(stores.jobs)
        assert await asyncio.wait_for(running, 60) == "ok"
        assert (await stores.jobs.job(job)).status == "cancelled"

    backend.run(scenario)


@pytest.mark.parametrize("cause", ["stopping", "cancelled"])
def test_a_write_that_was_broken_off_is_looked_for_before_the_leg_ends(backend: Backend, cause: str) -> None:
    written = asyncio.Event()
    call = ToolCall(id="c1", name="ls", args={})
    asked = ModelReplied(leg=0, turn=1, message=Message(role="model", parts=(call,)))
    answer = ToolFinished(leg=0, result=ToolResult(call_id="c1", name="ls", content="a.py"))

    async def scenario(stores: Stores) -> None:
        async def reply_lost(lease: Lease, token: str, records: list[Record], **options: Any) -> Any:
            told = await stores.jobs.append(Lease(**vars(lease)), token, records, **options)
            if answer in records:
                written.set()
                await asyncio.sleep(60)
            return told

        async def calling(leg: Leg) -> Outcome:
            await leg.record(asked)
            await leg.record(answer)
            raise AssertionError

        job = await submitted(stores)
        runner = runner_of(stores, calling, store=Instead(stores.jobs, append=reply_lost))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await asyncio.wait_for(written.wait(), 60)
        if cause == "stopping":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            await stores.jobs.stop(job, "user", [CANCEL], [])
            await runner._leases.renew(stores.jobs)
            assert await asyncio.wait_for(running, 60) == "ok"
        end = {"stopping": "suspended", "cancelled": "ended"}[cause]
        kinds = ["request", "leg_started", "model_reply", "tool_result", end]
        assert await types_of(stores, job) == kinds, "one answer to the call, and the end at once"

    backend.run(scenario)


def test_a_leg_whose_steps_the_server_has_forgotten_is_lost(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        real = stores.jobs.page

        async def forgetful(*args: Any) -> Any:
            return (await real(*args))[:-1]

        async def nothing(*_: Any, **__: Any) -> Any:
            return []

        runner = runner_of(stores, Answer("42"), store=Instead(stores.jobs, page=forgetful, journal=nothing))
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "lost"
        assert await types_of(stores, job) == ["request", "leg_started"]

    backend.run(scenario)


def test_a_leg_that_another_worker_took_stops_and_writes_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        message = await take(stores, DISPATCH_QUEUE)

        async def lose(leg: Leg) -> Outcome:
            await expire(stores, job)
            assert await other.run(message, DISPATCH_QUEUE) == "ok"
            return Answer("too late")

        async def lose_and_record(leg: Leg) -> Outcome:
            await lose(leg)
            await leg.record(Noticed(leg=0, text="not written"))
            raise AssertionError

        other = runner_of(stores, Answer("42"))
        assert await runner_of(stores, lose).run(message, DISPATCH_QUEUE) == "fenced"
        assert (await stores.jobs.job(job)).result == "42"
        second = await submitted(stores, request_id="r2")
        job, message = second, await take(stores, DISPATCH_QUEUE)
        other = runner_of(stores, Answer("42"))
        assert await runner_of(stores, lose_and_record).run(message, DISPATCH_QUEUE) == "lost"
        assert await types_of(stores, job) == ["request", "leg_started", "leg_started", "ended"]

    backend.run(scenario)


def test_a_leg_whose_lease_ran_out_before_its_handler_began_costs_no_attempt(backend: Backend) -> None:
    reading, go = asyncio.Event(), asyncio.Event()

    async def scenario(stores: Stores) -> None:
        async def slow(*args: Any, **kwargs: Any) -> Any:
            reading.set()
            await go.wait()
            return await stores.jobs.page(*args, **kwargs)

        job = await submitted(stores)
        runner = runner_of(stores, store=Instead(stores.jobs, page=slow))
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await asyncio.wait_for(reading.wait(), 60)
        [held] = runner._leases._held.values()
        held.valid_until = 0.0
        with capture_logs() as logs:
            runner._leases.stop_expired()
            assert await asyncio.wait_for(running, 60) == "lost"
        assert [(log["event"], log["verdict"]) for log in logs] == [("leg_lost_before_it_ran", "ok")]
        assert handler_of(runner).legs == []
        view = await stores.jobs.job(job)
        assert (view.status, view.attempts) == ("queued", 0)
        assert len(runner._leases) == runner._leases.begun == 0

    backend.run(scenario)


def test_a_server_that_goes_away_before_the_handler_began_costs_no_attempt(backend: Backend) -> None:
    async def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("connection refused")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, store=Instead(stores.jobs, page=gone))
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "interrupted"
        assert (await stores.jobs.job(job)).attempts == 0
        runner = runner_of(stores, store=Instead(stores.jobs, page=gone, give_back=gone), lease_s=0.1)
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "interrupted"
        view = await stores.jobs.job(job)
        assert (view.status, view.attempts) == ("running", 1), "nobody could tell it: it stays as it was"

    backend.run(scenario)


def test_a_leg_that_is_lost_while_it_runs_counts(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, never)
        running = asyncio.create_task(runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE))
        await begun(runner)
        assert runner._leases.begun == 1
        [held] = runner._leases._held.values()
        held.valid_until = 0.0
        runner._leases.stop_expired()
        assert await asyncio.wait_for(running, 60) == "lost"
        assert (await stores.jobs.job(job)).attempts == 1
        assert runner._leases.begun == 0

    backend.run(scenario)


def test_time_spent_counts_over_all_attempts(backend: Backend) -> None:
    async def spend(leg: Leg) -> Outcome:
        leg._began -= 70.0
        await leg.record(Noticed(leg=0, text="70 s later"))
        raise ModelUnavailable("overloaded")

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        runner = runner_of(stores, spend, Answer("42"))
        message = await take(stores, DISPATCH_QUEUE)
        await runner.run(message, DISPATCH_QUEUE)
        await expire(stores, job)
        assert await runner.run(message, DISPATCH_QUEUE) == "ok"
        assert 70_000 <= handler_of(runner).legs[1].used_ms < 130_000

    backend.run(scenario)


def test_a_leg_that_runs_alone_is_given_back_before_its_next_tools_once_it_has_made_progress(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        started = ToolStarted(leg=0, call_id="c", name="look")

        async def work(leg: Leg) -> Outcome:
            await leg.record(started)  # of the reply that it was interrupted after
            await leg.record(reply(leg=0), is_progress=True)
            await leg.record(started)
            raise AssertionError

        handler = Playing(work, Answer("42"))
        runner = Runner(stores.jobs, Leases(30), handler, cycles="parent", until_progress=True)
        assert await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE) == "ok"
        assert await types_of(stores, job) == ["request", "leg_started", "tool_started", "model_reply", "suspended"]
        view = await stores.jobs.job(job)
        assert (view.status, view.attempts) == ("suspended", 0)

    backend.run(scenario)


class Room:
    """A quarantine that is full, or not."""

    def __init__(self, *, is_full: bool) -> None:
        self.is_full = is_full
        self.ran: list[str] = []

    async def run(self, message: dict[str, Any], queue: str) -> str:
        self.ran.append(message["job"])
        return "died_alone"


def test_poisonous_legs_that_come_all_at_once_fill_the_room_and_no_more(backend: Backend) -> None:
    class Narrow(Room):
        async def run(self, message: dict[str, Any], queue: str) -> str:
            self.ran.append(message["job"])
            self.is_full = len(self.ran) >= 2
            await asyncio.Event().wait()
            raise AssertionError("nobody lets it go on")

    async def scenario(stores: Stores) -> None:
        jobs = [await submitted(stores, request_id=f"r{n}") for n in range(10)]
        for job in jobs:
            await stores.client.hset(keys.job(job), "attempts", 2)
        room = Narrow(is_full=False)
        runner = Runner(stores.jobs, Leases(30), Playing(), cycles="parent", quarantine=room, quarantine_from=2)
        messages = [await take(stores, DISPATCH_QUEUE) for _ in jobs]
        running = [asyncio.create_task(runner.run(message, DISPATCH_QUEUE)) for message in messages]
        async with asyncio.timeout(60):
            assert [await verdict for verdict in islice(asyncio.as_completed(running), 8)] == ["deferred"] * 8
        assert len(room.ran) == 2
        for task in running:
            task.cancel()

    backend.run(scenario)


@pytest.mark.parametrize("is_full", [True, False])
def test_a_poisonous_leg_runs_alone_where_there_is_room_and_waits_elsewhere(backend: Backend, is_full: bool) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.hset(keys.job(job), "attempts", 2)
        room = Room(is_full=is_full)
        runner = Runner(stores.jobs, Leases(30), Playing(), cycles="parent", quarantine=room, quarantine_from=2)
        verdict = await runner.run(await take(stores, DISPATCH_QUEUE), DISPATCH_QUEUE)
        status = (await stores.jobs.job(job)).status
        assert (verdict, status) == (("deferred", "suspended") if is_full else ("died_alone", "queued"))
        assert room.ran == ([] if is_full else [job])

    backend.run(scenario)
