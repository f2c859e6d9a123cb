"""The steps that a call goes through, whatever it calls: check, decide, then (by kind) start, execute, finish."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from ekiden.shared.conversation import Turn
from ekiden.shared.errors import ToolError
from ekiden.shared.messages import ToolCall, ToolResult, error_result
from ekiden.shared.outcomes import Outcome
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.records import ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.approvals import Approvals, again

__all__ = ["CallKind", "Decide", "finish"]

Decide = Callable[[ToolCall], Decision]
"""Decides whether a call that is in order may be carried out."""


class CallKind(ABC):
    """One kind of calls in one leg. Whatever a step does is recorded before the next one begins."""

    ends_leg: ClassVar[bool] = False
    """Whether such a call ends the leg: of several in a turn only the first is carried out."""

    def __init__(self, leg: Leg, decide: Decide, approvals: Approvals) -> None:
        self._leg = leg
        self._decide = decide
        self._approvals = approvals

    @abstractmethod
    def takes(self, call: ToolCall) -> bool:
        """Tell whether the call is of this kind, by its name."""

    async def answer(self, calls: Sequence[ToolCall]) -> Outcome | None:
        """Give every call of a turn that is of this kind its answer, or return how the leg ends or pauses.

        A call that waits for a person gets none yet: it is noted with the approvals, and all others come first.
        """
        for batch in self._batches(calls):
            ready = await self._ready(batch)
            if ready and (end := await self._carry_out(ready)) is not None:
                return end
        return None

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
        """Yield the calls that may be carried out side by side, one group after the other."""
        yield calls

    async def _ready(self, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """Check and decide; a call that must not be carried out is answered with why."""
        ready, refused = [], []
        for call in calls:
            decision = await self._judged(call)
            if decision.verdict == "deny":
                refused.append(error_result(call, decision.reason))
            elif decision.verdict == "ask":
                self._ask(call, decision)
            else:
                ready.append(self._approvals.with_changes(call))
        await finish(self._leg, refused)
        return ready

    async def _judged(self, call: ToolCall) -> Decision:
        """Return whether the call may be carried out now, by its kind, the rules, and what persons have said."""
        if why := await self._why_not(call):
            return Decision("deny", why)
        if call.id in self._turn.started:  # before the worker died: it was allowed then
            return again(self._decide(call)) if self._is_lost(call) else ALLOWED
        decision = self._approvals.judged(call, self._decide(call))
        changed = self._approvals.with_changes(call)
        if decision.verdict != "allow" or changed is call:
            return decision
        why = await self._why_not(changed) or self._approvals.why_not_changed(call, self._decide(changed))
        return Decision("deny", why) if why else decision

    async def _why_not(self, call: ToolCall) -> str:
        try:
            await run_limited(partial(self._check, call))
        except ToolError as error:
            return str(error)
        return ""

    def _is_lost(self, call: ToolCall) -> bool:
        """Tell whether a call that has begun before its worker died must not simply run again."""
        return False

    def _ask(self, call: ToolCall, decision: Decision) -> None:
        self._approvals.ask(call, decision)

    @abstractmethod
    def _check(self, call: ToolCall) -> None:
        """Raise ``ToolError``, with a text for the model, unless the call can be carried out."""

    @abstractmethod
    async def _carry_out(self, calls: list[ToolCall]) -> Outcome | None:
        """Start, execute and finish calls that were checked and decided."""

    @property
    def _turn(self) -> Turn:
        return self._leg.conversation.turns[-1]


async def finish(leg: Leg, results: Sequence[ToolResult], *, forgotten: bool = False) -> None:
    """Record results that took no time; no model sees those that are ``forgotten`` again."""
    if results:
        records = [ToolFinished(leg=leg.number, result=one, forgotten=forgotten) for one in results]
        await leg.record(*records, is_progress=True)
