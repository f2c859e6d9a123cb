"""The loop of an agent: ask the model, run the tools it calls, until there is an outcome. Knows no queue."""

import asyncio
import time

import structlog

from shared.allowance import aside
from shared.errors import ModelError, ModelUnavailable
from shared.llm.base import FinishReason, ModelReply, ModelRequest, ToolSpec
from shared.messages import Message, ToolCall
from shared.outcomes import Answer, Failed, Outcome, TerminationReason, Transfer
from shared.records import ModelReplied, Nudged, Summarised
from shared.relay.leg import Leg
from workers.calls import Calls, Equipment
from workers.completion import says_it_hands_over
from workers.conversation import Turn, turns_of
from workers.fitting import budget_for
from workers.history import opening, summary_request
from workers.prompt import instructions_for

__all__ = ["Executor"]

SUMMARISER = "summary"
"""Who sums up, by name: nobody of the catalog."""
SUMMARISE = "You sum up the work of other agents for the one that goes on with it."
MAX_REFUSALS = 3
"""Refused transfers in a leg before it ends."""
SAID_ONLY = (
    "Nothing was handed over: you only wrote it. Call the transfer tool now. If your text was meant as the final "
    "answer to the user, give that answer again."
)
NOT_COMPLETED = "The task is not finished yet: call complete_task with its result, or go on working."

log = structlog.get_logger(__name__)

_UNFINISHED: dict[FinishReason, str] = {
    "max_tokens": "had to stop in mid-answer: ask for less at once, or choose a model with longer answers",
    "refused": "refused to answer: put the request in other words, or choose another model",
    "malformed_call": "made a tool call that cannot be read: submit again, or choose another model",
    "empty": "gave an empty answer: submit again, or choose another model",
}


class Executor:
    """Carries one leg from its last recorded step to an outcome."""

    def __init__(self, leg: Leg, equipment: Equipment) -> None:
        self._leg = leg
        self._has = equipment
        self._calls = Calls(leg, equipment)
        self._messages: list[Message] = []
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
        await self._summarise()
        self._messages = opening(self._leg, budget_for(self._has.model_name))
        while True:
            if (end := await self._end_of_last_turn()) is not None:
                return end
            if self._turns and self._turns[-1].open_calls:
                if (end := await self._calls.answer(self._turns[-1])) is not None:
                    return end
                continue
            if (limit := self._exceeded()) is not None:
                return limit
            await self._ask()

    async def _summarise(self) -> None:
        """Let a model sum up what other agents said, once, where the handoff asks for it; else all of it is read."""
        asked = None if self._turns else summary_request(self._leg, budget_for(self._has.model_name))
        if asked is None:
            return
        began = time.monotonic()
        model = self._has.model_name
        try:
            request = ModelRequest(agent=SUMMARISER, model=model, instructions=SUMMARISE, messages=asked)
            reply = await self._has.model.reply(request)
        except ModelUnavailable:
            raise
        except ModelError as error:
            log.warning("no_summary", error=str(error))
            return
        if reply.finish != "stop":
            log.warning("no_summary", finish=reply.finish)
            return
        summary = Summarised(
            leg=self._leg.number,
            text=reply.message.text,
            model=reply.model,
            usage=reply.usage,
            cost_usd=self._has.prices.cost_usd(reply.model, reply.usage),
            duration_ms=_ms_since(began),
        )
        await self._leg.record(summary)

    async def _ask(self) -> None:
        """Get the model's next reply, and record it before any of its calls runs."""
        began = time.monotonic()
        turn = len(self._turns) + 1
        reply = await self._reply(turn)
        record = ModelReplied(
            leg=self._leg.number,
            turn=turn,
            message=reply.message,
            finish=reply.finish,
            detail=reply.detail,
            usage=reply.usage,
            model=reply.model,
            cost_usd=self._has.prices.cost_usd(reply.model, reply.usage),
            duration_ms=_ms_since(began),
        )
        await self._leg.record(record, is_progress=True)
        self._turns.append(Turn(record))

    async def _reply(self, turn: int) -> ModelReply:
        """Ask, and let those who follow the job see the answer grow."""
        if (live := self._leg.live) is None:
            return await self._has.model.reply(await self._request())
        live.begin(turn)
        reply = await self._has.model.reply(await self._request(), live.write)
        await live.finish()
        return reply

    async def _request(self) -> ModelRequest:
        for turn in self._turns[self._told :]:
            self._messages += turn.messages()
        self._told = len(self._turns)
        definition = self._has.definition
        instruction, tools = await aside(self._offered)
        return ModelRequest(
            agent=definition.name,
            model=self._has.model_name,
            instructions=instructions_for(definition, self._leg.request.inputs, instruction),
            messages=tuple(self._messages),
            tools=tools,
            temperature=definition.temperature,
        )

    def _offered(self) -> tuple[str, tuple[ToolSpec, ...]]:
        """Return what the instructions say of transfers, and the tools: conditions decide which targets are there."""
        has = self._has
        own = [tool.spec for tool in has.tools.values()]
        tools = (*own, *has.delegations.specs, *has.completion.specs, *has.transfers.specs)
        return has.transfers.instruction, tools

    async def _end_of_last_turn(self) -> Outcome | None:
        """A reply without calls is the answer, and so is a completed task; too many refused transfers are a failure."""
        if not self._turns or self._turns[-1].nudge:
            return None
        last = self._turns[-1]
        if not last.reply.message.calls:
            return await self._end_by_text(last)
        if (ending := self._accepted_ending(last)) is not None:
            return await self._go_on_automatically(self._has.completion.answer(ending))
        if not last.refusal:
            return None
        refusals = [turn.refusal for turn in self._counted if turn.refusal]
        if len(refusals) >= MAX_REFUSALS:
            return Failed("HANDOFF_REFUSED", f"{len(refusals)} transfers were refused; the last: {refusals[-1]}")
        return None

    @property
    def _counted(self) -> list[Turn]:
        """The turns that count for limits."""
        return [turn for turn in self._turns if not turn.is_forgiven]

    async def _end_by_text(self, last: Turn) -> Outcome | None:
        """An answer, unless it only says what should have been done by a call: the model is told so once."""
        outcome = self._answer(last.reply)
        if isinstance(outcome, Failed):
            return outcome
        must_complete = self._has.completion.must_complete
        if not any(turn.nudge for turn in self._counted):
            text = NOT_COMPLETED if must_complete else SAID_ONLY
            if must_complete or await aside(lambda: says_it_hands_over(outcome.text, self._has.transfers.names)):
                await self._nudge(last, text)
                return None
        if must_complete:
            why = f"agent {self._has.definition.name!r} ended without calling complete_task, though its file demands it"
            return Failed("ERROR_NO_COMPLETE_TASK_CALL", why)
        return await self._go_on_automatically(outcome)

    async def _nudge(self, turn: Turn, text: str) -> None:
        await self._leg.record(Nudged(leg=self._leg.number, text=text))
        turn.nudge = text

    def _accepted_ending(self, turn: Turn) -> ToolCall | None:
        """Return the call of the turn that has ended the leg, if one has."""
        return next(
            (
                call
                for call in turn.reply.message.calls
                if self._has.completion.is_ending(call)
                and call.id in turn.answers
                and not turn.answers[call.id].is_error
            ),
            None,
        )

    async def _go_on_automatically(self, answer: Answer) -> Outcome:
        """Return the first handoff that the agent's file asks for on completion and nobody refused, else ``answer``."""
        if answer.is_final:
            return answer
        output = answer.output if answer.output is not None else answer.text
        upto, refused = len(self._leg.entries), self._turns[-1].refused_auto

        def first() -> Transfer | None:
            transfers = self._has.transfers.automatic(output, upto)
            return next((one for one in transfers if one.context.to_agent not in refused), None)

        return await aside(first) or answer

    def _answer(self, reply: ModelReplied) -> Answer | Failed:
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
        if self._leg.used_up:
            reason: TerminationReason = "MAX_TOKENS" if self._leg.used_up == "tokens" else "MAX_COST"
            return Failed(reason, f"the job's budget of {self._leg.used_up} is used up: its first agent's file sets it")
        return None

    def _limit(self, reason: TerminationReason, limit: str) -> Failed:
        name = self._has.definition.name
        return Failed(
            reason, f"agent {name!r} reached its limit ({limit}): raise it under 'limits' in the agent's file"
        )


def _tokens(turn: Turn) -> int:
    return turn.reply.usage.input_tokens + turn.reply.usage.output_tokens


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
