"""The steps that a call goes through, whatever it calls: check, decide, then (by kind) start, execute, finish."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from ekiden.shared.conversation import Turn
from ekiden.shared.errors import ToolError
from ekiden.shared.hooks.events import BeforeTool
from ekiden.shared.messages import ToolCall, ToolResult, error_result
from ekiden.shared.outcomes import Outcome
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.records import ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.approvals import Approvals, again
from ekiden.workers.leg_hooks import LegHooks
from ekiden.workers.rails import Rails

__all__ = ["CallKind", "Decide", "Gate", "finish"]

Decide = Callable[[ToolCall], Decision]
"""Decides whether a call that is in order may be carried out."""


class Gate(NamedTuple):
    """What the calls of one leg have to pass."""

    leg: Leg
    decide: Decide
    approvals: Approvals
    hooks: LegHooks
    rails: Rails


class CallKind(ABC):
    """One kind of calls in one leg. Whatever a step does is recorded before the next one begins."""

    ends_leg: ClassVar[bool] = False
    """Whether such a call ends the leg: of several in a turn only the first is carried out."""

    asked_at: ClassVar[str] = BeforeTool.name
    """At which event hooks are asked about such a call; empty: at none."""

    has_effects: ClassVar[bool] = True
    """Whether guardrails judge the arguments of such a call."""

    def __init__(self, gate: Gate) -> None:
        self._leg, self._decide, self._approvals, self._hooks, self._rails = gate

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
        for made in calls:
            call, decision = await self._guarded(await self._hooked(made))
            if decision.verdict == "deny":
                refused.append(error_result(call, decision.reason, is_unknown=self._is_lost(call)))
            elif decision.verdict == "ask":
                self._ask(call, decision)
            else:
                ready.append(self._approvals.with_changes(call))
        await finish(self._leg, refused)
        return ready

    async def _hooked(self, call: ToolCall) -> ToolCall:
        """Return a call as hooks want it, who are asked about it once: before it is decided about."""
        if not self._hooks.at(self.asked_at) or any(
            call.id in known for known in (self._turn.hooked, self._turn.asked, self._turn.started, self._turn.repaired)
        ):
            return call
        if await self._why_not(call) or (event := self._event(call)) is None:
            return call
        return await self._hooks.before_call(event)

    def _event(self, call: ToolCall) -> BeforeTool | None:
        """Return what hooks are asked about a call; None: nothing, for it will not be carried out."""
        return BeforeTool(self._hooks.place(), call)

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

    async def _guarded(self, call: ToolCall) -> tuple[ToolCall, Decision]:
        """Return a call as guardrails let it pass, and what is decided of it: nobody is asked about what does not pass.

        A person who puts other arguments in the place of these has the last word.
        """
        decision = await self._judged(call)
        has_begun = call.id in self._turn.started or call.id in self._turn.paused
        if not self.has_effects or decision.verdict == "deny" or has_begun:
            return call, decision
        guarded = await self._rails.call(call)
        if guarded.why:
            return call, Decision("deny", guarded.why)
        if guarded.call.args != call.args:
            decision = await self._judged(guarded.call)
        return guarded.call, self._approvals.with_guardrails(guarded.call, decision, guarded.asked)

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
