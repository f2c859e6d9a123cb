"""Calls that end the leg: its completion, and a transfer of control."""

from functools import partial

from ekiden.shared.errors import HandoffRefused
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Transfer
from ekiden.shared.records import Noticed, Record, Refused, StateChanged, ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.base import CallKind, Decide
from ekiden.workers.completion import Completion
from ekiden.workers.handoffs import Transfers

__all__ = ["CompletionCalls", "TransferCalls"]

COMPLETED = "Accepted."


class CompletionCalls(CallKind):
    """Accepts ``complete_task`` and ``exit``; the leg ends by what the accepted call says."""

    ends_leg = True

    def __init__(self, leg: Leg, decide: Decide, completion: Completion) -> None:
        super().__init__(leg, decide)
        self._completion = completion

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._completion.is_ending(call)

    def _check(self, call: ToolCall) -> None:
        self._completion.check(call)

    async def _carry_out(self, calls: list[ToolCall]) -> None:
        [call] = calls
        leg, records = self._leg.number, list[Record]()
        if changes := self._completion.variables(self._completion.answer(call).output):
            records.append(StateChanged(leg=leg, changes=changes, by=call.name))
        result = ToolResult(call_id=call.id, name=call.name, content=COMPLETED)
        await self._leg.record(*records, ToolFinished(leg=leg, result=result), is_progress=True)


class TransferCalls(CallKind):
    """Makes transfers of calls; one that is refused is recorded with its code, for three of them end the leg."""

    ends_leg = True

    def __init__(self, leg: Leg, decide: Decide, transfers: Transfers) -> None:
        super().__init__(leg, decide)
        self._transfers = transfers

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
            why, code = str(refusal), refusal.code
            await self._leg.record(Refused(leg=leg, call_id=call.id, name=call.name, code=code, message=why))
            return None
        if transfer.note:
            await self._leg.record(Noticed(leg=leg, text=transfer.note))
        return transfer
