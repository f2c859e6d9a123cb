"""Calls of tools that run in this worker."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ekiden.shared.errors import OutcomeUnknown
from ekiden.shared.messages import ToolCall, ToolResult, error_result
from ekiden.shared.outcomes import Outcome
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.records import Record, StateChanged, ToolFinished, ToolPaused, ToolStarted
from ekiden.workers.approvals import telling_changes
from ekiden.workers.calls.base import CallKind, Gate, finish
from ekiden.workers.tools.base import OWN, Answered, StateView, Tool, ToolContext, ToolQuestion
from ekiden.workers.tools.tool_runner import CHECK_FIRST, ToolRunner
from ekiden.workers.untrusted import Untrusted

__all__ = ["ToolCalls"]

OUTCOME_UNKNOWN = f"Outcome unknown: the worker was lost while this tool ran. {CHECK_FIRST}"
NOBODY_THERE = "not finished: it needs an answer of a person, and the job runs by itself."
DONE = "A person has looked, and says that it was done. What it gave is not known."
MOST_QUESTIONS = 10
"""Of one call."""
BROKEN_OFF = f"Outcome unknown: the tool was broken off while it ran. {CHECK_FIRST}"


class ToolCalls(CallKind):
    """Runs tools, those without effects side by side. Unknown names are taken as well: the tool runner answers."""

    def __init__(
        self,
        gate: Gate,
        tools: Mapping[str, Tool],
        tool_runner: ToolRunner,
        untrusted: Untrusted,
        context: Callable[[ToolCall, StateView, Answered | None], ToolContext],
    ) -> None:
        """``context``: what a tool may know of the call that it serves."""
        super().__init__(gate)
        self._tools = tools
        self._tool_runner = tool_runner
        self._untrusted = untrusted
        self._context = context
        self._answers: dict[str, Answered | None] = {}
        """What calls that are about to go on were answered: once they have begun, it is not looked at any more."""

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return call.name in self._tools

    async def answer(self, calls: Sequence[ToolCall]) -> Outcome | None:
        """See ``CallKind``: what a person says was done does not run, and what they say is taken as what it gave."""
        for call in calls:
            if (said := self._turn.settled.get(call.id)) is not None and said.is_done:
                await self._take_said(self._approvals.with_changes(call), said.text or DONE)
        return await super().answer([call for call in calls if call.id not in self._turn.answers])

    async def _take_said(self, call: ToolCall, text: str) -> None:
        began, context = time.monotonic(), self._context(call, StateView(self._leg.state), None)
        if call.name not in self._tools:  # as of a server that is gone: nobody can tell whose text that tool returns
            context.running.untrusted = f"what {call.name} returned, which is not here now"
        await self._take(call, await self._tool_runner.said(call, text, context), context, began)

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
        for may_share, run in groupby(calls, key=self._has_no_effects):
            batch = list(run)
            yield from [batch] if may_share else ([call] for call in batch)

    def _has_no_effects(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.read_only

    def _check(self, call: ToolCall) -> None:
        if self._is_lost(call) and call.id not in self._turn.asked:  # whoever was asked before, is again
            raise OutcomeUnknown(OUTCOME_UNKNOWN)
        self._tool_runner.check(call)

    def _is_lost(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return call.id in self._turn.started and tool is not None and not tool.may_repeat

    async def _carry_out(self, calls: list[ToolCall]) -> None:
        self._answers = {call.id: self._answered(call) for call in calls}
        await self._leg.record(*map(self._started, calls))
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(self._execute(call))
        except BaseExceptionGroup as failures:  # tools never raise: this is a lost lease or a cancelled job
            raise failures.exceptions[0] from None
        # Cancelled from within, as by a library that lost its connection:
        waiting = self._turn.paused.keys() - self._turn.started
        broken_off = [call for call in calls if call.id not in self._turn.answers and call.id not in waiting]
        await finish(self._leg, [error_result(call, BROKEN_OFF, is_unknown=True) for call in broken_off])

    def _started(self, call: ToolCall) -> ToolStarted:
        tool = self._tools.get(call.name)
        package = f"{tool.package} {tool.version}".strip() if tool and tool.package != OWN else ""
        digest = tool.view.digest if tool and package else ""
        return ToolStarted(
            leg=self._leg.number,
            call_id=call.id,
            name=call.name,
            is_known=tool is not None,
            may_repeat=tool is not None and tool.may_repeat,
            package=package,
            digest=digest,
        )

    async def _execute(self, call: ToolCall) -> None:
        began = time.monotonic()
        context = self._context(call, StateView(self._leg.state), self._answers.pop(call.id, None))
        said: str | None = None
        try:
            given = await self._run(call, context)
        except ToolQuestion as question:
            if self._leg.request.when_asked != "deny":
                await self._pause(call, question)
                return
            given, said = error_result(call, f"{NOBODY_THERE} It asked: {question.text}"), question.text
        await self._take(call, given, context, began, said)

    async def _take(
        self, call: ToolCall, given: ToolResult, context: ToolContext, began: float, said: str | None = None
    ) -> None:
        """Record what a call gave, as hooks and guardrails let it pass; ``said``: its own words in that, if not all."""
        hooked = await self._hooks.after_tool(call, given)
        said = said if hooked.result is given else None
        guarded = await self._rails.result("tool_output", call, hooked.result, said=said)
        result = telling_changes(self._turn, call, guarded.result)
        if result.is_error:  # also where that says no more what the tool said
            result = result.model_copy(update={"is_unknown": given.is_unknown})
        changes = {} if result.is_error else context.state.changes
        untrusted = self._untrusted.brought_by(call, self._tools.get(call.name)) or context.running.untrusted
        finished = ToolFinished(
            leg=self._leg.number,
            result=result,
            duration_ms=round((time.monotonic() - began) * 1000),
            is_withheld=result.is_error and not given.is_error,
            untrusted=untrusted,
        )
        await self._finish(finished, changes, (*hooked.records, *guarded.records))
        if hooked.end is not None:
            raise hooked.end

    async def _pause(self, call: ToolCall, question: ToolQuestion) -> None:
        """Let the call wait for an answer of a person; one may lead to the next question, but not for ever."""
        leg, asked = self._leg, sum(isinstance(one, ToolPaused) and one.call_id == call.id for one in self._leg.records)
        if asked >= MOST_QUESTIONS:
            await finish(leg, [error_result(call, f"{call.name!r} asks for ever: {asked} questions were answered")])
        else:
            await leg.record(ToolPaused(leg=leg.number, call_id=call.id, name=call.name, state=question.state))
            decision = Decision("ask", "the tool needs an answer to go on", call.name)
            self._approvals.ask(call, decision, kind="question", text=question.text, choices=question.choices)

    async def _judged(self, call: ToolCall) -> Decision:
        """A call that goes on with an answer is one that was allowed, unless a rule denies it now."""
        if call.id not in self._turn.paused or self._answered(call) is None:
            return await super()._judged(call)
        rules = self._decide(call)
        return rules if rules.verdict == "deny" else ALLOWED

    def _answered(self, call: ToolCall) -> Answered | None:
        """Return what was said to the question that the call waits with, if that is over."""
        state, said = self._turn.paused.get(call.id), self._approvals.said_of(call)
        if state is None or said is None or said.status == "approved":
            return None
        return Answered(state, said.status, said.answer or said.why)

    async def _run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run the tool, and tell the hooks when."""
        hooks = self._leg.hooks
        hooks.tool_started(call)
        try:
            result = await self._tool_runner.run(call, context)
        except BaseException as error:
            hooks.tool_interrupted(call, error)
            raise
        hooks.tool_finished(call, result)
        return result

    async def _finish(self, finished: ToolFinished, changes: Mapping[str, Any], hooked: Sequence[Record]) -> None:
        """Record a result, and the session variables that its tool has written, in one step."""
        written = [StateChanged(leg=finished.leg, changes=dict(changes), by=finished.result.name)] if changes else []
        await self._leg.record(*written, *hooked, finished, is_progress=True)
