"""A leg's conversation, rebuilt from the journal: the same after a crash, a pause or a refused transfer."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.messages import Message, ToolCall, ToolResult, answered, user_message
from shared.records import (
    Delegated,
    HandedOff,
    ModelReplied,
    Nudged,
    Record,
    Refused,
    Retried,
    ToolFinished,
    ToolStarted,
)

__all__ = ["Turn", "turns_of"]


@dataclass
class Turn:
    """One model reply and what became of its calls."""

    reply: ModelReplied
    answers: dict[str, ToolResult] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    """Calls that no model sees again: transfers beyond the first of a turn."""
    children: dict[str, str] = field(default_factory=dict)
    """Child jobs that were begun, by call."""
    refusal: str = ""
    """Why the turn's transfer was not carried out, if it was not."""
    refused_auto: set[str] = field(default_factory=set)
    """Targets of handoffs that the agent's file asked for behind this turn, and that were not carried out."""
    nudge: str = ""
    """What the agent is told for a reply that was no end of the leg."""
    is_forgiven: bool = False
    """Before a retry of the job: counts for no limit any more."""

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without an answer, in order."""
        return [call for call in self.reply.message.calls if call.id not in self.answers]

    def answer(self, call_id: str, content: str, *, is_error: bool = False) -> bool:
        """Answer a call; tell whether this turn made it."""
        name = next((call.name for call in self.reply.message.calls if call.id == call_id), None)
        if name is not None:
            self.answers[call_id] = ToolResult(call_id=call_id, name=name, content=content, is_error=is_error)
        return name is not None

    def messages(self) -> tuple[Message, ...]:
        """Return the reply, the results of its calls (one for each, in call order), and the nudge, if there is one."""
        message = self.reply.message
        if self.forgotten:
            kept = tuple(p for p in message.parts if not (isinstance(p, ToolCall) and p.id in self.forgotten))
            message = message.model_copy(update={"parts": kept})
        results = [self.answers[call.id] for call in message.calls if call.id in self.answers]
        return (
            message,
            *([answered(results)] if message.calls else []),
            *([user_message(self.nudge)] if self.nudge else []),
        )


def turns_of(records: Iterable[Record]) -> list[Turn]:
    """Read one leg's records as turns."""
    turns: list[Turn] = []
    for record in records:
        match record:
            case ModelReplied():
                turns.append(Turn(record))
            case Retried():
                # A reply that was no answer is void, unless the agent was told so.
                turns = [turn for turn in turns if turn.reply.message.calls or turn.nudge]
                for turn in turns:
                    turn.is_forgiven = True
            case _:
                if turns:
                    _note(turns[-1], record)
    return turns


def _note(turn: Turn, record: Record) -> None:
    """Add what became of the turn."""
    match record:
        case ToolStarted(call_id=call_id):
            turn.started.add(call_id)
        case ToolFinished(result=result, forgotten=forgotten):
            turn.answers[result.call_id] = result
            if forgotten:
                turn.forgotten.add(result.call_id)
        case Delegated(call_id=call_id, child=child):
            turn.children[call_id] = child
        case Nudged(text=text):
            turn.nudge = text
        case Refused(call_id=None, name=name):
            turn.refused_auto.add(name)
        case Refused(call_id=str(call_id), name=name, message=text):
            turn.answers[call_id] = ToolResult(call_id=call_id, name=name, content=text, is_error=True)
            turn.refusal = text
        case HandedOff(call_id=str(call_id), context=context):
            turn.answer(call_id, f"Control moved to agent {context.to_agent!r}.")
        case _:
            pass
