"""What becomes of the calls of a turn: each gets its one answer, or ends the leg. Knows no queue."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from shared.allowance import aside
from shared.definitions.model import AgentDefinition
from shared.errors import HandoffRefused, ToolError
from shared.llm.base import ChatModel
from shared.messages import ToolCall, ToolResult
from shared.outcomes import Outcome, Suspended, Transfer
from shared.prices import Prices
from shared.records import Noticed, Record, Refused, StateChanged, ToolFinished, ToolStarted
from shared.relay.leg import Leg
from shared.telemetry.base import RunsTools
from workers.completion import Completion
from workers.conversation import Turn
from workers.delegation import Delegations, enough, result_of
from workers.handoffs import Transfers
from workers.tools.base import StateView, Tool, ToolContext
from workers.tools.protected import Protected
from workers.untrusted import Untrusted

__all__ = ["Calls", "Equipment"]

OUTCOME_UNKNOWN = "Outcome unknown: the worker was lost while this tool ran. Check what it did before you repeat it."
BROKEN_OFF = "Outcome unknown: the tool was broken off while it ran. Check what it did before you repeat it."
ONE_ENDING = "Not executed: one transfer per turn."
COMPLETED = "Accepted."


@dataclass(frozen=True)
class Equipment:
    """What an agent has in a leg."""

    definition: AgentDefinition
    model: ChatModel
    model_name: str
    tools: dict[str, Tool]
    gate: RunsTools
    transfers: Transfers
    delegations: Delegations
    completion: Completion
    untrusted: Untrusted
    prices: Prices
    root: Path
    cwd: Path
    env: Mapping[str, str]
    """What programs of tools get."""
    protected: Protected = field(default_factory=Protected)


class Calls:
    """Answers the calls of one leg's turns."""

    def __init__(self, leg: Leg, equipment: Equipment) -> None:
        self._leg = leg
        self._has = equipment

    async def answer(self, turn: Turn) -> Outcome | None:
        """Give every open call its one answer: ordinary tools, then delegations, then the first that ends the leg."""
        await self._finish_all(turn, [_error(call, call.problem) for call in turn.open_calls if call.problem])
        for order, step in enumerate((self._run_ordinary, self._delegate, self._end_by_call)):
            calls = [call for call in turn.open_calls if self._order_of(call) == order]
            if calls and (end := await step(turn, calls)) is not None:
                return end
        return None

    def _order_of(self, call: ToolCall) -> int:
        """Return which step answers the call: 0 ordinary, 1 a delegation, 2 an end of the leg."""
        has = self._has
        if call.name in has.tools:
            return 0
        if has.delegations.is_delegation(call):
            return 1
        return 2 if has.completion.is_ending(call) or has.transfers.is_transfer(call) else 0

    async def _run_ordinary(self, turn: Turn, ordinary: list[ToolCall]) -> Outcome | None:
        for is_safe, calls in groupby(ordinary, key=self._is_safe):
            batch = list(calls)
            for group in [batch] if is_safe else [[call] for call in batch]:
                await self._run_tools(turn, group)
        return None

    async def _delegate(self, turn: Turn, calls: list[ToolCall]) -> Suspended | None:
        """Let child jobs run elsewhere, all at once, and hold no worker meanwhile; their results come in call order."""
        if not turn.children:
            calls = await self._accepted(turn, calls)
            return await self._waiting(calls, self._has.delegations.next_jobs(len(calls))) if calls else None
        views = await self._leg.children([turn.children[call.id] for call in calls])
        if not enough(views, self._has.definition.delegation.needed(len(calls))):
            return await self._waiting(calls, [turn.children[call.id] for call in calls])
        fence = self._leg.context.metadata.handoff_id
        results = [result_of(call, view, fence) for call, view in zip(calls, views, strict=True)]
        await self._finish_all(turn, results, list(map(self._has.untrusted.said_by, views)))
        return None

    async def _waiting(self, calls: Sequence[ToolCall], jobs: Sequence[str]) -> Suspended:
        """Return the suspension that begins the children ``jobs``, or waits for them again."""
        child = self._has.delegations.child
        children = [await aside(partial(child, call, job)) for call, job in zip(calls, jobs, strict=True)]
        need = self._has.definition.delegation.needed(len(children))
        return Suspended("children", 0.0, ", ".join(child.agent for child in children), tuple(children), need)

    async def _accepted(self, turn: Turn, calls: list[ToolCall]) -> list[ToolCall]:
        """Answer the delegations that cannot be begun with why not; return the others."""
        refused, most = [], self._has.definition.delegation.max_children
        for at, call in enumerate(calls):
            try:
                await aside(partial(self._has.delegations.child, call, self._leg.job))
                if at >= most:
                    raise ToolError(
                        f"not executed: {most} delegations in a turn are allowed, ask again in the next one"
                    )
            except ToolError as error:
                refused.append(_error(call, str(error)))
        await self._finish_all(turn, refused)
        return [call for call in calls if call.id not in turn.answers]

    async def _end_by_call(self, turn: Turn, endings: list[ToolCall]) -> Outcome | None:
        first, *others = endings
        for call in others:  # no model sees these again
            await self._finish(turn, _error(call, ONE_ENDING), 0, forgotten=True)
        if self._has.completion.is_ending(first):
            await self._complete(turn, first)
            return None
        return await self._transfer(turn, first)

    async def _complete(self, turn: Turn, call: ToolCall) -> None:
        """Accept the call that ends the leg, or tell the model what is wrong with it."""
        records: list[Record] = []
        try:
            await aside(partial(self._has.completion.check, call))
            output = self._has.completion.answer(call).output
            if changes := self._has.completion.variables(output):
                records = [StateChanged(leg=self._leg.number, changes=changes, by=call.name)]
            result = ToolResult(call_id=call.id, name=call.name, content=COMPLETED)
        except ToolError as error:
            result = _error(call, str(error))
        await self._leg.record(*records, ToolFinished(leg=self._leg.number, result=result), is_progress=True)
        turn.answers[call.id] = result

    def _is_safe(self, call: ToolCall) -> bool:
        """Whether the call may run beside others."""
        tool = self._has.tools.get(call.name)
        return tool is not None and tool.read_only

    async def _run_tools(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side; each is recorded before it starts and when it has ended."""
        lost = [call for call in calls if call.id in turn.started and not self._may_repeat(call)]
        for call in lost:
            await self._finish(turn, _error(call, OUTCOME_UNKNOWN), 0)
        await self._finish_all(turn, [_error(call, why) for call in calls if (why := self._denied(turn, call))])
        runnable = [call for call in calls if call.id not in turn.answers]
        if not runnable:
            return
        await self._leg.record(
            *(ToolStarted(leg=self._leg.number, call_id=call.id, name=call.name) for call in runnable)
        )
        turn.started.update(call.id for call in runnable)
        try:
            async with asyncio.TaskGroup() as group:
                for call in runnable:
                    group.create_task(self._run_tool(turn, call))
        except BaseExceptionGroup as failures:  # tools never raise: this is a lost lease or a cancelled job
            raise failures.exceptions[0] from None
        for call in runnable:
            if call.id not in turn.answers:  # cancelled from within, as by a library that lost its connection
                await self._finish(turn, _error(call, BROKEN_OFF), 0)

    def _denied(self, turn: Turn, call: ToolCall) -> str:
        """Say why a call that was not begun yet must not be; one that was, was allowed."""
        return "" if call.id in turn.started else self._has.untrusted.refusal(call, self._has.tools.get(call.name))

    def _may_repeat(self, call: ToolCall) -> bool:
        tool = self._has.tools.get(call.name)
        return tool is None or tool.may_repeat

    async def _run_tool(self, turn: Turn, call: ToolCall) -> None:
        began = time.monotonic()
        has = self._has
        state = StateView(self._leg.state)
        leg = self._leg
        context = ToolContext(
            leg.job,
            leg.number,
            has.definition.name,
            call.id,
            has.cwd,
            has.root,
            state,
            has.env,
            leg.lifetime,
            has.protected,
        )
        result = await has.gate.run(call, context)
        brought = has.untrusted.brought_by(has.tools.get(call.name))
        await self._finish(turn, result, _ms_since(began), changes=state.changes, untrusted=brought)

    async def _finish(
        self,
        turn: Turn,
        result: ToolResult,
        duration_ms: int,
        *,
        forgotten: bool = False,
        changes: Mapping[str, Any] | None = None,
        untrusted: str = "",
    ) -> None:
        """Record a result, and the session variables that its tool has written, in one step."""
        leg = self._leg.number
        written = [StateChanged(leg=leg, changes=dict(changes), by=result.name)] if changes else []
        record = ToolFinished(leg=leg, result=result, duration_ms=duration_ms, forgotten=forgotten, untrusted=untrusted)
        await self._leg.record(*written, record, is_progress=True)
        turn.answers[result.call_id] = result
        if forgotten:
            turn.forgotten.add(result.call_id)

    async def _finish_all(self, turn: Turn, results: Sequence[ToolResult], untrusted: Sequence[str] = ()) -> None:
        if results:
            records = [
                ToolFinished(leg=self._leg.number, result=result, untrusted=brought)
                for result, brought in zip_longest(results, untrusted, fillvalue="")
            ]
            await self._leg.record(*records, is_progress=True)
            turn.answers |= {result.call_id: result for result in results}

    async def _transfer(self, turn: Turn, call: ToolCall) -> Transfer | None:
        """Return the transfer, or answer the call with why it is refused."""
        try:
            upto = len(self._leg.entries)
            transfer = await aside(partial(self._has.transfers.transfer, call, upto))
            if transfer.note:
                await self._leg.record(Noticed(leg=self._leg.number, text=transfer.note))
            return transfer
        except HandoffRefused as refusal:
            text = str(refusal)
            record = Refused(leg=self._leg.number, call_id=call.id, name=call.name, code=refusal.code, message=text)
            await self._leg.record(record)
            turn.answers[call.id] = _error(call, text)
            turn.refusal = text
            return None


def _error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=True)


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
