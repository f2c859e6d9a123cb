"""How a leg ends: the steps from a reply that could be the last one to its outcome, and what stops it before."""

from collections import Counter

from ekiden.shared.conversation import Turn
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.llm.base import FinishReason
from ekiden.shared.outcomes import Answer, Failed, Outcome, TerminationReason, Transfer, Unfinished
from ekiden.shared.records import ModelReplied, Nudged
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.completion import Completion, says_it_hands_over
from ekiden.workers.handoffs import Transfers

__all__ = ["Ending"]

MAX_DENIALS = 3
"""How often people may deny the same call in a leg before it ends."""
MAX_REFUSALS = 3
"""Refused transfers in a leg before it ends."""
SAID_ONLY = (
    "Nothing was handed over: you only wrote it. Call the transfer tool now. If your text was meant as the final "
    "answer to the user, give that answer again."
)
NOT_COMPLETED = (
    "The task is not finished yet: call complete_task with its result, or go on working. What cannot be done ends with "
    "complete_task, too: with the status 'unfinished', and why."
)

NO_COMPLETION = "Agent stopped calling tools but did not call 'complete_task' to finalize the session."

_CUT_SHORT: dict[FinishReason, str] = {
    "max_tokens": "had to stop in mid-answer: ask for less at once, or choose a model with longer answers",
    "refused": "refused to answer: put the request in other words, or choose another model",
    "malformed_call": "made a tool call that cannot be read: submit again, or choose another model",
    "empty": "gave an empty answer: submit again, or choose another model",
}


class Ending:
    """Decides for one leg whether its last turn ends it, and whether it may have another one."""

    def __init__(self, leg: Leg, agent: AgentDefinition, completion: Completion, transfers: Transfers) -> None:
        self._leg = leg
        self._agent = agent
        self._completion = completion
        self._transfers = transfers

    async def reached(self) -> Outcome | None:
        """Return how the last turn ends the leg; None: it does not."""
        turns = self._leg.conversation.turns
        if not turns or turns[-1].told:
            return None
        outcome: Outcome | None = self._answer_of(turns[-1])
        # An answer goes through steps: each gives an answer, another outcome, or None, and then the leg goes on.
        is_last = self._leg.conversation.last_turn is not None
        remind = () if is_last else (self._remind,)
        for step in (*remind, self._insist_on_completion, self._hand_over):
            if not isinstance(outcome, Answer):
                break
            outcome = await step(turns[-1], outcome)
        return outcome

    def stopped(self) -> Failed | None:
        """Return why the leg must not have another turn."""
        # Listed here and not kept: methods that an object keeps of itself keep it, and its leg's journal, from being
        # freed when the leg has ended.
        checks = (self._refusals, self._denials, self._turns, self._tokens, self._budget)
        return next((stop for check in checks if (stop := check()) is not None), None)

    def limit(self, reason: TerminationReason, limit: str) -> Failed:
        """Return the outcome of a leg that has reached a limit of its agent's file."""
        name = self._agent.name
        why = f"agent {name!r} reached its limit ({limit}): raise it under 'limits' in the agent's file"
        return self.ended(reason, why, f"You have reached a limit ({limit}).")

    def ended(self, reason: TerminationReason, why: str, told: str) -> Failed:
        """Return the outcome of a leg that may still end with what it has, where its file leaves time for that.

        Args:
            reason: Why it ends.
            why: The same for the user, and what to do.
            told: The same for the model.
        """
        grace_s = self._agent.limits.grace_seconds
        if not grace_s:
            return Failed(reason, why)
        how = "by complete_task" if self._completion.must_complete else "with your best answer"
        or_transfer = ", or hand over" if self._transfers.names else ""
        return Failed(
            reason,
            why,
            f"{told} This is your last turn, and you have {grace_s:g} seconds for it: no other tool is left. End the "
            f"task now {how}{or_transfer}: give what you have found out so far, and say what is missing.",
        )

    def _answer_of(self, turn: Turn) -> Answer | Unfinished | Failed | None:
        """A reply without calls is an answer, and so is a completed task.

        The finish reason decides, never emptiness: half an answer, or none, is not reported as a success.
        """
        if turn.reply.message.calls:
            accepted = [call for call in turn.reply.message.calls if self._completion.is_ending(call)]
            results = [turn.answers.get(call.id) for call in accepted]
            done = [call for call, one in zip(accepted, results, strict=True) if one is not None and not one.is_error]
            return self._completion.answer(done[0]) if done else None
        if turn.reply.finish == "stop":
            return Answer(turn.reply.message.text)
        if turn.reply.finish == "unfinished":
            return Unfinished(turn.reply.message.text)
        return self._cut_short(turn.reply)

    def _cut_short(self, reply: ModelReplied) -> Failed:
        what = f"the model {reply.model!r} of agent {self._agent.name!r} {_CUT_SHORT[reply.finish]}"
        return Failed("ERROR", f"{what} ({reply.detail or reply.finish})")

    async def _remind(self, turn: Turn, answer: Answer) -> Answer | None:
        """Tell the model once, where its text only says what should have been done by a call."""
        if turn.reply.message.calls or any(one.nudge for one in self._leg.conversation.counted):
            return answer
        if self._completion.must_complete:
            text = NOT_COMPLETED
        elif await run_limited(lambda: says_it_hands_over(answer.text, self._transfers.names)):
            text = SAID_ONLY
        else:
            return answer
        await self._leg.record(Nudged(leg=self._leg.number, text=text))
        return None

    async def _insist_on_completion(self, turn: Turn, answer: Answer) -> Answer | Failed:
        if turn.reply.message.calls or not self._completion.must_complete:
            return answer
        why = f"agent {self._agent.name!r} ended without calling complete_task, though its file demands it"
        return self.ended("ERROR_NO_COMPLETE_TASK_CALL", why, NO_COMPLETION)

    async def _hand_over(self, turn: Turn, answer: Answer) -> Answer | Transfer:
        """Return the first handoff that the agent's file asks for on completion and nobody refused."""
        if answer.is_final:
            return answer
        output = answer.output if answer.output is not None else answer.text
        upto = len(self._leg.entries)

        def first() -> Transfer | None:
            transfers = self._transfers.automatic(output, upto)
            return next((one for one in transfers if one.context.to_agent not in turn.refused_auto), None)

        return await run_limited(first) or answer

    def _refusals(self) -> Failed | None:
        refusals = [turn.refusal for turn in self._leg.conversation.counted if turn.refusal]
        if len(refusals) < MAX_REFUSALS:
            return None
        return Failed("HANDOFF_REFUSED", f"{len(refusals)} transfers were refused; the last: {refusals[-1]}")

    def _denials(self) -> Failed | None:
        decisions = (said for turn in self._leg.conversation.counted for said in turn.decisions.values())
        denied = Counter((said.tool, said.digest) for said in decisions if said.status in ("denied", "expired"))
        if not denied or (most := denied.most_common(1)[0])[1] < MAX_DENIALS:
            return None
        why = f"agent {self._agent.name!r} wanted the same call of {most[0][0]!r} {MAX_DENIALS} times, each time denied"
        return Failed("DENIED", f"{why}: say in the request what it is to do instead, or approve it")

    def _turns(self) -> Failed | None:
        most = self._agent.limits.max_turns
        return self.limit("MAX_TURNS", f"max_turns: {most}") if len(self._leg.conversation.counted) >= most else None

    def _tokens(self) -> Failed | None:
        most = self._agent.limits.max_tokens
        if most is None or sum(map(_tokens_of, self._leg.conversation.counted)) < most:
            return None
        return self.limit("MAX_TOKENS", f"max_tokens: {most}")

    def _budget(self) -> Failed | None:
        if not (used_up := self._leg.used_up):
            return None
        reason: TerminationReason = "MAX_TOKENS" if used_up == "tokens" else "MAX_COST"
        return Failed(reason, f"the job's budget of {used_up} is used up: its first agent's file sets it")


def _tokens_of(turn: Turn) -> int:
    return turn.reply.usage.input_tokens + turn.reply.usage.output_tokens
