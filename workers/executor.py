"""The loop of an agent: ask the model, answer the calls it makes, until there is an outcome. Knows no queue."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from ekiden.shared.definitions.agent_inputs import OBJECTIVE, called_with
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelError, ModelUnavailable
from ekiden.shared.hooks.events import AfterModel
from ekiden.shared.ids import parent_of
from ekiden.shared.instruction_parts import NO_PLACE, Place, Situation
from ekiden.shared.instructions import instructions_for
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest
from ekiden.shared.messages import Message, user_message
from ekiden.shared.outcomes import Outcome
from ekiden.shared.records import LastTurn, ModelReplied, Record
from ekiden.shared.records.turns import Prompt
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.calls.pipeline import Calls
from ekiden.workers.completion import COMPLETE_TASK
from ekiden.workers.compression import Compression
from ekiden.workers.context_budget import budget_for
from ekiden.workers.ending import Ending
from ekiden.workers.fingerprints import Fingerprints
from ekiden.workers.history import Past
from ekiden.workers.last_turn import outcome_of
from ekiden.workers.leg_hooks import LegHooks
from ekiden.workers.limits import Limits
from ekiden.workers.loops.watch import Loops
from ekiden.workers.memory import memory_part
from ekiden.workers.model_caller import ModelAnswer, ModelCaller
from ekiden.workers.offers import Offer
from ekiden.workers.rails import Rails
from ekiden.workers.untrusted import why_untrusted

__all__ = ["Executor"]

log = structlog.get_logger(__name__)


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
        limits: Limits,
        ending: Ending,
        hooks: LegHooks,
        rails: Rails,
        compression: Compression,
        place: Place = NO_PLACE,
    ) -> None:
        self._leg = leg
        self._agent = agent
        self._model = model
        self._offer = offer
        self._calls = calls
        self._loops = loops
        self._limits = limits
        self._ending = ending
        self._hooks = hooks
        self._rails = rails
        self._compression = compression
        self._messages: list[Message] = []
        self._inputs = called_with(agent, leg.inputs, leg.asked)
        self._place = place
        replies = (record for record in reversed(leg.records) if isinstance(record, ModelReplied))
        self._prompt = next((reply.prompt for reply in replies if reply.prompt is not None), None)
        """What the journal has last as this leg's system prompt."""
        self._left_out = self._told = 0
        """How many turns ``_messages`` holds: it only grows, until it is compressed: turn 1,000 costs what 10 did."""

    async def run(self) -> Outcome:
        """Loop until there is an outcome, for as long as the agent's limit still leaves."""
        granted = self._leg.conversation.last_turn
        try:
            async with asyncio.timeout(max(0.0, self._left_s(granted))) as scope:
                return await (self._loop() if granted is None else self._last_turn(granted))
        except TimeoutError:
            if not scope.expired():
                raise
        if granted is not None:
            return outcome_of(granted, None)
        return self._ending.out_of_time()

    def _left_s(self, granted: LastTurn | None) -> float:
        if granted is None:
            return self._limits.left_s
        return (granted.used_ms - self._leg.used_ms) / 1000 + self._agent.limits.grace_seconds

    async def _loop(self) -> Outcome:
        await self._hooks.begin()
        if (refused := await self._rails.begin()) is not None:
            return refused
        await self._compression.sum_up_others()
        self._open()
        while True:
            if self._leg.conversation.open_calls:
                end = await self._calls.answer()
            elif (end := await self._ended()) is None:
                await self._limits.tell()
                await self._take_turn()
            if end is not None:
                return end

    async def _last_turn(self, granted: LastTurn) -> Outcome:
        """Let the agent end with what it has; a worker that died meanwhile has not taken the turn from it."""
        self._open()
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

    async def _take_turn(self) -> None:
        """Get the model's next reply, and record it before any of its calls runs; the last goes with the leg's end."""
        turn = len(self._leg.conversation.turns) + 1
        request = await self._request()
        while await self._compression.make_room(request, self._left_out):
            self._open()
            request = await self._request()
        asked, hooked = await self._hooked(request, turn)
        reply = asked.reply
        prompt = Prompt.of(request.instructions, self._agent.instructions)
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
            prompt=None if prompt == self._prompt else prompt,
            untrusted=why_untrusted(self._agent),
            withheld=self._is_withheld(reply),
            asked="" if request.model == reply.model else request.model,
        )
        self._prompt = prompt
        if self._calls.only_end(record.message.calls):
            self._leg.hold(*hooked, record)
        else:
            await self._leg.record(*hooked, record, is_progress=True)

    async def _hooked(self, request: ModelRequest, turn: int) -> tuple[ModelAnswer, Sequence[Record]]:
        """Ask what hooks make of the request; return their reply, or what they make of the model's."""
        request, given = await self._hooks.before_model(request)
        if given is not None:
            return ModelAnswer(given.reply, 0.0, 0), given.records
        asked = await self._ask(request, turn)
        hooked = await self._hooks.after_model(request, asked.reply)
        if (live := self._leg.live) is not None and self._is_silent and not self._is_withheld(hooked.reply):
            live.write(Delta(hooked.reply.message.text))
            await live.finish()
        return asked if hooked.reply is asked.reply else replace(asked, reply=hooked.reply), hooked.records

    async def _ask(self, request: ModelRequest, turn: int) -> ModelAnswer:
        """Ask, and let those who follow the job see the answer grow; where hooks may change it, only then."""
        if (live := self._leg.live) is None:
            return await self._model.ask(request)
        live.begin(turn)
        if self._is_silent:
            return await self._model.ask(request)
        asked = await self._model.ask(request, live.write)
        await live.finish()
        return asked

    @property
    def _is_silent(self) -> bool:
        """Whether nobody may see a reply before it is whole."""
        return self._hooks.at(AfterModel.name) or self._rails.guard_answers

    def _is_withheld(self, reply: ModelReply) -> bool:
        """Tell whether a reply may be the answer that guardrails are to judge: nobody is shown it before they have."""
        return self._rails.guard_answers and self._calls.only_end(reply.message.calls)

    def _open(self) -> None:
        """Read the conversation from the journal: after a crash, and when it was compressed, as at the leg's start."""
        past = Past(self._leg)
        self._messages, self._left_out = past.opening(budget_for(self._model.window))
        self._told = past.turns_told
        self._fingerprints = Fingerprints(self._agent, self._leg.entries, self._model.drawn_then)

    async def _request(self) -> ModelRequest:
        turns = self._leg.conversation.turns
        for turn in turns[self._told :]:
            self._messages += turn.messages()
        self._told = len(turns)
        if not turns and (told := self._leg.conversation.told_first):
            self._messages[-1] = user_message(f"{self._messages[-1].text}\n\n{told}")
        offer = await run_limited(self._offer)
        return ModelRequest(
            agent=self._agent.name,
            model=self._model.name,
            instructions="\n\n".join(filter(None, (*self._parts(offer), self._hooks.context))),
            messages=tuple(self._messages),
            tools=offer.tools,
            temperature=self._agent.temperature,
            answer_as=COMPLETE_TASK if self._agent.output and _names(offer) == [COMPLETE_TASK] else "",
            prompt_id=f"{self._agent.name}-{self._leg.number}#{len(turns) + 1}",
        )

    def _parts(self, offer: Offer) -> tuple[str, str]:
        return self._instructions(offer), memory_part(self._agent, self._leg)

    def _instructions(self, offer: Offer) -> str:
        now = Situation(frozenset(spec.name for spec in offer.tools), offer.transfers, self._place)
        return instructions_for(self._agent, self._inputs, now, state=self._leg.state, listed=self._listed)

    @property
    def _listed(self) -> list[str]:
        """The inputs that stand in no message: a task, or step, has all; a request is its own objective."""
        if parent_of(self._leg.job) is not None or self._leg.context.step_inputs:
            return []
        request = self._leg.asked
        return [name for name in self._agent.inputs if name != OBJECTIVE or self._inputs.get(name) != request]


def _names(offer: Offer) -> list[str]:
    return [spec.name for spec in offer.tools]
