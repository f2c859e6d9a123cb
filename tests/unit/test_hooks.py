"""Who listens hears everything, in order, whatever the others do."""

import asyncio
import inspect
import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import LostLease
from ekiden.shared.handoff import first_context
from ekiden.shared.hooks import base as seam
from ekiden.shared.hooks.base import NO_HOOKS, Hook, HookedModel, Hooks, LegHook, attending
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import user_message
from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Entry
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.stores.base import Claimed, CommitVerdict, JobStore, Lease
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend
from tests.contract.relay_world import submitted
from tests.unit.relay.legs import runner_of, take

CLAIMED = Claimed(Lease("abcdefghij234567.1", 1, "7"), first_context("abcdefghij234567.1"), 1, 0, "", "", None)
LEG_EVENTS = [name for name, _ in inspect.getmembers(LegHook, inspect.isfunction)]
EVENTS = sorted(name for name in vars(Hook) if name not in ("hears", "leg_claimed") and not name.startswith("_"))
"""What it is told of; what it is asked (``Intervening``) is another matter."""


def listener(
    told: list[tuple[str, str]], name: str, *, raises: bool = False, error: type[BaseException] = RuntimeError
) -> Hook:
    """A hook that overrides everything, and remembers what it was told."""

    def hear(event: str) -> Any:
        def heard(self: object, *args: object, **kwargs: object) -> None:
            told.append((name, event))
            if raises:
                raise error(f"{name} is broken")

        return heard

    leg_hook = type("EveryLeg", (LegHook,), {event: hear(event) for event in LEG_EVENTS})()

    def leg_claimed(self: object, claimed: Claimed, queue: str) -> LegHook:
        told.append((name, "leg_claimed"))
        return leg_hook  # type: ignore[no-any-return]  # made above

    made = type("Everything", (Hook,), {event: hear(event) for event in EVENTS} | {"leg_claimed": leg_claimed})
    return made()  # type: ignore[no-any-return]  # as above


def tell_all(hooks: Hooks) -> list[str]:
    """Tell every event that there is, and return them in order."""
    leg = hooks.leg_claimed(CLAIMED, "q")
    for event in LEG_EVENTS:
        getattr(leg, event)(*arguments(LegHook, event), **keywords(LegHook, event))
    for event in EVENTS:
        getattr(hooks, event)(*arguments(Hook, event), **keywords(Hook, event))
    return ["leg_claimed", *LEG_EVENTS, *EVENTS]


def arguments(kind: type, event: str) -> list[None]:
    parameters = inspect.signature(getattr(kind, event)).parameters.values()
    return [None for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][1:]


def keywords(kind: type, event: str) -> dict[str, None]:
    parameters = inspect.signature(getattr(kind, event)).parameters.values()
    return {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}


def test_two_hooks_both_hear_everything_and_in_order() -> None:
    told: list[tuple[str, str]] = []
    events = tell_all(Hooks(listener(told, "first"), listener(told, "second")))
    assert len(events) > 20
    in_order = [(name, event) for event in events for name in ("first", "second") if event != "close"]
    assert [one for one in told if one[1] != "close"] == in_order
    assert sorted(one for one in told if one[1] == "close") == [("first", "close"), ("second", "close")]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [RuntimeError, Unprintable, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration, BaseException],
)
def test_a_hook_that_raises_breaks_nothing_silences_nobody_and_is_named_once(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    told: list[tuple[str, str]] = []
    hooks = Hooks(listener(told, "broken", raises=True, error=error), listener(told, "whole"))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            events = tell_all(hooks)
    assert [event for name, event in told if name == "whole"] == events * 3
    faults = [record.getMessage() for record in caplog.records]
    assert len(faults) == len(set(faults)) == len(events) - 1, "leg_claimed alone did not raise"
    assert any("Everything.job_ended" in fault for fault in faults)
    assert any("EveryLeg.recorded" in fault for fault in faults)


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: object, **kwargs: object) -> Any:
        raise error

    return raises


async def coming_later(self: object, *args: object, **kwargs: object) -> None:
    raise AssertionError("nobody awaits a hook")


class Elusive(LegHook):
    """Lets nobody look at what it would hear."""

    left = property(raising(SystemExit()))


@pytest.mark.parametrize(
    "claim",
    [
        raising(RuntimeError("no")),
        raising(asyncio.CancelledError()),
        raising(BaseExceptionGroup("all", [KeyboardInterrupt()])),
        coming_later,
        lambda *_: True,
        lambda *_: [LegHook()],
        lambda *_: Elusive(),
    ],
    ids=["raises", "cancelled", "group", "async", "true", "list", "elusive"],
)
def test_a_hook_that_cannot_take_a_leg_keeps_no_other_from_it(
    claim: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str]] = []
    faulty = type("Faulty", (Hook,), {"leg_claimed": claim})()
    with (
        warnings.catch_warnings(action="error"),
        attending(Hooks(faulty, listener(told, "whole")), CLAIMED, "q") as leg,
    ):
        leg.opened([])
    assert [event for _, event in told] == ["leg_claimed", "opened", "left"]
    assert [record.getMessage().split()[0] for record in caplog.records] == ["hook_failed:"]


def test_what_is_async_would_never_run_and_is_told_as_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    def yielding(self: object, *args: object) -> Any:
        yield

    kind = type("Late", (Hook,), {"leg_requeued": coming_later, "queues_seen": yielding})
    with warnings.catch_warnings(action="error"):
        hooks = Hooks(kind())
        hooks.leg_requeued("a")
        hooks.queues_seen([])
    assert [record.getMessage().split()[1].rpartition(".")[2] for record in caplog.records] == [
        "leg_requeued",
        "queues_seen",
    ]
    assert all("nobody awaits it" in str(record.exc_info) for record in caplog.records)


def test_a_cancellation_that_was_asked_for_comes_even_where_a_hook_raises_one_of_its_own() -> None:
    reached: list[str] = []

    async def leg() -> None:
        hooks = Hooks(listener([], "broken", raises=True, error=asyncio.CancelledError))
        hooks.leg_requeued("a")
        await asyncio.sleep(0)
        reached.append("uncancelled")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        hooks.leg_requeued("b")
        reached.append("until it waits")
        await asyncio.sleep(0)
        reached.append("never")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leg())
    assert reached == ["uncancelled", "until it waits"]


def test_an_interruption_comes_through_in_the_main_thread_and_is_a_hooks_fault_in_any_other() -> None:
    hooks = Hooks(listener([], "broken", raises=True, error=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        hooks.leg_requeued("a")
    with ThreadPoolExecutor() as threads:
        threads.submit(hooks.leg_requeued, "b").result()


def test_what_a_hook_is_handed_it_can_read_as_it_grows_but_not_change() -> None:
    seen: list[Any] = []
    hook = type("Keeping", (LegHook,), {"opened": lambda self, entries: seen.append(entries)})()
    leg = Hooks(type("Giving", (Hook,), {"leg_claimed": lambda *_: hook})()).leg_claimed(CLAIMED, "q")
    entries: list[Any] = [1, 2]
    leg.opened(entries)
    entries.append(3)
    (view,) = seen
    assert (len(view), list(view), view[-1], view[1:], 3 in view) == (3, [1, 2, 3], 3, [2, 3], True)
    for change in ("clear", "append", "pop", "__setitem__", "__delitem__", "__iadd__"):
        assert not hasattr(view, change), change
    view[:].clear()
    assert entries == [1, 2, 3]


def test_a_hook_that_changes_a_claim_or_a_mapping_changes_its_own(caplog: pytest.LogCaptureFixture) -> None:
    def leg_claimed(self: object, claimed: Claimed, queue: str) -> None:
        claimed.lease.seq = 7
        claimed.rows.clear()

    def suspensions_seen(self: object, jobs: dict[str, int]) -> None:
        jobs.clear()

    events = {"leg_claimed": leg_claimed, "suspensions_seen": suspensions_seen}
    hooks = Hooks(type("Changing", (Hook,), events)())
    claimed = replace(CLAIMED, lease=replace(CLAIMED.lease), rows=["a row"])
    hooks.leg_claimed(claimed, "q")
    assert (claimed.lease, claimed.rows) == (CLAIMED.lease, ["a row"])
    hooks.suspensions_seen(jobs := {"retry": 2})
    assert jobs == {"retry": 2}
    assert "suspensions_seen" in caplog.text


def test_where_nobody_listens_the_empty_method_of_the_base_class_is_called() -> None:
    class Counting(Hook):
        def leg_requeued(self, job: str) -> None:
            """Hears of this alone."""

    hooks = Hooks(Counting())
    assert (hooks.hears("leg_requeued"), hooks.hears("queues_seen"), NO_HOOKS.hears("leg_requeued")) == (
        True,
        False,
        False,
    )
    assert hooks.queues_seen.__func__ is Hook.queues_seen  # type: ignore[attr-defined]  # a bound method
    assert hooks.leg_claimed(CLAIMED, "q").recorded.__func__ is LegHook.recorded  # type: ignore[attr-defined]  # also


def test_a_hook_that_is_added_later_hears_what_happens_from_then_on() -> None:
    told: list[tuple[str, str]] = []
    hooks = Hooks(listener(told, "first"))
    hooks.leg_requeued("a")
    hooks.add(listener(told, "second"))
    hooks.leg_requeued("b")
    assert [name for name, _ in told] == ["first", "first", "second"]


def test_a_leg_is_left_with_what_broke_it_off() -> None:
    class Leaving(LegHook):
        def left(self, error: BaseException | None) -> None:
            left.append(error)

    class Claiming(Hook):
        def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
            return Leaving()

    left: list[BaseException | None] = []
    with attending(Hooks(Claiming()), CLAIMED, "q"):
        pass
    with pytest.raises(ValueError, match="no"), attending(Hooks(Claiming()), CLAIMED, "q"):
        raise ValueError("no")
    assert [type(error) for error in left] == [type(None), ValueError]


def test_an_end_that_hangs_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Hook):
        def close(self) -> None:
            hang.wait()

    told: list[tuple[str, str]] = []
    hang = threading.Event()
    monkeypatch.setattr(seam, "CLOSE_S", 0.2)
    Hooks(Hanging(), listener(told, "other")).close()
    hang.set()
    assert told == [("other", "close")]


class Model:
    """Streams, then answers or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if on_delta:
            on_delta(Delta("so"))
        if self._error:
            raise self._error
        return ModelReply(message=user_message("so"))


def test_a_models_call_its_pieces_and_its_end_are_told() -> None:
    told: list[tuple[str, str]] = []
    leg = Hooks(listener(told, "a")).leg_claimed(CLAIMED, "q")
    request, pieces = ModelRequest("first", "m", "", ()), list[Delta]()
    asyncio.run(HookedModel(Model(), leg).reply(request, pieces.append))
    with pytest.raises(ValueError, match="away"):
        asyncio.run(HookedModel(Model(ValueError("away")), leg).reply(request))
    assert [event for _, event in told[1:]] == [
        "model_called",
        "model_streamed",
        "model_replied",
        "model_called",
        "model_failed",
    ]
    assert [piece.text for piece in pieces] == ["so"]


class Journalist(Hook):
    """Remembers the journal as a leg's hook is told of it."""

    def __init__(self, *, raises: bool = False) -> None:
        self.entries: list[Entry] = []
        self.outcomes: list[str] = []
        self.ended = 0
        self.is_broken = raises

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        return _Page(self)

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        self.ended += in_leg


class _Page(LegHook):
    def __init__(self, above: Journalist) -> None:
        self._above = above

    def opened(self, entries: Sequence[Entry]) -> None:
        self._above.entries += entries[len(self._above.entries) :]
        self._fail()

    def recorded(self, entries: Sequence[Entry]) -> None:
        self._above.entries += entries
        self._fail()

    def committed(self, outcome: Outcome, verdict: Any) -> None:
        self._above.outcomes.append(f"{type(outcome).__name__} {verdict}")
        self._fail()

    def _fail(self) -> None:
        if self._above.is_broken:
            raise RuntimeError("a broken hook")


async def work(leg: Leg) -> Outcome:
    if leg.number == 0:
        return Transfer(leg.context.advance("debugger", "go", is_route=True), catalog="cat")
    return Answer("42")


def test_what_a_leg_records_and_commits_is_told_as_it_stands_in_the_journal(backend: Backend) -> None:
    first, broken, second = Journalist(), Journalist(raises=True), Journalist()

    async def scenario(stores: Stores) -> list[Entry]:
        job = await submitted(stores)
        runner = runner_of(stores, work, work, hooks=Hooks(first, broken, second))
        for queue in (DISPATCH_QUEUE, queue_for("debugger")):
            await runner.run(await take(stores, queue), queue)
        assert (await stores.jobs.job(job)).status == "done"
        return await stores.jobs.journal(job)

    journal = backend.run(scenario)
    wanted = [(entry.seq, entry.record) for entry in journal]
    for told in (first, broken, second):
        assert [(entry.seq, entry.record) for entry in told.entries] == wanted
        assert told.outcomes == ["Transfer ok", "Answer ok"]


class Vandal(LegHook):
    """Does what it can to the leg, then raises what would end a program."""

    def opened(self, entries: Sequence[Entry]) -> None:
        entries.clear()  # type: ignore[attr-defined]  # a fault

    def recorded(self, entries: Sequence[Entry]) -> None:
        del entries[:]  # type: ignore[attr-defined]  # likewise

    def committed(self, outcome: Outcome, verdict: CommitVerdict) -> None:
        raise asyncio.CancelledError

    def left(self, error: BaseException | None) -> None:
        raise SystemExit


class Vandals(Hook):
    """Spoils the lease, and what it hears of a job's end."""

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        claimed.lease.seq, claimed.lease.fence = 0, "7"
        return Vandal()

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        entries.clear()  # type: ignore[attr-defined]  # a fault


def test_a_job_ends_as_it_would_whatever_a_hook_does_to_it(backend: Backend) -> None:
    told = Journalist()

    async def scenario(stores: Stores) -> list[Entry]:
        job = await submitted(stores)
        runner = runner_of(stores, work, work, hooks=Hooks(Vandals(), told))
        for queue in (DISPATCH_QUEUE, queue_for("debugger")):
            await runner.run(await take(stores, queue), queue)
        assert (await stores.jobs.job(job)).status == "done"
        return await stores.jobs.journal(job)

    journal = backend.run(scenario)
    assert [(entry.seq, entry.record) for entry in told.entries] == [(entry.seq, entry.record) for entry in journal]
    assert (told.outcomes, told.ended) == (["Transfer ok", "Answer ok"], 1)


class Unheard:
    """A store whose answer to a commit never comes: the lease is lost before."""

    def __init__(self, store: JobStore, is_written: bool) -> None:
        self._store = store
        self._is_written = is_written

    def __getattr__(self, name: str) -> Any:
        return self._commit(name) if name in ("transfer", "finish") else getattr(self._store, name)

    def _commit(self, name: str) -> Any:
        async def commit(*args: Any, **kwargs: Any) -> Any:
            if self._is_written:
                await getattr(self._store, name)(*args, **kwargs)
            raise LostLease("before the answer came")

        return commit


@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_whose_answer_was_lost_is_told_if_it_was_carried_out(backend: Backend, is_written: bool) -> None:
    told = Journalist()

    async def scenario(stores: Stores) -> list[Entry]:
        job = await submitted(stores)
        store: Any = Unheard(stores.jobs, is_written)
        for queue in (DISPATCH_QUEUE, queue_for("debugger"))[: 1 + is_written]:
            runner = runner_of(stores, work, hooks=Hooks(told), store=store)
            assert await runner.run(await take(stores, queue), queue) == "lost"
        return await stores.jobs.journal(job)

    journal = backend.run(scenario)
    assert [entry.record.type for entry in journal][-1] == ("ended" if is_written else "leg_started")
    assert [(entry.seq, entry.record) for entry in told.entries] == [(entry.seq, entry.record) for entry in journal]
    assert told.ended == is_written
