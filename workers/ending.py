"""How a leg ends: the steps from a reply that could be the last one to its outcome, and what stops it before."""

from collections import Counter
from dataclasses import replace

from ekiden.shared.conversation import Turn
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.job_limits import Used, why_no_budget
from ekiden.shared.llm.base import FinishReason
from ekiden.shared.outcomes import Answer, Failed, Outcome, TerminationReason, Transfer, Unfinished
from ekiden.shared.records import ModelReplied, Noticed, Nudged, StateChanged
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.completion import COMPLETE_TASK, Completion, says_it_hands_over
from ekiden.workers.handoffs import Transfers
from ekiden.workers.leg_hooks import LegHooks
from ekiden.workers.limits import REASONS, Limits, job_is_used_up
from ekiden.workers.processors import Processors
from ekiden.workers.rails import Rails

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
PROTOCOL_VIOLATION = "protocol_violation"
"""What programs find an ending against the rules by."""

_CUT_SHORT: dict[FinishReason, str] = {
    "max_tokens": "had to stop in mid-answer: ask for less at once, or choose a model with longer answers",
    "refused": "refused to answer: put the request in other words, or choose another model",
    "malformed_call": "made a tool call that cannot be read: submit again, or choose another model",
    "empty": "gave an empty answer: submit again, or choose another model",
}


class Ending:
    """Decides for one leg whether its last turn ends it, and whether it may have another one."""

    def __init__(
        self,
        leg: Leg,
        agent: AgentDefinition,
        limits: Limits,
        completion: Completion,
        transfers: Transfers,
        processors: Processors,
        hooks: LegHooks,
        rails: Rails,
    ) -> None:
        self._leg = leg
        self._agent = agent
        self._limits = limits
        self._completion = completion
        self._transfers = transfers
        self._hooks = hooks
        self._rails = rails
        self._processors = processors

    async def reached(self) -> Outcome | None:
        """Return how the last turn ends the leg; None: it does not."""
        turns = self._leg.conversation.turns
        if not turns or turns[-1].told:
            return None
        outcome: Outcome | None = self._answer_of(turns[-1])
        # An answer goes through steps: each gives an answer, another outcome, or None, and then the leg goes on.
        is_last = self._leg.conversation.last_turn is not None
        remind = () if is_last else (self._remind,)
        for step in (*remind, self._insist_on_completion, self._ask_hooks, self._guard, self._hand_over, self._process):
            if not isinstance(outcome, Answer):
                break
            outcome = await step(turns[-1], outcome)
        return await self._rails.answered(outcome) if isinstance(outcome, Unfinished) else outcome

    def stopped(self) -> Failed | None:
        """Return why the leg must not have another turn."""
        # Listed here and not kept: methods that an object keeps of itself keep it, and its leg's journal, from being
        # freed when the leg has ended.
        checks = (self._rails.stopped, self._refusals, self._denials, self._used_up)
        return next((stop for check in checks if (stop := check()) is not None), None)

    def out_of_time(self) -> Failed:
        """Return the outcome of a leg whose time, or its job's, is over."""
        return self._limit(self._limits.out_of_time())

    def _limit(self, reached: Used) -> Failed:
        """Return the outcome of a leg that has reached a limit.

        One of money leaves no turn more, since that would cost; nor does one that others share, who have used it up.
        """
        if why := why_no_budget(reached):
            return Failed(REASONS[reached.limit], why)
        limit, reason = f"{reached.limit}: {reached.most:.10g}", REASONS[reached.limit]
        if reached.of_job:
            why = f"all agents together have reached the job's limit ({limit}): raise it under 'limits.job' in the "
            why += "file of the agent that the job began with, or in the settings"
            told = f"All agents that work on this job together have reached its limit ({limit})."
        else:
            name = self._agent.name
            why = f"agent {name!r} reached its limit ({limit}): raise it under 'limits' in the agent's file"
            told = f"You have reached a limit ({limit})."
        return Failed(reason, why) if reason == "MAX_COST" else self.ended(reason, why, told)

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
        or_transfer = ", or hand over" if self._transfers.names and not job_is_used_up(self._leg) else ""
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
        why = f"{NO_COMPLETION} The file of agent {self._agent.name!r} demands it ({PROTOCOL_VIOLATION})."
        return self.ended("ERROR_NO_COMPLETE_TASK_CALL", why, NO_COMPLETION)

    async def _hand_over(self, turn: Turn, answer: Answer) -> Outcome:
        """Return the first handoff that the file asks for on completion and nobody refused; a graph has edges."""
        if answer.is_final or self._leg.context.ends_node:
            return answer
        output = answer.output if answer.output is not None else answer.text
        upto = len(self._leg.entries)

        def first() -> Transfer | None:
            transfers = self._transfers.automatic(output, upto)
            return next((one for one in transfers if one.context.to_agent not in turn.refused_auto), None)

        while (transfer := await run_limited(first)) is not None:
            if await self._hooks.may_hand_over(transfer.context):
                return await self._rails.handed_over_by_file(transfer)
        return answer

    async def _ask_hooks(self, turn: Turn, answer: Answer) -> Answer | None:
        return await self._hooks.after_agent(answer)

    async def _guard(self, turn: Turn, answer: Answer) -> Outcome | None:
        """Only what has passed is given, and sets the session's variables."""
        guarded = await self._rails.answered(answer)
        if isinstance(guarded, Answer) and (changes := self._completion.variables(guarded.output)):
            self._leg.hold(StateChanged(leg=self._leg.number, changes=changes, by=COMPLETE_TASK))
        return guarded

    async def _process(self, _: Turn, answer: Answer) -> Answer:
        """Let the processor that the file names make the answer's text; the object stays as it is."""
        if answer.output is None or not (self._agent.output and self._agent.output.process):
            return answer
        text, problem = await self._processors.shape(self._agent.output.process, answer.output)
        if problem:
            await self._leg.record(Noticed(leg=self._leg.number, text=f"{self._agent.name}: {problem}"))
        return replace(answer, text=text)

    def _refusals(self) -> Failed | None:
        refusals = [turn.refusal for turn in self._leg.conversation.counted if turn.refusal]
        if len(refusals) < MAX_REFUSALS:
            return None
        return Failed("HANDOFF_REFUSED", f"{len(refusals)} transfers were refused; the last: {refusals[-1]}")

    def _denials(self) -> Failed | None:
        decisions = [said for turn in self._leg.conversation.counted for said in turn.decisions.values()]
        denied = [(said.tool, said.digest) for said in decisions if said.status in ("denied", "expired")]
        if len(denied) < MAX_DENIALS or (most := Counter(denied).most_common(1)[0])[1] < MAX_DENIALS:
            return None
        why = f"agent {self._agent.name!r} wanted the same call of {most[0][0]!r} {MAX_DENIALS} times, each time denied"
        return Failed("DENIED", f"{why}: say in the request what it is to do instead, or approve it")

    def _used_up(self) -> Failed | None:
        reached = self._limits.reached()
        return None if reached is None else self._limit(reached)
