"""A leg's conversation as its journal tells it: the same after a crash, a pause or a refused transfer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.shared.messages import Message, ToolCall, ToolResult, Usage, answered, user_message
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Forked,
    Guarded,
    GuardJudged,
    HandedOff,
    Hooked,
    LastTurn,
    LimitNear,
    LoopDetected,
    ModelCall,
    ModelReplied,
    Nudged,
    Recalled,
    Record,
    Refused,
    Repairing,
    Retried,
    SettledCall,
    Summarised,
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
    """What was decided last, by call."""
    settled: dict[str, SettledCall] = field(default_factory=dict)
    """What a person has said of calls of which nobody knew whether they were done, while it counts."""
    paused: dict[str, str] = field(default_factory=dict)
    """What tools that need an answer of a person want back with it, by call."""
    hooked: dict[str, Hooked] = field(default_factory=dict)
    """What hooks have said of calls before they were decided about."""
    repaired: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The arguments that guardrails have had repaired, by call."""
    answered: Hooked | None = None
    """What hooks have said of the answer that it is."""
    chosen: Hooked | None = None
    """What hooks have said of the tools that the model was offered."""
    refusal: str = ""
    """Why the turn's transfer was not carried out, if it was not."""
    refused_auto: set[str] = field(default_factory=set)
    """Targets of handoffs that the agent's file asked for behind this turn, and that were not carried out."""
    nudge: str = ""
    """What the agent is told for a reply that was no end of the leg."""
    loop: str = ""
    """What it is told because it goes round in circles."""
    said: str = ""
    """What the user has said behind it, where the job was forked there."""
    limit: str = ""
    """What it is told because a limit is near."""
    last: str = ""
    """What it is told where only its last turn is left."""
    transfer: str = ""
    """The call that moved control, if one did."""
    is_forgiven: bool = False
    """Before a retry of the job: counts for no limit any more."""

    @property
    def told(self) -> str:
        """What the agent is told behind the turn, which is then no end of the leg."""
        return "\n\n".join(filter(None, (self.said, self.loop, self.nudge, self.limit, self.last)))

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without an answer, in order, as hooks have changed them and guardrails had them repaired."""
        return [self.as_hooked(call) for call in self.reply.message.calls if call.id not in self.answers]

    def call(self, call_id: str) -> ToolCall:
        """Return a call as the model made it, hooks have changed it and guardrails had it repaired."""
        return self.as_hooked(next(call for call in self.reply.message.calls if call.id == call_id))

    def as_hooked(self, call: ToolCall) -> ToolCall:
        """Return one of the model's calls with the arguments that were put in the place of the model's, if any were."""
        said, args = self.hooked.get(call.id), self.repaired.get(call.id)
        if args is None and said is not None and "args" in said.changed:
            args = said.value
        return call if args is None else call.model_copy(update={"args": args})

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
            *([user_message(self.told, aside=not (self.nudge or self.said))] if self.told else []),
        )


_NOTHING_USED = Usage()


class Conversation:
    """The turns of one leg: the fold of its records, the same for a leg that runs and for one that is read again.

    ``note`` is its only writer.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.turns: list[Turn] = []
        self.last_turn: LastTurn | None = None
        """Set where the next turn is the leg's last one, or was."""
        self.upcoming: dict[str, Hooked] = {}
        """What hooks have said of the next turn's request, by event."""
        self.begun: dict[str, Hooked] = {}
        """What hooks have said before the first turn, by event."""
        self.guarded: dict[tuple[int, str, str, str], Guarded] = {}
        """What guardrails have said, by what it is about."""
        self.guard_judged: dict[tuple[int, str, str, str, str], GuardJudged] = {}
        """What a model has said for them, likewise."""
        self.repairs: list[Repairing] = []
        """What a model was asked to repair: each counts as a turn for limits."""
        self.recalled: Recalled | None = None
        """Notes of earlier jobs that the agent has before it."""
        self.is_warned = False
        """Whether the agent has been told of a limit that is near."""
        self.told_first = ""
        """What it is told before its first turn, behind the request."""
        self._before_last = 0
        """How many turns there were before it."""
        self.compressed_at = 0
        """How many turns there were when it was compressed last."""
        self.beside, self.beside_usd = _NOTHING_USED, 0.0
        """What models used that looked at the turns, and took none; and what that cost."""
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
                self.turns.append(Turn(record, chosen=self.upcoming.get("BeforeToolSelection")))
                self.upcoming = {}
            case Hooked() | Recalled() | Guarded():
                self._note_beside(record)
            case LastTurn():
                self.last_turn, self._before_last = record, len(self.turns)
                self._tell("last", record.text)
            case LimitNear():
                self.is_warned = True
                self._tell("limit", record.text)
            case Forked(prompt=said):
                self._begin_counting_anew()
                self._ask_again()
                if self.turns:
                    self.turns[-1].said = said
            case Retried():
                self._begin_counting_anew()
                self.upcoming, self.guarded, self.guard_judged = {}, {}, {}  # hooks and guardrails are asked again
                # A reply that was no answer is void, unless the agent was told so.
                self.turns = [turn for turn in self.turns if turn.reply.message.calls or turn.told]
                _settle(self.turns[-1:], record)
            case ModelCall():
                self._note_call(record)
            case _:
                if self.turns:
                    _note(self.turns[-1], record)

    def _note_call(self, record: ModelCall) -> None:
        """Take in what a model was asked beside the turns."""
        self.beside += record.usage
        self.beside_usd += record.cost_usd or 0.0
        if isinstance(record, Repairing):
            self.repairs.append(record)
        if isinstance(record, GuardJudged):
            self.guard_judged[record.key] = record
        if isinstance(record, Summarised) and record.place is not None:
            self.compressed_at = len(self.turns)

    def _note_beside(self, record: Hooked | Recalled | Guarded) -> None:
        """Keep what must be known when the step that it is about is taken."""
        if isinstance(record, Recalled):
            self.recalled = record
        elif isinstance(record, Guarded):
            self.guarded[record.key] = record
            if record.at == "tool_input" and record.status == "repaired":
                self.turns[-1].repaired[record.call_id] = record.value
        elif record.at in ("SessionStart", "AfterHandoff", "BeforeAgent"):
            self.begun[record.at] = record
        elif record.turn > len(self.turns):
            self.upcoming[record.at] = record
        elif record.at in ("BeforeTool", "BeforeHandoff") and self.turns:  # a graph's own leg has none
            self.turns[-1].hooked[record.call_id] = record
        elif record.at == "AfterAgent":
            self.turns[-1].answered = record

    def _tell(self, of: Literal["limit", "last"], text: str) -> None:
        if self.turns:
            setattr(self.turns[-1], of, text)
        else:
            self.told_first = "\n\n".join(filter(None, (self.told_first, text)))

    def _ask_again(self) -> None:
        """Let hooks and guardrails be asked about a request that the user has added to: what hooks told stays told."""
        self.guarded = {key: one for key, one in self.guarded.items() if one.at not in ("input", "request")}
        if (said := self.begun.pop("BeforeAgent", None)) is not None:
            self.begun[f"BeforeAgent, {len(self.begun)}"] = said

    def _begin_counting_anew(self) -> None:
        """Go on with all tools: nobody is told any more that none is left, or little."""
        self.last_turn, self.is_warned, self.told_first = None, False, ""
        self.beside, self.beside_usd, self.repairs = _NOTHING_USED, 0.0, []
        for turn in self.turns:
            turn.limit = turn.last = ""
            turn.is_forgiven = True


def _note(turn: Turn, record: Record) -> None:
    """Add what became of the turn."""
    match record:
        case ToolStarted(call_id=call_id):
            turn.started.add(call_id)
            turn.settled.pop(call_id, None)
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


def _settle(last: Iterable[Turn], retried: Retried) -> None:
    """Open calls again of which a person has said whether they were done, now or before a retry that came to nothing.

    Whoever approved one has approved the run that nobody knew of: another is asked about anew.
    """
    for turn in last:
        made = {call.id for call in turn.reply.message.calls}
        turn.settled |= {one.call_id: one for one in retried.settled if not one.job and one.call_id in made}
        for call_id in [one for one in turn.settled if one not in turn.answers or turn.answers[one].is_error]:
            turn.started.discard(call_id)
            for said in (turn.answers, turn.asked, turn.decisions, turn.paused):
                said.pop(call_id, None)


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
