"""Questions to the user: they wait for an answer as calls wait for an approval, without a worker."""

from collections.abc import Mapping

from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.workers.approvals import telling_changes
from ekiden.workers.calls.base import CallKind, Gate, finish
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.asking import AskUser, ask_user

__all__ = ["QuestionCalls"]

NOBODY_THERE = "Nobody can be asked: the job runs by itself. Decide without an answer, or end with what you lack."
UNANSWERED = "Nobody answered in time. Decide without an answer, or end with what you lack."
DECLINED = "The user does not answer this question"


class QuestionCalls(CallKind):
    """Takes calls of ``ask_user``: what the user says is the result."""

    def __init__(self, gate: Gate, tools: Mapping[str, Tool]) -> None:
        super().__init__(gate)
        self._is_offered = ask_user.name in tools

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._is_offered and call.name == ask_user.name

    def _check(self, call: ToolCall) -> None:
        ask_user.parse(call.args)

    async def _judged(self, call: ToolCall) -> Decision:
        if why := await self._why_not(call):
            return Decision("deny", why)
        if (rules := self._decide(call)).verdict == "deny":
            return rules
        said = self._approvals.said_of(call)
        if said is None:
            return Decision("deny", NOBODY_THERE) if self._leg.request.when_asked == "deny" else Decision("ask")
        if said.status == "answered":
            return ALLOWED
        declined = DECLINED + (f": {said.why}" if said.why else "")
        return Decision("deny", UNANSWERED if said.status == "expired" else declined)

    def _ask(self, call: ToolCall, decision: Decision) -> None:
        asked: AskUser = ask_user.parse(call.args)
        self._approvals.ask(call, decision, kind="question", text=asked.question, choices=tuple(asked.choices))

    async def _carry_out(self, calls: list[ToolCall]) -> None:
        answers = [(call, self._approvals.said_of(call)) for call in calls]
        results = [
            telling_changes(self._turn, call, ToolResult(call_id=call.id, name=call.name, content=said.answer or ""))
            for call, said in answers
            if said is not None
        ]
        await finish(self._leg, results)
