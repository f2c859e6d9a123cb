"""The loop of an agent: ask the model, run the tools it calls, until there is an outcome. Knows no queue."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from shared.definitions.model import AgentDefinition
from shared.errors import HandoffRefused
from shared.llm.base import ChatModel, FinishReason, ModelReply, ModelRequest
from shared.messages import ToolCall, ToolResult, storable
from shared.outcomes import Answer, Failed, Outcome, TerminationReason, Transfer
from shared.records import ModelReplied, Refused, ToolFinished, ToolStarted
from shared.relay.leg import Leg
from shared.telemetry.base import RunsTools
from workers.conversation import Turn, opening, turns_of
from workers.handoffs import Transfers
from workers.prompt import instructions_for
from workers.tools.base import Tool, ToolContext

__all__ = ["Equipment", "Executor"]

MAX_REFUSALS = 3
"""Refused transfers in a leg before it ends."""
OUTCOME_UNKNOWN = "Outcome unknown: the worker was lost while this tool ran. Check what it did before you repeat it."
BROKEN_OFF = "Outcome unknown: the tool was broken off while it ran. Check what it did before you repeat it."
ONE_TRANSFER = "Not executed: one transfer per turn."

_UNFINISHED: dict[FinishReason, str] = {
    "max_tokens": "had to stop in mid-answer: ask for less at once, or choose a model with longer answers",
    "refused": "refused to answer: put the request in other words, or choose another model",
    "malformed_call": "made a tool call that cannot be read: submit again, or choose another model",
    "empty": "gave an empty answer: submit again, or choose another model",
}


@dataclass(frozen=True)
class Equipment:
    """What an agent has in a leg."""

    definition: AgentDefinition
    model: ChatModel
    model_name: str
    tools: dict[str, Tool]
    gate: RunsTools
    transfers: Transfers
    root: Path
    cwd: Path


class Executor:
    """Carries one leg from its last recorded step to an outcome."""

    def __init__(self, leg: Leg, equipment: Equipment) -> None:
        self._leg = leg
        self._has = equipment
        self._messages = opening(leg)
        self._told = 0
        """How many turns ``_messages`` holds: it only grows, so that turn 1,000 costs what turn 10 did."""
        self._turns = turns_of(leg.records)

    async def run(self) -> Outcome:
        """Loop until there is an outcome, for as long as the agent's limit still leaves."""
        limit_s = self._has.definition.limits.max_seconds
        try:
            async with asyncio.timeout(max(0.0, limit_s - self._leg.used_ms / 1000)) as scope:
                return await self._loop()
        except TimeoutError:
            if not scope.expired():
                raise
            return self._limit("TIMEOUT", f"max_seconds: {limit_s:g}")

    async def _loop(self) -> Outcome:
        while True:
            if (end := self._end_of_last_turn()) is not None:
                return end
            if self._turns and self._turns[-1].open_calls:
                if (transfer := await self._answer_calls(self._turns[-1])) is not None:
                    return transfer
                continue
            if (limit := self._exceeded()) is not None:
                return limit
            await self._ask()

    async def _ask(self) -> None:
        """Get the model's next reply, and record it before any of its calls runs."""
        began = time.monotonic()
        turn = len(self._turns) + 1
        reply = await self._reply(turn)
        record = ModelReplied(
            leg=self._leg.number,
            turn=turn,
            message=storable(reply.message),
            finish=reply.finish,
            detail=reply.detail,
            usage=reply.usage,
            model=reply.model,
            duration_ms=_ms_since(began),
        )
        await self._leg.record(record, is_progress=True)
        self._turns.append(Turn(record))

    async def _reply(self, turn: int) -> ModelReply:
        """Ask, and let those who follow the job see the answer grow."""
        if (live := self._leg.live) is None:
            return await self._has.model.reply(self._request())
        live.begin(turn)
        reply = await self._has.model.reply(self._request(), live.write)
        await live.finish()
        return reply

    def _request(self) -> ModelRequest:
        for turn in self._turns[self._told :]:
            self._messages += turn.messages()
        self._told = len(self._turns)
        definition = self._has.definition
        return ModelRequest(
            agent=definition.name,
            model=self._has.model_name,
            instructions=instructions_for(definition),
            messages=tuple(self._messages),
            tools=(*(tool.spec for tool in self._has.tools.values()), *self._has.transfers.specs),
            temperature=definition.temperature,
        )

    def _end_of_last_turn(self) -> Outcome | None:
        """A reply without calls is the answer; too many refused transfers are a failure."""
        if not self._turns:
            return None
        last = self._turns[-1].reply
        if not last.message.calls:
            return self._answer(last)
        if not self._turns[-1].refusal:
            return None
        refusals = [turn.refusal for turn in self._counted if turn.refusal]
        if len(refusals) >= MAX_REFUSALS:
            return Failed("HANDOFF_REFUSED", f"{len(refusals)} transfers were refused; the last: {refusals[-1]}")
        return None

    @property
    def _counted(self) -> list[Turn]:
        """The turns that count for limits."""
        return [turn for turn in self._turns if not turn.is_forgiven]

    def _answer(self, reply: ModelReplied) -> Outcome:
        """The finish reason decides, never emptiness: half an answer, or none, is not reported as a success."""
        if reply.finish == "stop":
            return Answer(reply.message.text)
        what = f"the model {reply.model!r} of agent {self._has.definition.name!r} {_UNFINISHED[reply.finish]}"
        return Failed("ERROR", f"{what} ({reply.detail or reply.finish})")

    def _exceeded(self) -> Failed | None:
        """Return the limit that the leg has reached, as an outcome."""
        limits = self._has.definition.limits
        counted = self._counted
        if len(counted) >= limits.max_turns:
            return self._limit("MAX_TURNS", f"max_turns: {limits.max_turns}")
        if limits.max_tokens is not None and sum(_tokens(turn) for turn in counted) >= limits.max_tokens:
            return self._limit("MAX_TOKENS", f"max_tokens: {limits.max_tokens}")
        return None

    def _limit(self, reason: TerminationReason, limit: str) -> Failed:
        name = self._has.definition.name
        return Failed(
            reason, f"agent {name!r} reached its limit ({limit}): raise it under 'limits' in the agent's file"
        )

    async def _answer_calls(self, turn: Turn) -> Transfer | None:
        """Give every open call its one answer: ordinary tools first, then the first transfer."""
        ordinary = [call for call in turn.open_calls if not self._is_transfer(call)]
        for is_safe, calls in groupby(ordinary, key=self._is_safe):
            batch = list(calls)
            for group in [batch] if is_safe else [[call] for call in batch]:
                await self._run_tools(turn, group)
        transfers = [call for call in turn.open_calls if self._is_transfer(call)]
        if len(transfers) > 1:
            await self._forget(turn, transfers[1:])
        return await self._transfer(turn, transfers[0]) if transfers else None

    def _is_transfer(self, call: ToolCall) -> bool:
        return call.name not in self._has.tools and self._has.transfers.is_transfer(call)

    def _is_safe(self, call: ToolCall) -> bool:
        """Whether the call may run beside others."""
        tool = self._has.tools.get(call.name)
        return tool is not None and tool.read_only

    async def _run_tools(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side; each is recorded before it starts and when it has ended."""
        lost = [call for call in calls if call.id in turn.started and not self._may_repeat(call)]
        for call in lost:
            await self._finish(turn, _result(call, OUTCOME_UNKNOWN), 0)
        runnable = [call for call in calls if call not in lost]
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
                await self._finish(turn, _result(call, BROKEN_OFF), 0)

    def _may_repeat(self, call: ToolCall) -> bool:
        tool = self._has.tools.get(call.name)
        return tool is None or tool.may_repeat

    async def _run_tool(self, turn: Turn, call: ToolCall) -> None:
        began = time.monotonic()
        has = self._has
        context = ToolContext(self._leg.job, self._leg.number, has.definition.name, call.id, has.cwd, has.root)
        result = await has.gate.run(call, context)
        await self._finish(turn, result, _ms_since(began))

    async def _finish(self, turn: Turn, result: ToolResult, duration_ms: int, *, forgotten: bool = False) -> None:
        record = ToolFinished(leg=self._leg.number, result=result, duration_ms=duration_ms, forgotten=forgotten)
        await self._leg.record(record, is_progress=True)
        turn.answers[result.call_id] = result
        if forgotten:
            turn.forgotten.add(result.call_id)

    async def _forget(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Answer the transfers beyond the first: no model sees them again."""
        for call in calls:
            await self._finish(turn, _result(call, ONE_TRANSFER), 0, forgotten=True)

    async def _transfer(self, turn: Turn, call: ToolCall) -> Transfer | None:
        """Return the transfer, or answer the call with why it is refused."""
        try:
            return self._has.transfers.transfer(call, upto=len(self._leg.entries))
        except HandoffRefused as refusal:
            text = str(refusal)
            record = Refused(leg=self._leg.number, call_id=call.id, name=call.name, code=refusal.code, message=text)
            await self._leg.record(record)
            turn.answers[call.id] = _result(call, text)
            turn.refusal = text
            return None


def _result(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=True)


def _tokens(turn: Turn) -> int:
    return turn.reply.usage.input_tokens + turn.reply.usage.output_tokens


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
