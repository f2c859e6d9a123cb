"""Our Celery pool: every async task becomes one asyncio.Task on one event loop per process.

Celery's own pools hold one task per process or thread; a leg mostly waits for a model, so thousands fit on one loop.
Plain (synchronous) tasks run in a small thread pool, as Celery's thread pool would run them.
"""

import asyncio
import contextvars
import inspect
import signal
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, WorkerLostError
from celery import signals, states
from celery.app.task import Context
from celery.app.trace import traceback_clear
from celery.concurrency.base import BasePool, apply_target
from celery.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded
from celery.utils.log import get_logger

from ekiden.shared.processes.grace_periods import CANCEL_S, DRAIN_S

__all__ = ["AsyncPool", "RequestStack"]

T = TypeVar("T")

logger = get_logger(__name__)

SYNC_THREADS = 4


class RequestStack:
    """``task.request`` for coroutines: Celery's own stack is one per thread, ours one per asyncio.Task."""

    def __init__(self) -> None:
        self._stack: contextvars.ContextVar[tuple[Context, ...]] = contextvars.ContextVar("requests", default=())

    def push(self, request: Context) -> None:
        """Enter a request."""
        self._stack.set((*self._stack.get(), request))

    def pop(self) -> Context | None:
        """Leave the innermost request."""
        *rest, last = self._stack.get() or (None,)
        self._stack.set(tuple(rest))
        return last

    @property
    def top(self) -> Context | None:
        """The innermost request."""
        return self._stack.get()[-1] if self._stack.get() else None

    @property
    def stack(self) -> list[Context]:
        """All requests, outermost first."""
        return list(self._stack.get())

    def __len__(self) -> int:
        return len(self._stack.get())


@dataclass
class _Run:
    """One message in the pool. Celery keeps it as the handle by which it revokes the task."""

    args: tuple[Any, ...]
    accepted: Callable[[int, float], None]
    done: Callable[[Any], None]
    soft_limit_s: float | None
    hard_limit_s: float | None
    began: float = field(default_factory=time.monotonic)
    task: "asyncio.Task[None] | None" = None
    is_revoked: bool = False
    is_cancelled: bool = False
    has_begun: bool = False

    def terminate(self, signal: int | None = None) -> None:
        """Cancel the task because somebody revoked it; safe from any thread."""
        self.is_revoked = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel the task, from any thread; once: a second time would break off what it does to end in good order.

        A cold stop of Celery's asks three times: as a revocation by id and by handle, and as the end of the pool.
        """
        if (task := self.task) is not None and not self.is_cancelled:
            self.is_cancelled = True
            task.get_loop().call_soon_threadsafe(task.cancel)

    def report(self, failed: bool, value: Any) -> None:
        """Tell Celery how it went: it acknowledges the message on this."""
        self.done((int(failed), value, time.monotonic() - self.began))


class AsyncPool(BasePool):
    """``worker_pool`` of our apps. The number of tasks in flight is capped by late acknowledgement."""

    signal_safe = False
    body_can_be_buffer = True
    task_join_will_block = True
    _hub: Any = None

    def register_with_event_loop(self, hub: Any) -> None:
        """Keep the loop of the consumer's thread."""
        self._hub = hub

    def on_start(self) -> None:
        """Start the loop's thread."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn_loop, name="legs", daemon=True)
        self._thread.start()
        self._sync = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync-task")
        self._running: dict[int, _Run] = {}
        self.received = 0
        self._taken = self._done = 0  # by the consumer's thread, by the loop's
        self._fresh: deque[_Run] = deque()
        self._is_waking = False
        self._stopping = False
        for task in self.app.tasks.values():
            if inspect.iscoroutinefunction(task.run):
                task.request_stack = RequestStack()

    def _turn_loop(self) -> None:
        with closing(self.loop):
            self.loop.run_forever()
            for task in asyncio.all_tasks(self.loop):  # those that have not begun: no other is left by now
                task.cancel()
            for _ in ("they end", "whoever waits for their ends hears of them"):
                self.loop.call_soon(self.loop.stop)  # and not until something is done: it may be stopped once more
                self.loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float = 30.0) -> T:
        """Run ``coroutine`` on the loop and wait for it; call from another thread."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return future.result(timeout_s)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        soft_timeout: float | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> "_Run | None":
        """Take one message from Celery's consumer (called on its thread)."""
        self.received += 1
        if not inspect.iscoroutinefunction(self.app.tasks[args[0]].run):
            self._sync.submit(apply_target, target, args, kwargs, callback, accept_callback)
            return None
        self._taken += 1
        run = _Run(args, accept_callback, callback, soft_timeout, timeout)
        self._fresh.append(run)
        if not self._is_waking:  # the loop has been woken: it takes along whatever comes until it turns
            self._is_waking = True
            self.loop.call_soon_threadsafe(self._spawn_fresh)
        return run

    def _spawn_fresh(self) -> None:
        self._is_waking = False  # before the first is taken: who comes behind the last one wakes the loop anew
        while self._fresh:
            self._spawn(self._fresh.popleft())

    def _spawn(self, run: _Run) -> None:
        run.task = self.loop.create_task(self._carry(run))
        run.task.add_done_callback(lambda _: self._count(run))

    def _count(self, run: _Run) -> None:
        """Count a task that has ended; one that was revoked before its first step could not report itself."""
        self._done += 1
        if run.is_revoked and not run.has_begun:
            self._report_failure(run, _info_of(Terminated(signal.SIGTERM)))

    async def _carry(self, run: _Run) -> None:
        """Run one message to its end and report it, whatever happens: an unreported message is never acknowledged."""
        run.has_begun = True
        self._running[id(run)] = run
        try:
            run.accepted(id(run), run.began)
            run.report(False, await self._limited(run))
        except BaseException as error:
            if (told := self._as_told(run, error)) is not None:
                self._report_failure(run, told)
        finally:
            self._running.pop(id(run), None)

    def _report_failure(self, run: _Run, told: ExceptionInfo) -> None:
        """Report a task that failed; on the consumer's thread if it was revoked.

        That thread acknowledges the message of a task that it revokes. Two threads that do so at once both find it not
        yet acknowledged, and the second acknowledgement ends the worker.
        """
        if run.is_revoked and self._hub is not None:
            self._hub.call_soon(run.report, True, told)
        else:
            run.report(True, told)

    def _as_told(self, run: _Run, error: BaseException) -> ExceptionInfo | None:
        """Return what Celery is told of an exception; None: nothing, for the pool stops and the message is not done."""
        if isinstance(error, asyncio.CancelledError):
            if run.is_revoked:  # Celery must not take it for a success
                return _info_of(Terminated(signal.SIGTERM))
            if self._stopping:
                return None
        # These exceptions never pass Celery's tracer, so nobody else would log them.
        logger.error("Task %s[%s] raised: %r", run.args[0], run.args[1], error, exc_info=error)
        if not isinstance(error, Exception):  # SystemExit would end the loop, and with it every other task
            return _info_of(WorkerLostError(repr(error)))
        info = ExceptionInfo()
        traceback_clear(error)
        return info

    async def _limited(self, run: _Run) -> Any:
        if run.hard_limit_s is None and run.soft_limit_s is None:
            return await self._call(run)
        async with (
            _limit(run.hard_limit_s, TimeLimitExceeded),
            _cancelled_again(run.hard_limit_s),
            _limit(run.soft_limit_s, SoftTimeLimitExceeded),
        ):
            return await self._call(run)

    async def _call(self, run: _Run) -> Any:
        """Call the task's function as Celery's tracer would: request pushed, signals sent."""
        name, task_id, request, *_ = run.args
        task = self.app.tasks[name]
        args, kwargs = request["args"], request["kwargs"]  # as the consumer has decoded them
        context = Context(request, called_directly=False)
        about = {"sender": task, "task_id": task_id, "task": task, "args": args, "kwargs": kwargs}
        ended = {"retval": None, "state": states.FAILURE}
        task.request_stack.push(context)
        try:
            signals.task_prerun.send(**about)
            ended = {"retval": await task.run(*args, **kwargs), "state": states.SUCCESS}
            return ended["retval"]
        finally:
            signals.task_postrun.send(**about, **ended)
            task.request_stack.pop()

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        """Cancel a revoked task; ``pid`` is what ``accept_callback`` was given."""
        if (run := self._running.get(pid)) is not None:
            run.terminate(signal)

    def on_stop(self) -> None:
        """Warm shutdown: wait a while for what runs, then cancel it; its legs go on elsewhere."""
        self.drain()
        self._sync.shutdown(cancel_futures=True)
        with suppress(RuntimeError):  # it is closed already, or just now
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)

    def on_terminate(self) -> None:
        """Cold shutdown: cancel what runs. Unreported messages stay unacknowledged."""
        self.cancel()

    def drain(self, within_s: float = DRAIN_S) -> None:
        """Wait for what runs; cancel what takes longer than ``within_s``; once, and then no more."""
        if not self._stopping and not self._empties(within_s):
            self.cancel()

    def cancel(self) -> None:
        """Cancel what runs, and wait until it has cleaned up; once, and then no more."""
        if self._stopping:
            return
        self._stopping = True
        for run in list(self._running.values()):
            run.cancel()
        self._empties(CANCEL_S)

    def _empties(self, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self._running and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self._running

    def grow(self, n: int = 1) -> None:
        """Allow ``n`` more tasks in flight."""
        self.limit += n

    def shrink(self, n: int = 1) -> None:
        """Allow ``n`` fewer; what runs goes on."""
        self.limit -= n

    @property
    def in_flight(self) -> int:
        """How many messages were taken whose tasks have not ended, also of those that wait for the loop to begin."""
        return self._taken - self._done

    @property
    def has_room(self) -> bool:
        """Whether fewer tasks run than may."""
        return self.in_flight < self.num_processes

    @property
    def num_processes(self) -> int:
        """How many tasks may be in flight."""
        return int(self.limit)

    def _get_info(self) -> dict[str, Any]:
        return {**super()._get_info(), "max-concurrency": self.limit, "running": len(self._running)}


@asynccontextmanager
async def _limit(seconds: float | None, error: type[Exception]) -> AsyncIterator[None]:
    """End the block after ``seconds`` with Celery's ``error``; a TimeoutError of the block's own is left alone."""
    try:
        async with asyncio.timeout(seconds) as scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise error(seconds) from None


@asynccontextmanager
async def _cancelled_again(seconds: float | None) -> AsyncIterator[None]:
    """Cancel the block again and again where it has not ended ``CANCEL_S`` after its limit of ``seconds``.

    A cancellation may be lost: two that come during one pause of the loop are delivered as one.
    """
    if seconds is None:
        yield
        return
    task, loop, times = asyncio.current_task(), asyncio.get_running_loop(), 0
    timer: asyncio.TimerHandle
    assert task is not None

    def cancel() -> None:
        nonlocal timer, times
        times += 1
        task.cancel()
        timer = loop.call_later(CANCEL_S, cancel)

    timer = loop.call_later(seconds + CANCEL_S, cancel)
    try:
        yield
    finally:
        timer.cancel()
        for _ in range(times):
            task.uncancel()


def _info_of(error: BaseException) -> ExceptionInfo:
    try:
        raise error
    except BaseException:
        return ExceptionInfo()
