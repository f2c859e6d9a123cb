"""The calls of a turn, from the first to the one that ends the leg."""

from collections.abc import Iterable

from ekiden.shared.messages import ToolCall, error_result
from ekiden.shared.outcomes import Outcome
from ekiden.workers.calls.base import CallKind, Gate, finish
from ekiden.workers.calls.delegations import DelegationCalls
from ekiden.workers.calls.endings import CompletionCalls, TransferCalls
from ekiden.workers.calls.questions import QuestionCalls
from ekiden.workers.calls.tools import ToolCalls
from ekiden.workers.request_changes import why_not_chosen

__all__ = ["Calls"]

ONLY_ENDINGS = "Not executed: in this turn only what ends the task was carried out."
ONE_ENDING = "Not executed: one transfer per turn."


class Calls:
    """Answers the calls of one leg's turns: tools, then delegations, then the first call that ends the leg.

    What waits for a person is asked in one pause: of tools and delegations together, once what needs nobody has run.
    """

    def __init__(
        self,
        gate: Gate,
        questions: QuestionCalls,
        tools: ToolCalls,
        delegations: DelegationCalls,
        completion: CompletionCalls,
        transfers: TransferCalls,
    ) -> None:
        self._leg = gate.leg
        self._approvals = gate.approvals
        self._tools = tools
        self._kinds: tuple[CallKind, ...] = (questions, tools, delegations, completion, transfers)

    async def answer(self) -> Outcome | None:
        """Give every open call of the last turn its one answer, or return how the leg ends or pauses."""
        refused = [(call, why) for call in self._open_calls if (why := self._why_not(call))]
        await finish(self._leg, [error_result(call, why) for call, why in refused])
        open_calls = self._open_calls
        kinds = {call.id: self._kind_of(call) for call in open_calls}
        for kind in self._kinds:
            if not open_calls:
                break
            if kind.ends_leg and (pause := self._approvals.suspension()) is not None:
                return pause
            if kind.ends_leg and len(open_calls) > 1:
                await self._keep_first_ending()
                open_calls = self._open_calls
            if calls := [call for call in open_calls if kinds[call.id] is kind]:
                if (end := await kind.answer(calls)) is not None:
                    return end
                open_calls = self._open_calls
        return self._approvals.suspension()

    @property
    def _open_calls(self) -> list[ToolCall]:
        return self._leg.conversation.open_calls

    def _why_not(self, call: ToolCall) -> str:
        if self._leg.conversation.has_ended and not self._kind_of(call).ends_leg:
            return ONLY_ENDINGS
        return call.problem or why_not_chosen(self._leg.conversation.turns[-1], call)

    def only_end(self, calls: Iterable[ToolCall]) -> bool:
        """Tell whether none of a turn's ``calls`` does more than end the leg; so it is where there are none."""
        return all(self._kind_of(call).ends_leg for call in calls)

    def _kind_of(self, call: ToolCall) -> CallKind:
        return next((kind for kind in self._kinds if kind.takes(call)), self._tools)

    async def _keep_first_ending(self) -> None:
        """Answer the others; no model sees them again."""
        endings = [call for call in self._open_calls if self._kind_of(call).ends_leg]
        await finish(self._leg, [error_result(call, ONE_ENDING) for call in endings[1:]], forgotten=True)
