"""Keeping a conversation within its model's window: a model sums up the older part, the newer stays word for word.

What was said is never rewritten: a record in the journal says what stands for it from then on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ModelError, ModelUnavailable
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.llm.context_windows import most_tokens_in, tokens_in, tokens_in_tools, tokens_of
from ekiden.shared.messages import Message, user_message
from ekiden.shared.records import Summarised
from ekiden.shared.relay.leg import Leg
from ekiden.workers.context_budget import THIS_JOB, Block, Place, budget_for, fit_to_budget
from ekiden.workers.history import Past, summary_request
from ekiden.workers.leg_hooks import LegHooks
from ekiden.workers.model_caller import ModelAnswer, ModelCaller
from ekiden.workers.prompt import history_to_compress, left_out
from ekiden.workers.session_past import part_of
from ekiden.workers.snapshots import INSTRUCTIONS, snapshot_in, without_long_results
from ekiden.workers.telling import as_text

__all__ = ["COMPRESSOR", "Compression", "CompressionRules"]

COMPRESSOR = "state-snapshot"
SUMMARISER = "summary"
"""Who sums up, by name: nobody of the catalog."""
SUMMARISE = "You sum up the work of other agents for the one that goes on with it."
LONGEST_RESULT = 500
"""Characters of an older result where no snapshot stands for it."""
READ_RESULT = 4_000
"""Characters of a result that whoever sums up reads where not all of them fit."""
_READS = 0.8
"""The share of the window of whoever sums up that the conversation may take."""
_NEARLY_FULL = 0.9
"""The share of the window from which on the older part is left out if nobody can sum it up."""
_GROWTH = 0.2
"""Of the threshold: how much must have come since the last time."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CompressionRules:
    """When a conversation is compressed, how much of it stays, and who writes the snapshot."""

    threshold: float = 0.5
    """The share of the window from which on; 1: never."""
    keep: float = 0.3
    """The share of the conversation that stays word for word."""
    model: str | None = None
    """None: the agent's own."""

    def with_those_of(self, agent: AgentDefinition) -> "CompressionRules":
        """Return them with what the agent's file says in their place."""
        said = {
            name: value
            for name in ("threshold", "keep", "model")
            if (value := getattr(agent.compression, name)) is not None
        }
        return replace(self, **said) if said else self


class Compression:
    """Compresses the conversation of one leg."""

    def __init__(
        self, leg: Leg, rules: CompressionRules, reader: ModelCaller, writer: ModelCaller, hooks: LegHooks
    ) -> None:
        """``reader``: the agent's own model, which sums up what others said, too; ``writer``: who writes snapshots."""
        self._leg = leg
        self._rules = rules
        self._hooks = hooks
        self._most = rules.threshold * reader.window
        self._writer = writer
        self._reader = reader
        tries = (one for one in reversed(leg.records) if isinstance(one, Summarised) and one.place is not None)
        last = next(tries, None)
        self._after, self._has_failed = (last.tokens_after, bool(last.why)) if last else (0, False)
        """What was left the last time, and whether there was no snapshot then."""
        self._size = _Size()

    async def make_room(self, request: ModelRequest, left_out: int) -> bool:
        """Compress the conversation where ``request`` takes too much of the window; tell whether it reads otherwise.

        So it is, too, where a leg begins with only a part of what came before it: ``left_out`` tokens are missing.
        """
        if self._rules.threshold >= 1 or self._leg.conversation.last_turn is not None:
            return False
        is_begun = bool(self._leg.conversation.turns)
        if not is_begun and not left_out and _most_tokens(request) < self._most:
            return False
        size = self._tokens(request)
        is_long = size >= self._most and size - self._after >= self._most * _GROWTH
        missing = 0 if is_begun or self._has_failed else left_out
        if not is_long and not missing:
            return False
        self._size.of(request)
        past = Past(self._leg)
        room = budget_for(self._reader.window) if missing else self._size.tokens
        place = self._kept_from(past.turns, self._rules.keep * room)
        if place is None or all(turn.is_pinned for turn in past.turns if turn.at < place):
            return False
        said = await self._hooks.before_compression(size)
        if said.block:
            self._after = size  # hooks are asked again once there is more
            return False
        await self._compress(past, place, size, missing, said.context)
        self._size = _Size()
        return True

    def _kept_from(self, turns: Sequence[Block], room: float) -> Place | None:
        """Return where what stays begins: in the session, as long as that alone takes the room, so that others gain."""
        session = [turn for turn in turns if turn.at < THIS_JOB]
        is_of_session = sum(turn.tokens for turn in session) > room and not self._has_failed
        return (_kept_from(session, room) if is_of_session else None) or _kept_from(turns, room)

    async def sum_up_others(self) -> None:
        """Let a model sum up what other agents said, once, where the handoff asks for it; else all of it is read."""
        budget = budget_for(self._reader.window)
        messages = None if self._leg.conversation.turns else summary_request(self._leg, budget)
        if messages is None:
            return
        asked, why = await self._ask(self._reader, SUMMARISER, SUMMARISE, messages)
        if why:
            log.warning("no_summary", why=why)
            return
        await self._record(asked, Summarised(leg=self._leg.number, text=asked.reply.message.text))

    def _tokens(self, request: ModelRequest) -> int:
        """Return how much a request is: by the provider's last count, and an estimate of what came since."""
        turns = self._leg.conversation.turns
        if len(turns) > self._leg.conversation.compressed_at and (counted := turns[-1].reply.usage.input_tokens):
            return counted + sum(map(tokens_in, turns[-1].messages()))
        return self._size.of(request)

    async def _compress(self, past: Past, place: Place, size: int, missing: int, wish: str) -> None:
        """Put a snapshot in the place of the turns before ``place``, or tell them with shorter results.

        ``wish``: what hooks want it to keep.
        """
        old = [turn for turn in past.turns if turn.at < place]
        merged = past.compressed.text if place > THIS_JOB else ""
        instructions = "\n\n".join(filter(None, (INSTRUCTIONS, wish)))
        asked, why = await self._ask(self._writer, COMPRESSOR, instructions, self._to_read(past, merged, old))
        gone = sum(turn.tokens for turn in old) + tokens_of(merged)
        text, why = _checked(asked.reply.message.text, gone) if not why else ("", why)
        unit = size / max(1, self._size.tokens)
        size += missing
        after, longest = size - round(unit * (gone - tokens_of(text))), 0
        if why:
            log.warning("not_compressed", why=why)
            longest = LONGEST_RESULT
            after = size - round(unit * sum(turn.tokens - without_long_results(turn, longest).tokens for turn in old))
            if after > self._reader.window * _NEARLY_FULL and place > THIS_JOB:
                text, longest = left_out(len(old), gone), 0
                after = size - round(unit * (gone - tokens_of(text)))
        self._after, self._has_failed = max(0, after), bool(why)
        in_journal, number = place
        record = Summarised(
            leg=self._leg.number,
            text=text,
            before=number if in_journal else None,
            session=None if in_journal else part_of(self._leg, past.session_parts, number),
            longest_result=longest,
            why=why,
            tokens_before=size,
            tokens_after=self._after,
        )
        await self._record(asked, record)

    def _to_read(self, past: Past, merged: str, old: Sequence[Block]) -> tuple[Message, ...]:
        """Return what is to be summed up, as far as whoever does it reads so much."""
        budget = round(self._writer.window * _READS) - tokens_of(INSTRUCTIONS)
        budget -= tokens_of(self._leg.asked)
        before = [Block((merged,), is_pinned=True)] if merged else []
        if sum(turn.tokens for turn in (*before, *old)) > budget:
            old = [without_long_results(turn, READ_RESULT) for turn in old]
        text = as_text(fit_to_budget([*before, *old], budget), past.fence)
        return (user_message(history_to_compress(self._leg.asked, text, fence=past.fence)),)

    async def _ask(
        self, model: ModelCaller, who: str, instructions: str, messages: tuple[Message, ...]
    ) -> tuple[ModelAnswer, str]:
        """Return the answer, and why it is of no use; empty: it is."""
        request = ModelRequest(agent=who, model=model.name, instructions=instructions, messages=messages)
        try:
            asked = await model.ask(request)
        except ModelError as error:
            if isinstance(error, ModelUnavailable) and model is self._reader:
                raise  # the agent's turn could not be asked for, either
            return ModelAnswer(ModelReply(message=Message(role="model", parts=()), model=model.name), None, 0), str(
                error
            )
        finish = asked.reply.finish
        return asked, "" if finish == "stop" else f"the model stopped: {asked.reply.detail or finish}"

    async def _record(self, asked: ModelAnswer, record: Summarised) -> None:
        used = {
            "model": asked.reply.model,
            "usage": asked.reply.usage,
            "cost_usd": asked.cost_usd,
            "duration_ms": asked.duration_ms,
        }
        await self._leg.record(record.model_copy(update=used))


class _Size:
    """An estimate of requests whose messages only grow: each is measured once."""

    def __init__(self) -> None:
        self._read = self._messages = 0
        self.tokens = 0
        """Of the last request."""

    def of(self, request: ModelRequest) -> int:
        """Return how many tokens a request is."""
        self._messages += sum(map(tokens_in, request.messages[self._read :]))
        self._read = len(request.messages)
        beside = tokens_of(request.instructions) + tokens_in_tools(request.tools)
        self.tokens = self._messages + beside
        return self.tokens


def _most_tokens(request: ModelRequest) -> int:
    """Return no less than a request is: of nearly every first one that is enough to know."""
    return len(request.instructions) + tokens_in_tools(request.tools) + sum(map(most_tokens_in, request.messages))


def _checked(answer: str, gone: int) -> tuple[str, str]:
    """Return the snapshot in an answer, which stands for so many tokens, and why there is none."""
    if not (text := snapshot_in(answer)):
        return "", "the answer holds no <state_snapshot>"
    if tokens_of(text) >= gone:
        return "", "the snapshot is larger than what it would stand for"
    return text, ""


def _kept_from(turns: Sequence[Block], room: float) -> Place | None:
    """Return where the newest turns begin that there is room for, the last one in any case; None: nothing is older."""
    place = None
    for older, turn in zip(reversed(turns[:-1]), reversed(turns[1:]), strict=True):
        room -= turn.tokens
        if place is not None and room < 0:
            break
        if older.at < turn.at:
            place = turn.at
    return place
