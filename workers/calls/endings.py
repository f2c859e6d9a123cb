"""Calls that end the leg: its completion, and a transfer of control."""

from collections.abc import Callable, Iterable
from functools import partial

from ekiden.shared.errors import HandoffRefused
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Answer, Transfer
from ekiden.shared.records import Noticed, Record, Refused, StateChanged, ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.approvals import Approvals
from ekiden.workers.calls.base import CallKind, Decide
from ekiden.workers.completion import Completion
from ekiden.workers.handoffs import Transfers

__all__ = ["CompletionCalls", "TransferCalls"]

COMPLETED = "Accepted."


class CompletionCalls(CallKind):
    """Accepts ``complete_task`` and ``exit``; the leg ends by what the accepted call says."""

    ends_leg = True

    def __init__(self, leg: Leg, decide: Decide, approvals: Approvals, completion: Completion) -> None:
        super().__init__(leg, decide, approvals)
        self._completion = completion

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._completion.is_ending(call)

    def _check(self, call: ToolCall) -> None:
        self._completion.check(call)

    async def _carry_out(self, calls: list[ToolCall]) -> None:
        [call] = calls
        leg, records = self._leg.number, list[Record]()
        answer = self._completion.answer(call)
        if isinstance(answer, Answer) and (changes := self._completion.variables(answer.output)):
            records.append(StateChanged(leg=leg, changes=changes, by=call.name))
        result = ToolResult(call_id=call.id, name=call.name, content=COMPLETED)
        self._leg.hold(*records, ToolFinished(leg=leg, result=result))


class TransferCalls(CallKind):
    """Makes transfers of calls; one that is refused is recorded with its code, for three of them end the leg."""

    ends_leg = True

    def __init__(
        self,
        leg: Leg,
        decide: Decide,
        approvals: Approvals,
        transfers: Transfers,
        offered: Callable[[], Iterable[str]],
    ) -> None:
        """``offered``: the names of all that the model is offered now."""
        super().__init__(leg, decide, approvals)
        self._transfers = transfers
        self._offered = offered

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._transfers.is_transfer(call)

    def _check(self, call: ToolCall) -> None:
        """Nothing can be said before the transfer is made."""

    async def _carry_out(self, calls: list[ToolCall]) -> Transfer | None:
        [call] = calls
        leg = self._leg.number
        try:
            transfer = await run_limited(partial(self._transfers.transfer, call, len(self._leg.entries)))
        except HandoffRefused as refusal:
            why, code = self._with_all_offered(str(refusal)), refusal.code
            await self._leg.record(Refused(leg=leg, call_id=call.id, name=call.name, code=code, message=why))
            return None
        if transfer.note:
            self._leg.hold(Noticed(leg=leg, text=transfer.note))
        return transfer

    def _with_all_offered(self, why: str) -> str:
        others = [name for name in self._offered() if name not in why]
        return f"{why}\nAlso offered: {', '.join(others)}." if others else why
