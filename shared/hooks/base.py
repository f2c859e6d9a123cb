"""The one seam for those who watch a job, and later for those who interfere: relay, dispatcher and workers call hooks.

A hook overrides what it wants to hear of; the rest does nothing and costs a call of an empty method. Everything here
is told, in order, to all hooks of a process (``Hooks``), and is past when it is told: records are in the journal. So a
hook that raises, whatever it raises, breaks nothing and silences nobody; the lists that it is handed it can only read.
Nothing here waits: what takes time belongs into a thread, and a hook that is ``async`` is a fault.

What shall decide something (block a call, change a result) overrides a method of
``shared.hooks.intervening.Intervening``, which every ``Hook`` is: those are awaited, and asked where the pipeline
decides.
"""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.foreign_code import is_interruption
from ekiden.shared.hooks.intervening import Intervening
from ekiden.shared.llm.base import ChatModel, Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.once import Once
from ekiden.shared.outcomes import Outcome
from ekiden.shared.records import Entry
from ekiden.shared.stores.base import Claimed, CommitVerdict

if TYPE_CHECKING:
    from ekiden.shared.definitions.model import AgentDefinition

__all__ = ["NO_HOOKS", "Hook", "HookedModel", "Hooks", "LegHook", "QueueGauge", "attending"]

CLOSE_S = 3.0
"""What all hooks together are given at the end of a process."""

T = TypeVar("T")

log = logging.getLogger(__name__)  # not structlog's: where logs are not set up, as in commands, that prints to stdout


@dataclass(frozen=True)
class QueueGauge:
    """How full an agent's queue is."""

    agent: str
    depth: int
    age_s: float
    """How long the oldest message has waited; 0 for an empty queue."""


class LegHook:
    """Hears of one attempt at a leg."""

    def opened(self, entries: Sequence[Entry]) -> None:
        """The journal is read as far as this attempt's start; ``entries`` grows with the leg.

        Its last steps are there before they are recorded: those that end the leg are written with its commit.
        """

    def agent_started(self, definition: "AgentDefinition", model: str, tools: Sequence[str]) -> None:
        """The agent is loaded and about to take turns on ``model`` with the tools of these names."""

    def model_called(self, request: ModelRequest, *, is_stream: bool) -> None:
        """A model is asked: one at a time."""

    def model_streamed(self, delta: Delta) -> None:
        """A piece of its answer came."""

    def model_replied(self, request: ModelRequest, reply: ModelReply) -> None:
        """It has answered; the record of that follows, with the leg's commit where the reply ends the leg."""

    def model_failed(self, request: ModelRequest, error: BaseException) -> None:
        """It has not: it is away, it refuses, or the leg was broken off."""

    def tool_started(self, call: ToolCall) -> None:
        """A tool runs from here on, in the task that this is called in; its start is recorded. Several at a time."""

    def tool_finished(self, call: ToolCall, result: ToolResult) -> None:
        """It has ended, in the same task; the record of its result follows."""

    def tool_interrupted(self, call: ToolCall, error: BaseException) -> None:
        """It was broken off, in the same task."""

    def recorded(self, entries: Sequence[Entry]) -> None:
        """The leg has put ``entries`` into the journal: routed, handed off, suspended, ended and all steps between."""

    def committed(self, outcome: Outcome, verdict: CommitVerdict) -> None:
        """The leg's outcome is committed, or not: see ``verdict``."""

    def left(self, error: BaseException | None) -> None:
        """The leg does not run here any more; ``error``: what it was left with."""


class Hook(Intervening):
    """Hears of all that happens in one process, and may interfere with its legs: see ``Intervening``."""

    def job_submitted(self, job: str, traceparent: str, queue: str, began_ns: int) -> None:
        """A job is stored and in ``queue``; ``began_ns``: when it was sent off, in ns since the epoch."""

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook | None:
        """A leg is ours; return what shall hear of it, None: nothing. ``claimed`` is a copy of what the relay has."""

    def leg_requeued(self, job: str) -> None:
        """A leg's message was pushed again."""

    def leg_buried(self, job: str, entries: Sequence[Entry], records: Sequence[Entry]) -> None:
        """A leg that takes its workers along was given up; ``records`` return control to the agent that waits for it.

        ``entries`` are the journal before them; empty where a newer program wrote it.
        """

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        """A job is over; ``entries`` are its journal, ``records`` what was put behind it, the last one its end.

        ``in_leg``: a leg ended it, which has told of ``records`` itself; else it was a user, a deadline, a death.
        """

    def approval_asked(self, view: ApprovalView) -> None:
        """A leg waits for a person to approve a call or to answer a question; times are this process's."""

    def approval_decided(self, view: ApprovalView) -> None:
        """Somebody has decided, through this process; or nobody in time, as the sweeper of this process has found."""

    def leases_renewed_late(self, late_s: float) -> None:
        """Leases were renewed later than they should be."""

    def queues_seen(self, gauges: Sequence[QueueGauge]) -> None:
        """Somebody has looked how full the queues are."""

    def suspensions_seen(self, jobs: Mapping[str, int]) -> None:
        """Somebody has looked how many jobs are suspended, by cause."""

    def circuits_seen(self, models: Sequence[str]) -> None:
        """Somebody has looked which models nobody asks for a while, since they keep failing."""

    def close(self) -> None:
        """The process ends: send what is left."""

    def hears(self, event: str) -> bool:
        """Tell whether it is worth while to find out what ``event`` would tell."""
        return event in _heard_by(type(self), Hook)


NO_HOOKS: Final = Hook()
_NO_LEG_HOOKS: Final = LegHook()


class Hooks(Hook):
    """Tells every hook, in the order that they were added in."""

    def __init__(self, *hooks: Hook) -> None:
        self._hooks: list[Hook] = []
        self._faulty = Once()
        self.add(*hooks)

    def add(self, *hooks: Hook) -> None:
        """Let these hear, too, of what happens from now on."""
        self._hooks += hooks
        _fan_out(self, Hook, self._hooks, self._faulty)

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        """See ``Hook``: what is returned tells all those who want to hear of the leg."""
        found: list[LegHook] = []
        for hook in self._hooks:
            if type(hook).leg_claimed is not Hook.leg_claimed:
                with _harmless(hook, "leg_claimed", self._faulty):
                    found += _leg_hooks(hook.leg_claimed(_copy_of(claimed), queue))
        if not found:
            return _NO_LEG_HOOKS
        _fan_out(told := LegHook(), LegHook, found, self._faulty)
        return told

    def close(self) -> None:
        """See ``Hook``: all at the same time, for a few seconds at most, whoever hangs.

        OpenTelemetry's own shutdown waits 30 s for a collector that is away.
        """
        ends = time.monotonic() + CLOSE_S
        threads = [threading.Thread(target=self._close, args=(hook,), daemon=True) for hook in self._hooks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, ends - time.monotonic()))

    def _close(self, hook: Hook) -> None:
        with _harmless(hook, "close", self._faulty):
            hook.close()

    def hears(self, event: str) -> bool:
        """See ``Hook``."""
        for hook in self._hooks:
            with _harmless(hook, "hears", self._faulty):
                if hook.hears(event):
                    return True
        return False


@contextmanager
def attending(hooks: Hook, claimed: Claimed, queue: str) -> Iterator[LegHook]:
    """Tell ``hooks`` of a claimed leg, and that it is left when the block ends."""
    told = hooks.leg_claimed(claimed, queue) or _NO_LEG_HOOKS
    error: BaseException | None = None
    try:
        yield told
    except BaseException as raised:
        error = raised
        raise
    finally:
        told.left(error)


class HookedModel:
    """A ``ChatModel`` whose calls are told."""

    def __init__(self, model: ChatModel, hook: LegHook) -> None:
        self._model = model
        self._hook = hook

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply, or let its failure pass."""
        self._hook.model_called(request, is_stream=on_delta is not None)
        try:
            reply = await self._model.reply(request, on_delta and self._streamed(on_delta))
        except BaseException as error:
            self._hook.model_failed(request, error)
            raise
        self._hook.model_replied(request, reply)
        return reply

    def _streamed(self, on_delta: OnDelta) -> OnDelta:
        def streamed(delta: Delta) -> None:
            self._hook.model_streamed(delta)
            on_delta(delta)

        return streamed


class _View(Sequence[T]):
    """A list that can be read and grows with it, and that nobody can change."""

    def __init__(self, entries: list[T]) -> None:
        self.__entries = entries

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        return self.__entries[at]

    def __len__(self) -> int:
        return len(self.__entries)

    def __iter__(self) -> Iterator[T]:
        return iter(self.__entries)

    def __repr__(self) -> str:
        return repr(self.__entries)


_READ_ONLY: Final[Mapping[type, Callable[[Any], Any]]] = {list: _View, dict: MappingProxyType}


def _read_only(value: Any) -> Any:
    return view(value) if (view := _READ_ONLY.get(type(value))) else value


def _copy_of(claimed: Claimed) -> Claimed:
    """Return it with a lease that nobody writes under."""
    return replace(claimed, lease=replace(claimed.lease), rows=list(claimed.rows))


def _leg_hooks(said: object) -> list[LegHook]:
    """Return what is to hear of a leg, out of what a hook has returned; raise ``TypeError``: it is no such thing."""
    if said is None:
        return []
    _refuse_unstarted(said)
    if not isinstance(said, LegHook):
        raise TypeError(f"it returned the type {type(said).__name__!r}, where a LegHook or None is expected")
    return [said]


def _refuse_unstarted(said: object) -> None:
    """Raise ``TypeError`` where nothing has run yet: what an ``async`` method, or one with a ``yield``, returns."""
    if inspect.iscoroutine(said):
        said.close()  # else Python warns of it, too
    elif not inspect.isgenerator(said) and not inspect.isasyncgen(said):
        return
    raise TypeError("a hook is called, and nobody awaits it: make it a plain function")


def _fan_out(told: Any, base: type, hooks: Sequence[Any], faulty: Once) -> None:
    """Let each event of ``told`` that one of ``hooks`` hears of reach those who do; the others stay what they are."""
    hearing: dict[str, list[tuple[Any, Callable[..., object]]]] = {}
    for hook in hooks:
        with _harmless(hook, base.__name__, faulty):
            for event in _heard_by(type(hook), base):
                hearing.setdefault(event, []).append((hook, getattr(hook, event)))
    for event, those in hearing.items():
        setattr(told, event, _telling(event, those, faulty))


def _events_heard(kind: type, base: type) -> frozenset[str]:
    """Return the events of ``base`` that ``kind`` does something about."""
    events = (name for name in vars(base) if not name.startswith("_") and name not in _NO_EVENTS)
    return frozenset(event for event in events if getattr(kind, event) is not getattr(base, event))


_heard_by: Callable[[type, type], frozenset[str]] = cache(_events_heard)  # asked for every leg
_NO_EVENTS = ("hears", "leg_claimed", "close")
"""What is no event that goes to everybody as it is."""


def _telling(event: str, hearing: Sequence[tuple[Any, Callable[..., object]]], faulty: Once) -> Callable[..., None]:
    def tell(*args: Any, **kwargs: Any) -> None:
        shown = [_read_only(arg) for arg in args]
        for hook, hear in hearing:
            try:
                if (said := hear(*shown, **kwargs)) is not None:
                    _refuse_unstarted(said)
            except BaseException as error:  # a SystemExit or a cancellation of its own, too
                _report(hook, event, faulty, error)

    return tell


@contextmanager
def _harmless(hook: object, event: str, faulty: Once) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # as above
        _report(hook, event, faulty, error)


def _report(hook: object, event: str, faulty: Once, error: BaseException) -> None:
    """Log what is wrong with a hook, once for each of its events; let through what is no fault of it."""
    if is_interruption(error):
        raise error
    name = f"{type(hook).__module__}.{type(hook).__qualname__}.{event}"
    if faulty.first(name):
        log.error("hook_failed: %s (jobs go on, and so do the other hooks)", name, exc_info=error)
