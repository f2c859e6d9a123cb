"""A leg's conversation, rebuilt from the journal: the same after a crash, a pause or a refused transfer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile, groupby

from shared.handoff import HandoffContext, History
from shared.messages import Message, ToolCall, ToolResult, answered, user_message
from shared.records import Entry, HandedOff, ModelReplied, Record, Refused, Retried, ToolFinished, ToolStarted
from shared.relay.leg import Leg
from workers.prompt import brief, transcript

__all__ = ["Turn", "opening", "turns_of"]


@dataclass
class Turn:
    """One model reply and what became of its calls."""

    reply: ModelReplied
    answers: dict[str, ToolResult] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    """Calls that no model sees again: transfers beyond the first of a turn."""
    refusal: str = ""
    """Why the turn's transfer was not carried out, if it was not."""
    is_forgiven: bool = False
    """Before a retry of the job: counts for no limit any more."""

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without an answer, in order."""
        return [call for call in self.reply.message.calls if call.id not in self.answers]

    def messages(self) -> tuple[Message, ...]:
        """Return the reply and, if it has calls, their results: one for each, in call order."""
        message = self.reply.message
        if self.forgotten:
            kept = tuple(p for p in message.parts if not (isinstance(p, ToolCall) and p.id in self.forgotten))
            message = message.model_copy(update={"parts": kept})
        results = [self.answers[call.id] for call in message.calls if call.id in self.answers]
        return (message, answered(results)) if message.calls else (message,)


def turns_of(records: Iterable[Record]) -> list[Turn]:
    """Read one leg's records as turns."""
    turns: list[Turn] = []
    for record in records:
        match record:
            case ModelReplied():
                turns.append(Turn(record))
            case ToolStarted(call_id=call_id):
                turns[-1].started.add(call_id)
            case ToolFinished(result=result, forgotten=forgotten):
                turns[-1].answers[result.call_id] = result
                if forgotten:
                    turns[-1].forgotten.add(result.call_id)
            case Refused(call_id=str(call_id), name=name, message=text):
                turns[-1].answers[call_id] = ToolResult(call_id=call_id, name=name, content=text, is_error=True)
                turns[-1].refusal = text
            case HandedOff(call_id=str(call_id), context=context):
                turns[-1].answers[call_id] = _handed_over(turns[-1], call_id, context)
            case Retried():
                turns = [turn for turn in turns if turn.reply.message.calls]  # a reply that was no answer is void
                for turn in turns:
                    turn.is_forgiven = True
            case _:
                pass
    return turns


def _handed_over(turn: Turn, call_id: str, context: HandoffContext) -> ToolResult:
    name = next(call.name for call in turn.reply.message.calls if call.id == call_id)
    return ToolResult(call_id=call_id, name=name, content=f"Control moved to agent {context.to_agent!r}.")


def opening(leg: Leg) -> list[Message]:
    """Return what the agent reads before its own first turn of this leg.

    What was said in the session before; the user's request; what happened in the job so far, own turns as they were,
    other agents' as fenced quotations; the brief of the handoff. Texts that the agent has not written itself are put
    together into user messages, so that the roles alternate.
    """
    context = leg.context
    said: list[Message | str] = [*_session(leg), leg.request.prompt]
    for agent, turns in _earlier_legs(leg.entries, context.history):
        if agent == leg.agent:
            said += [message for turn in turns for message in turn.messages()]
        elif quoted := transcript(agent, _texts(turns), fence=context.metadata.handoff_id):
            said.append(quoted)
    if context.from_agent != "user":
        said.append(brief(context))
    return _alternating(said)


def _session(leg: Leg) -> Iterator[Message | str]:
    """Yield the session's earlier messages: the agent's own answers as they were, other agents' as quotations."""
    # Where the beginning of a long session is cut off, a user's message still comes first.
    for one in dropwhile(lambda said: said.agent, leg.earlier):
        if one.agent == leg.agent:
            yield one.message
        elif one.agent:
            yield transcript(one.agent, [one.message.text], fence=leg.context.metadata.handoff_id)
        else:
            yield one.message.text


def _earlier_legs(entries: list[Entry], history: History) -> Iterator[tuple[str, list[Turn]]]:
    """Yield agent and turns of every earlier leg, as far as the handoff shares them."""
    if history.mode == "none":
        return
    shared = [entry.record for entry in entries if entry.seq <= history.upto]
    agents = _agents_by_leg(entries)
    legs = [(leg, turns_of(records)) for leg, records in groupby(shared, key=lambda record: record.leg)]
    left = history.last if history.mode == "last" and history.last is not None else sum(len(t) for _, t in legs)
    skip = max(0, sum(len(turns) for _, turns in legs) - left)
    for leg, turns in legs:
        kept, skip = turns[skip:], max(0, skip - len(turns))
        if kept:
            yield agents[leg], kept


def _texts(turns: Iterable[Turn]) -> list[str]:
    """Return what an agent said for others to read: its visible texts, without thoughts and tool internals."""
    return [text for turn in turns if (text := turn.reply.message.text.strip())]


def _agents_by_leg(entries: list[Entry]) -> dict[int, str]:
    moves = (entry.record for entry in entries if isinstance(entry.record, HandedOff))
    return {move.leg + 1: move.context.to_agent for move in moves}


def _alternating(said: list[Message | str]) -> list[Message]:
    messages: list[Message] = []
    for is_text, run in groupby(said, key=lambda one: isinstance(one, str)):
        if is_text:
            messages.append(user_message("\n\n".join(one for one in run if isinstance(one, str))))
        else:
            messages += [one for one in run if isinstance(one, Message)]
    return messages
