"""Calls that end the leg: its completion, and a transfer of control."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ekiden.shared.errors import HandoffRefused
from ekiden.shared.hooks.occasions import BeforeHandoff
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Transfer
from ekiden.shared.policy.decision import ALLOWED
from ekiden.shared.records import Noticed, Refused, ToolFinished
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.base import CallKind, Gate
from ekiden.workers.completion import Completion
from ekiden.workers.handoffs import Transfers

__all__ = ["CompletionCalls", "TransferCalls"]

COMPLETED = "Accepted."


class CompletionCalls(CallKind):
    """Accepts ``complete_task`` and ``exit``; the leg ends by what the accepted call says."""

    ends_leg = True
    asked_at = ""
    has_effects = False

    def __init__(self, gate: Gate, completion: Completion) -> None:
        super().__init__(gate)
        self._completion = completion

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._completion.is_ending(call)

    def _check(self, call: ToolCall) -> None:
        self._completion.check(call)

    async def _carry_out(self, calls: list[ToolCall]) -> None:
        [call] = calls
        result = ToolResult(call_id=call.id, name=call.name, content=COMPLETED)
        self._leg.hold(ToolFinished(leg=self._leg.number, result=result))


class TransferCalls(CallKind):
    """Makes transfers of calls; one that is refused is recorded with its code, for three of them end the leg."""

    ends_leg = True
    asked_at = BeforeHandoff.name
    has_effects = False

    def __init__(
        self,
        gate: Gate,
        transfers: Transfers,
        offered: Callable[[], Iterable[str]],
    ) -> None:
        """``offered``: the names of all that the model is offered now."""
        super().__init__(gate)
        self._transfers = transfers
        self._offered = offered

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._transfers.is_transfer(call)

    def _check(self, call: ToolCall) -> None:
        """Nothing can be said before the transfer is made."""

    def _event(self, call: ToolCall) -> BeforeHandoff | None:
        try:
            transfer = self._transfers.transfer(call, len(self._leg.entries))
        except HandoffRefused:
            return None
        return BeforeHandoff(self._hooks.place(), call, transfer.context.to_agent)

    async def _carry_out(self, calls: list[ToolCall]) -> Transfer | None:
        [call] = calls
        leg = self._leg.number
        try:
            transfer = await run_limited(partial(self._transfers.transfer, call, len(self._leg.entries)))
        except HandoffRefused as refusal:
            why, code = self._with_all_offered(str(refusal)), refusal.code
            await self._refuse(call, code, why)
            return None
        context, why, asked = await self._rails.handed_over(transfer.context, call.id)
        made = self._turn.call(call.id)  # people may have put other arguments in the place of its own
        decision = self._approvals.with_guardrails(made, ALLOWED, asked)
        if why or decision.verdict == "deny":
            await self._refuse(call, "GUARDRAIL", why or decision.reason)
            return None
        if decision.verdict == "ask":
            self._ask(made, decision)
            return None
        if transfer.note:
            self._leg.hold(Noticed(leg=leg, text=transfer.note))
        return transfer if context is transfer.context else replace(transfer, context=context)

    async def _refuse(self, call: ToolCall, code: str, why: str) -> None:
        await self._leg.record(Refused(leg=self._leg.number, call_id=call.id, name=call.name, code=code, message=why))

    def _with_all_offered(self, why: str) -> str:
        others = [name for name in self._offered() if name not in why]
        return f"{why}\nAlso offered: {', '.join(others)}." if others else why
