"""The loop of an agent: ask the model, answer the calls it makes, until there is an outcome. Knows no queue."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelError, ModelUnavailable
from ekiden.shared.llm.base import ModelRequest, ToolSpec
from ekiden.shared.messages import Message, user_message
from ekiden.shared.outcomes import Outcome
from ekiden.shared.records import LastTurn, ModelReplied, Summarised
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.pipeline import Calls
from ekiden.workers.context_budget import budget_for
from ekiden.workers.ending import Ending
from ekiden.workers.fingerprints import Fingerprints
from ekiden.workers.history import opening, summary_request
from ekiden.workers.last_turn import outcome_of
from ekiden.workers.loops.watch import Loops
from ekiden.workers.model_caller import ModelAnswer, ModelCaller
from ekiden.workers.prompt import instructions_for
from ekiden.workers.untrusted import why_untrusted

__all__ = ["Executor", "Offer"]

SUMMARISER = "summary"
"""Who sums up, by name: nobody of the catalog."""
SUMMARISE = "You sum up the work of other agents for the one that goes on with it."

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Offer:
    """What a model is told that it may call, now: conditions decide which targets are there."""

    tools: tuple[ToolSpec, ...]
    transfers: str
    """What the instructions say of transfers, where the tools do not."""


class Executor:
    """Carries one leg from its last recorded step to an outcome."""

    def __init__(
        self,
        leg: Leg,
        agent: AgentDefinition,
        model: ModelCaller,
        offer: Callable[[], Offer],
        calls: Calls,
        loops: Loops,
        ending: Ending,
    ) -> None:
        self._leg = leg
        self._agent = agent
        self._model = model
        self._offer = offer
        self._calls = calls
        self._loops = loops
        self._ending = ending
        self._messages: list[Message] = []
        self._fingerprints = Fingerprints(agent, leg.entries)
        self._told = 0
        """How many turns ``_messages`` holds: it only grows, so that turn 1,000 costs what turn 10 did."""

    async def run(self) -> Outcome:
        """Loop until there is an outcome, for as long as the agent's limit still leaves."""
        granted = self._leg.conversation.last_turn
        limit_s = self._agent.limits.max_seconds
        ends_s = limit_s if granted is None else granted.used_ms / 1000 + self._agent.limits.grace_seconds
        try:
            async with asyncio.timeout(max(0.0, ends_s - self._leg.used_ms / 1000)) as scope:
                return await (self._loop() if granted is None else self._last_turn(granted))
        except TimeoutError:
            if not scope.expired():
                raise
        if granted is not None:
            return outcome_of(granted, None)
        return self._ending.limit("TIMEOUT", f"max_seconds: {limit_s:g}")

    async def _loop(self) -> Outcome:
        await self._summarise()
        self._messages = opening(self._leg, budget_for(self._model.window))
        while True:
            if self._leg.conversation.open_calls:
                end = await self._calls.answer()
            elif (end := await self._ended()) is None:
                await self._take_turn()
            if end is not None:
                return end

    async def _last_turn(self, granted: LastTurn) -> Outcome:
        """Let the agent end with what it has; a worker that died meanwhile has not taken the turn from it."""
        self._messages = opening(self._leg, budget_for(self._model.window))
        end: Outcome | None = None
        try:
            if not self._leg.conversation.has_ended:
                await self._take_turn()
            if self._leg.conversation.open_calls:
                end = await self._calls.answer()
        except ModelUnavailable:
            raise
        except ModelError as error:
            log.warning("no_last_turn", error=str(error))
            return outcome_of(granted, None)
        return outcome_of(granted, end or await self._ending.reached())

    async def _ended(self) -> Outcome | None:
        """Return how the leg ends behind its last turn, or why it must not have another one."""
        return await self._loops.check() or await self._ending.reached() or self._ending.stopped()

    async def _summarise(self) -> None:
        """Let a model sum up what other agents said, once, where the handoff asks for it; else all of it is read."""
        budget = budget_for(self._model.window)
        messages = None if self._leg.conversation.turns else summary_request(self._leg, budget)
        if messages is None:
            return
        request = ModelRequest(agent=SUMMARISER, model=self._model.name, instructions=SUMMARISE, messages=messages)
        try:
            asked = await self._model.ask(request)
        except ModelUnavailable:
            raise
        except ModelError as error:
            log.warning("no_summary", error=str(error))
            return
        reply = asked.reply
        if reply.finish != "stop":
            log.warning("no_summary", finish=reply.finish)
            return
        summary = Summarised(
            leg=self._leg.number,
            text=reply.message.text,
            model=reply.model,
            usage=reply.usage,
            cost_usd=asked.cost_usd,
            duration_ms=asked.duration_ms,
        )
        await self._leg.record(summary)

    async def _take_turn(self) -> None:
        """Get the model's next reply, and record it before any of its calls runs; the last goes with the leg's end."""
        turn = len(self._leg.conversation.turns) + 1
        request = await self._request()
        asked = await self._ask(request, turn)
        reply = asked.reply
        record = ModelReplied(
            leg=self._leg.number,
            turn=turn,
            message=reply.message,
            finish=reply.finish,
            detail=reply.detail,
            usage=reply.usage,
            model=reply.model,
            cost_usd=asked.cost_usd,
            duration_ms=asked.duration_ms,
            fingerprint=self._fingerprints.of(request),
            untrusted=why_untrusted(self._agent),
        )
        if self._calls.only_end(record.message.calls):
            self._leg.hold(record)
        else:
            await self._leg.record(record, is_progress=True)

    async def _ask(self, request: ModelRequest, turn: int) -> ModelAnswer:
        """Ask, and let those who follow the job see the answer grow."""
        if (live := self._leg.live) is None:
            return await self._model.ask(request)
        live.begin(turn)
        asked = await self._model.ask(request, live.write)
        await live.finish()
        return asked

    async def _request(self) -> ModelRequest:
        turns = self._leg.conversation.turns
        for turn in turns[self._told :]:
            self._messages += turn.messages()
        self._told = len(turns)
        if (granted := self._leg.conversation.last_turn) is not None and not turns:
            self._messages[-1] = user_message(f"{self._messages[-1].text}\n\n{granted.text}")
        offer = await run_limited(self._offer)
        return ModelRequest(
            agent=self._agent.name,
            model=self._model.name,
            instructions=instructions_for(self._agent, self._leg.request.inputs, offer.transfers),
            messages=tuple(self._messages),
            tools=offer.tools,
            temperature=self._agent.temperature,
        )
