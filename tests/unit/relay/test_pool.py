"""The pool without a worker: each trap of running coroutines under Celery."""

import asyncio
import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from billiard.exceptions import Terminated, WorkerLostError
from celery import Celery, signals
from celery.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded

from ekiden.shared.relay.pool import AsyncPool, RequestStack

DEADLINE_S = 60.0


class Pool:
    """A started pool, its app, and what it reported."""

    def __init__(self) -> None:
        self.app = Celery("pool", broker="memory://", set_as_current=False)
        self.reports: queue.Queue[tuple[int, Any, float]] = queue.Queue()
        self.accepted: queue.Queue[int] = queue.Queue()
        self.pool = AsyncPool(10, app=self.app)

    def task(self, function: Callable[..., Any]) -> Any:
        """Register a task; before ``start``."""
        return self.app.task(name=function.__name__, bind=True, shared=False)(function)

    def start(self) -> None:
        """Start the pool."""
        self.app.finalize()
        self.pool.start()

    def apply(self, task: Any, *args: Any, **limits: float) -> Any:
        """Hand over one message as Celery's consumer does: with the body, and with what it has decoded of it."""
        task_id = f"id-{list(args)}"
        request = {"id": task_id, "task": task.name, "args": list(args), "kwargs": {}}
        return self.pool.apply_async(
            lambda *_: (0, task.run(*args), 0.0),  # what Celery's tracer answers for a plain task
            args=(task.name, task_id, request, b"...", "application/json", "utf-8"),
            callback=self.reports.put,
            accept_callback=lambda pid, at: self.accepted.put(pid),
            **limits,
        )

    def report(self) -> tuple[bool, Any]:
        """The next report: whether it failed, and the value or exception."""
        failed, value, _ = self.reports.get(timeout=DEADLINE_S)
        return bool(failed), value.exception.exc if failed else value


@pytest.fixture
def pool() -> Iterator[Pool]:
    one = Pool()
    yield one
    if one.pool.active:
        one.pool.cancel()
        one.pool.stop()


@contextmanager
def connected(signal: Any, receiver: Callable[..., None]) -> Iterator[None]:
    """Receive a Celery signal inside the block."""
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


def test_messages_that_come_while_the_loop_is_busy_wake_it_once_and_all_run(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pool.task
    async def answer(self: Any, number: int) -> int:
        return number

    pool.start()
    loop, wakes, is_busy, may_turn = pool.pool.loop, list[Any](), threading.Event(), threading.Event()

    def hold() -> None:
        is_busy.set()
        may_turn.wait(DEADLINE_S)

    loop.call_soon_threadsafe(hold)
    assert is_busy.wait(DEADLINE_S)
    wake = loop.call_soon_threadsafe

    def counted(*call: Any) -> None:
        wakes.append(call)
        wake(*call)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    for number in range(5):
        pool.apply(answer, number)
    assert len(wakes) == 1
    may_turn.set()
    assert sorted(pool.report()[1] for _ in range(5)) == [0, 1, 2, 3, 4]
    pool.apply(answer, 5)
    assert pool.report() == (False, 5)


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_what_has_not_begun_when_the_loop_stops_is_left_to_another_pool(pool: Pool, stops: int) -> None:
    @pool.task
    async def answer(self: Any, number: int) -> int:
        return number

    pool.start()
    loop, may_turn = pool.pool.loop, threading.Event()
    loop.call_soon_threadsafe(may_turn.wait, DEADLINE_S)
    pool.apply(answer, 0)
    loop.call_soon_threadsafe(loop.stop)
    loop.call_soon_threadsafe(stop_again, loop, stops - 1)
    may_turn.set()
    pool.pool.stop()
    assert pool.reports.empty(), "the message is not acknowledged"
    gc.collect()  # a coroutine that was never awaited is told of now


def stop_again(loop: asyncio.AbstractEventLoop, times: int) -> None:
    """Stop a loop once more whenever it turns again."""
    if times:
        loop.call_soon(loop.stop)
        loop.call_soon(stop_again, loop, times - 1)


def test_tasks_that_run_at_once_each_see_their_own_request(pool: Pool) -> None:
    @pool.task
    async def look(self: Any, n: int) -> tuple[int, str, list[int], int]:
        await asyncio.sleep(0.05)  # all of them are inside now
        return n, self.request.id, self.request.args, len(self.request_stack)

    pool.start()
    for n in range(20):
        pool.apply(look, n)
    reports = [pool.report() for _ in range(20)]
    assert sorted(value for _, value in reports) == [(n, f"id-[{n}]", [n], 1) for n in range(20)]


def test_the_request_stack_is_the_tasks_own() -> None:
    async def scenario() -> None:
        stack = RequestStack()
        assert (stack.top, stack.pop(), len(stack)) == (None, None, 0)
        stack.push("outer")
        await asyncio.create_task(push_and_leave(stack))
        assert (stack.top, stack.stack) == ("outer", ["outer"])
        assert stack.pop() == "outer"
        assert stack.top is None

    async def push_and_leave(stack: RequestStack) -> None:
        stack.push("inner")
        assert stack.stack == ["outer", "inner"]

    asyncio.run(scenario())


def test_a_revoked_task_reports_terminated_and_no_success(pool: Pool) -> None:
    @pool.task
    async def wait(self: Any) -> None:
        await asyncio.sleep(60)

    pool.start()
    handle = pool.apply(wait)
    pool.accepted.get(timeout=DEADLINE_S)
    handle.terminate()
    failed, error = pool.report()
    assert failed
    assert isinstance(error, Terminated)


def test_that_a_revoked_task_failed_is_reported_on_the_thread_that_revokes(pool: Pool) -> None:
    calls: queue.Queue[tuple[Any, ...]] = queue.Queue()

    class Hub:
        def call_soon(self, *call: Any) -> None:
            calls.put(call)

    @pool.task
    async def wait(self: Any) -> None:
        await asyncio.sleep(60)

    pool.pool.register_with_event_loop(Hub())
    pool.start()
    handle = pool.apply(wait)
    pool.accepted.get(timeout=DEADLINE_S)
    handle.terminate()
    report, *about = calls.get(timeout=DEADLINE_S)
    assert pool.reports.empty(), "two threads that acknowledge the same message end the worker"
    report(*about)
    assert isinstance(pool.report()[1], Terminated)


def test_a_task_is_revoked_by_the_id_that_it_was_accepted_with(pool: Pool) -> None:
    @pool.task
    async def wait(self: Any) -> None:
        await asyncio.sleep(60)

    pool.start()
    pool.apply(wait)
    pool.pool.terminate_job(pool.accepted.get(timeout=DEADLINE_S))
    assert isinstance(pool.report()[1], Terminated)
    pool.pool.terminate_job(12345)  # long gone: nothing happens


def test_exceptions_are_reported_and_logged(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    @pool.task
    async def fail(self: Any) -> None:
        raise ValueError("so it goes")

    pool.start()
    with caplog.at_level(logging.ERROR):
        pool.apply(fail)
        failed, error = pool.report()
    assert failed
    assert isinstance(error, ValueError)
    [record] = caplog.records
    assert "so it goes" in record.getMessage()
    assert record.exc_info


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_loop_ends_one_task_only(pool: Pool, error: BaseException) -> None:
    @pool.task
    async def leave(self: Any) -> None:
        raise error

    @pool.task
    async def stay(self: Any) -> str:
        return "here"

    pool.start()
    pool.apply(leave)
    failed, told = pool.report()
    assert failed
    assert isinstance(told, WorkerLostError)  # reported: else its message would hold a slot for ever
    pool.apply(stay)
    assert pool.report() == (False, "here")


def test_prerun_and_postrun_fire_around_success_and_failure(pool: Pool) -> None:
    @pool.task
    async def divide(self: Any, by: int) -> float:
        return 1 / by

    seen: list[tuple[str, str, object]] = []
    pool.start()
    with (
        connected(signals.task_prerun, lambda **kw: seen.append(("prerun", kw["task_id"], kw["args"]))),
        connected(signals.task_postrun, lambda **kw: seen.append(("postrun", kw["task_id"], kw["state"]))),
    ):
        for by in (1, 0):
            pool.apply(divide, by)
            pool.report()
    assert seen == [
        ("prerun", "id-[1]", [1]),
        ("postrun", "id-[1]", "SUCCESS"),
        ("prerun", "id-[0]", [0]),
        ("postrun", "id-[0]", "FAILURE"),
    ]


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"soft_timeout": 0.05}, SoftTimeLimitExceeded),
        ({"timeout": 0.05}, TimeLimitExceeded),
        ({"soft_timeout": 0.05, "timeout": 30}, SoftTimeLimitExceeded),
    ],
)
def test_time_limits_end_a_task(pool: Pool, limits: dict[str, float], error: type[Exception]) -> None:
    @pool.task
    async def wait(self: Any) -> None:
        await asyncio.sleep(60)

    pool.start()
    pool.apply(wait, **limits)
    failed, told = pool.report()
    assert failed
    assert isinstance(told, error)


def test_a_task_that_outlives_the_soft_limit_is_ended_by_the_hard_one(pool: Pool) -> None:
    @pool.task
    async def stubborn(self: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    pool.start()
    pool.apply(stubborn, soft_timeout=0.05, timeout=0.1)
    assert isinstance(pool.report()[1], TimeLimitExceeded)


def test_the_hard_limit_ends_a_task_also_where_both_pass_during_one_pause_of_the_loop(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.shared.relay.pool.CANCEL_S", 0.05)

    @pool.task
    async def stubborn(self: Any) -> None:
        time.sleep(0.2)  # noqa: ASYNC251  # the pause
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(600)

    pool.start()
    pool.apply(stubborn, soft_timeout=0.05, timeout=0.1)
    assert isinstance(pool.report()[1], TimeLimitExceeded)


def test_a_timeout_of_the_tasks_own_is_not_taken_for_a_limit(pool: Pool) -> None:
    @pool.task
    async def fail(self: Any) -> None:
        raise TimeoutError("the model's")

    pool.start()
    pool.apply(fail, soft_timeout=30, timeout=60)
    error = pool.report()[1]
    assert isinstance(error, TimeoutError)
    assert str(error) == "the model's"


def test_hundreds_sleep_at_once(pool: Pool) -> None:
    @pool.task
    async def nap(self: Any) -> None:
        await asyncio.sleep(0.3)

    pool.start()
    began = time.monotonic()
    for _ in range(500):
        pool.apply(nap)
    for _ in range(500):
        pool.report()
    assert time.monotonic() - began < 60  # one after another: 150 s


def test_plain_tasks_run_in_threads_beside(pool: Pool) -> None:
    meeting = threading.Barrier(3)

    @pool.task
    def plain(self: Any) -> str:
        meeting.wait(DEADLINE_S)
        return threading.current_thread().name

    pool.start()
    for _ in range(2):
        pool.apply(plain)
    meeting.wait(DEADLINE_S)
    names = {pool.report()[1] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("sync-task") for name in names)


def test_it_grows_and_shrinks(pool: Pool) -> None:
    pool.start()
    pool.pool.grow(5)
    assert pool.pool.num_processes == 15
    pool.pool.shrink(2)
    assert (pool.pool.num_processes, pool.pool.info["max-concurrency"], pool.pool.info["running"]) == (13, 13, 0)


def test_a_warm_stop_waits_for_what_runs() -> None:
    one = Pool()

    @one.task
    async def work(self: Any) -> str:
        await asyncio.sleep(0.2)
        return "done"

    one.start()
    one.apply(work)
    one.accepted.get(timeout=DEADLINE_S)
    one.pool.stop()
    assert one.reports.get_nowait()[:2] == (0, "done")


def test_a_cold_stop_cancels_lets_clean_up_and_reports_nothing() -> None:
    one = Pool()
    cleaned = threading.Event()

    @one.task
    async def work(self: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            cleaned.set()

    one.start()
    one.apply(work)
    one.accepted.get(timeout=DEADLINE_S)
    one.pool.terminate()
    assert cleaned.is_set()
    assert one.reports.empty()  # unreported is unacknowledged
    one.pool.stop()


def test_a_task_that_is_told_thrice_to_end_is_cancelled_once_and_ends_in_good_order(pool: Pool) -> None:
    is_cleaning, may_end, cleaned = threading.Event(), threading.Event(), threading.Event()

    @pool.task
    async def work(self: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            is_cleaning.set()
            await asyncio.to_thread(may_end.wait, DEADLINE_S)
            cleaned.set()

    pool.start()
    handle = pool.apply(work)
    pid = pool.accepted.get(timeout=DEADLINE_S)
    pool.pool.terminate_job(pid)
    assert is_cleaning.wait(DEADLINE_S)
    handle.terminate()
    stopping = threading.Thread(target=pool.pool.terminate)
    stopping.start()
    pool.pool.run(asyncio.sleep(0.05))  # the loop has heard of all three
    may_end.set()
    stopping.join(DEADLINE_S)
    assert cleaned.is_set()


def test_what_a_warm_stop_cannot_wait_for_is_cancelled() -> None:
    one = Pool()

    @one.task
    async def work(self: Any) -> None:
        await asyncio.sleep(60)

    one.start()
    one.apply(work)
    one.accepted.get(timeout=DEADLINE_S)
    one.pool.drain(within_s=0.1)
    assert one.pool.info["running"] == 0
    assert one.reports.empty()
    one.pool.stop()
