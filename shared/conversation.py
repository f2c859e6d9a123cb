"""A leg's conversation as its journal tells it: the same after a crash, a pause or a refused transfer."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ekiden.shared.messages import Message, ToolCall, ToolResult, answered, user_message
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    HandedOff,
    LastTurn,
    LoopDetected,
    ModelReplied,
    Nudged,
    Record,
    Refused,
    Retried,
    ToolFinished,
    ToolPaused,
    ToolStarted,
)

__all__ = ["Conversation", "Turn"]


@dataclass
class Turn:
    """One model reply and what became of its calls."""

    reply: ModelReplied
    answers: dict[str, ToolResult] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    """Calls that have begun, since they were decided about if they were."""
    forgotten: set[str] = field(default_factory=set)
    """Calls that no model sees again: transfers beyond the first of a turn."""
    children: dict[str, str] = field(default_factory=dict)
    """Child jobs that were begun, by call."""
    asked: dict[str, ApprovalAsked] = field(default_factory=dict)
    """What persons were asked last, by call."""
    decisions: dict[str, Decided] = field(default_factory=dict)
    paused: dict[str, str] = field(default_factory=dict)
    """What tools that need an answer of a person want back with it, by call."""
    """What was decided last, by call."""
    refusal: str = ""
    """Why the turn's transfer was not carried out, if it was not."""
    refused_auto: set[str] = field(default_factory=set)
    """Targets of handoffs that the agent's file asked for behind this turn, and that were not carried out."""
    nudge: str = ""
    """What the agent is told for a reply that was no end of the leg."""
    loop: str = ""
    """What it is told because it goes round in circles."""
    last: str = ""
    """What it is told where only its last turn is left."""
    transfer: str = ""
    """The call that moved control, if one did."""
    is_forgiven: bool = False
    """Before a retry of the job: counts for no limit any more."""

    @property
    def told(self) -> str:
        """What the agent is told behind the turn, which is then no end of the leg."""
        return "\n\n".join(filter(None, (self.loop, self.nudge, self.last)))

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without an answer, in order."""
        return [call for call in self.reply.message.calls if call.id not in self.answers]

    def call(self, call_id: str) -> ToolCall:
        """Return a call as the model made it."""
        return next(call for call in self.reply.message.calls if call.id == call_id)

    def answer(self, call_id: str, content: str, *, is_error: bool = False) -> bool:
        """Answer a call; tell whether this turn made it."""
        name = next((call.name for call in self.reply.message.calls if call.id == call_id), None)
        if name is not None:
            self.answers[call_id] = ToolResult(call_id=call_id, name=name, content=content, is_error=is_error)
        return name is not None

    def messages(self) -> tuple[Message, ...]:
        """Return the reply, the results of its calls (one for each, in call order), and what the agent is told then."""
        message = self.reply.message
        if self.forgotten:
            kept = tuple(p for p in message.parts if not (isinstance(p, ToolCall) and p.id in self.forgotten))
            message = message.model_copy(update={"parts": kept})
        results = [self.answers[call.id] for call in message.calls if call.id in self.answers]
        return (
            message,
            *([answered(results)] if message.calls else []),
            *([user_message(self.told)] if self.told else []),
        )


class Conversation:
    """The turns of one leg: the fold of its records, the same for a leg that runs and for one that is read again.

    ``note`` is its only writer.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.turns: list[Turn] = []
        self.last_turn: LastTurn | None = None
        """Set where the next turn is the leg's last one, or was."""
        self._before_last = 0
        """How many turns there were before it."""
        for record in records:
            self.note(record)

    @property
    def counted(self) -> list[Turn]:
        """The turns that count for limits."""
        return [turn for turn in self.turns if not turn.is_forgiven]

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls of the last turn that have no answer yet, in order."""
        return self.turns[-1].open_calls if self.turns else []

    @property
    def has_ended(self) -> bool:
        """Whether the leg has had its last turn."""
        return self.last_turn is not None and len(self.turns) > self._before_last

    def note(self, record: Record) -> None:
        """Take in a record of the leg, in the journal's order."""
        match record:
            case ModelReplied():
                self.turns.append(Turn(record))
            case LastTurn():
                self.last_turn, self._before_last = record, len(self.turns)
                if self.turns:
                    self.turns[-1].last = record.text
            case Retried():
                self._take_back_last_turn()
                # A reply that was no answer is void, unless the agent was told so.
                self.turns = [turn for turn in self.turns if turn.reply.message.calls or turn.told]
                for turn in self.turns:
                    turn.is_forgiven = True
            case _:
                if self.turns:
                    _note(self.turns[-1], record)

    def _take_back_last_turn(self) -> None:
        """Go on with all tools: nobody is told any more that none is left."""
        self.last_turn = None
        for turn in self.turns:
            turn.last = ""


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
        case ToolPaused() | ApprovalAsked() | Decided():
            _note_approval(turn, record)
        case Nudged() | LoopDetected():
            _note_words(turn, record)
        case Refused(call_id=None, name=name):
            turn.refused_auto.add(name)
        case Refused(call_id=str(call_id), name=name, message=text):
            turn.answers[call_id] = ToolResult(call_id=call_id, name=name, content=text, is_error=True)
            turn.refusal = text
        case HandedOff(call_id=str(call_id), context=context):
            turn.transfer = call_id
            turn.answer(call_id, f"Control moved to agent {context.to_agent!r}.")
        case _:
            pass


def _note_words(turn: Turn, record: Nudged | LoopDetected) -> None:
    """Add what the agent is told behind the turn."""
    if isinstance(record, Nudged):
        turn.nudge = record.text
    else:
        turn.loop = record.text


def _note_approval(turn: Turn, record: ToolPaused | ApprovalAsked | Decided) -> None:
    """Add what a person is asked, or has said. What has begun before they said it has not begun by their leave."""
    match record:
        case ToolPaused(call_id=call_id, state=state):
            turn.paused[call_id] = state
            turn.started.discard(call_id)
        case ApprovalAsked(call_id=call_id):
            turn.asked[call_id] = record
        case Decided(call_id=call_id):
            turn.decisions[call_id] = record
            turn.started.discard(call_id)
