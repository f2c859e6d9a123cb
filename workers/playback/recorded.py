"""What one job recorded, by where it was said: a leg and its turn, a call, the n-th request beside the turns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ekiden.shared.llm.models import SCRIPTED
from ekiden.shared.messages import ToolResult
from ekiden.shared.recordings import Recording, number_of, read_recording
from ekiden.shared.records import (
    GRAPH,
    ApprovalAsked,
    Ended,
    Forked,
    Guarded,
    GuardJudged,
    HandedOff,
    Hooked,
    JobRequested,
    LoopJudged,
    ModelReplied,
    Recalled,
    Record,
    Repairing,
    Served,
    ServedTools,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolPaused,
    ToolStarted,
)

__all__ = ["Finished", "RecordedJob", "Recordings"]

Beside = LoopJudged | Summarised | Repairing | GuardJudged
"""What models are asked for beside an agent's turns."""


@dataclass(frozen=True)
class Finished:
    """A call's result, and the session variables that its tool wrote."""

    record: ToolFinished
    changes: Mapping[str, Any]

    @property
    def result(self) -> ToolResult:
        """The tool's own words: what others said around them is said anew."""
        return self.record.result.model_copy(update={"content": self.record.result.said, "own": None})


@dataclass
class RecordedJob:
    """The records of one job; what is asked beside the turns is taken in its order, each once."""

    replies: dict[tuple[int, int], ModelReplied] = field(default_factory=dict)
    """By leg and turn."""
    finished: dict[tuple[int, str], Finished] = field(default_factory=dict)
    """By leg and call."""
    started: set[tuple[int, str]] = field(default_factory=set)
    """Leg and call of what has run."""
    questions: dict[tuple[int, str], list[tuple[ToolPaused, ApprovalAsked | None]]] = field(default_factory=dict)
    """What calls asked persons before they finished."""
    recalled: dict[int, Recalled] = field(default_factory=dict)
    """By leg."""
    served: list[tuple[int, int, Served]] = field(default_factory=list)
    """What MCP servers offered, with the leg and how many turns that had had by then."""
    hooked: dict[tuple[str, int, int, str], Hooked] = field(default_factory=dict)
    """What hooks said, by event, leg, turn and call."""
    beside: list[Beside] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    """The ids of its handoffs, in their order."""
    end: Ended | None = None

    @classmethod
    def of(cls, records: Iterable[Record]) -> "RecordedJob":
        """Read the records of a job, in their order."""
        job, changes = cls(), dict[str, Any]()
        for record in records:
            if isinstance(record, ToolFinished):
                job.finished[record.leg, record.result.call_id] = Finished(record, changes)
            if isinstance(record, StateChanged):
                changes = dict(record.changes)
            elif not isinstance(record, Hooked | Guarded | GuardJudged):  # which stand between them and their result
                changes = {}
            job._note(record)
        return job

    def _note(self, record: Record) -> None:
        match record:
            case HandedOff(context=context):
                self.drawn.append(context.metadata.handoff_id)
            case ModelReplied():
                self.replies[record.leg, record.turn] = record
            case ToolStarted() | ToolPaused() | ApprovalAsked():
                self._note_call(record)
            case Recalled():
                self.recalled[record.leg] = record
            case Served():
                turns = sum(leg == record.leg for leg, _ in self.replies)
                self.served.append((record.leg, turns, record))
            case Hooked():
                self.hooked[record.at, record.leg, record.turn, record.call_id] = record
            case LoopJudged() | Summarised() | Repairing() | GuardJudged():
                self.beside.append(record)
            case Forked():
                self.beside.clear()  # what was asked before it is in the journal that the fork is given
            case Ended():
                self.end = record

    def _note_call(self, record: ToolStarted | ToolPaused | ApprovalAsked) -> None:
        place = record.leg, record.call_id
        if isinstance(record, ToolStarted):
            self.started.add(place)
        elif isinstance(record, ToolPaused):
            self.questions.setdefault(place, []).append((record, None))
        elif asked := self.questions.get(place):
            asked[-1] = asked[-1][0], record

    def next_beside(self, kind: type[Beside], purpose: str = "") -> Beside | None:
        """Return the next record of that kind (and purpose, of summaries), and pass it over from now on."""
        for record in self.beside:
            if isinstance(record, kind) and (not isinstance(record, Summarised) or record.purpose == purpose):
                self.beside.remove(record)
                return record
        return None

    def served_to(self, agent: str, leg: int, turns: int) -> ServedTools | None:
        """Return what MCP servers offered an agent behind so many turns of a leg; None: that is not known."""
        found = (
            one for number, had, one in reversed(self.served) if one.agent == agent and (number, had) <= (leg, turns)
        )
        return served.tools if (served := next(found, None)) is not None else None

    def stopped_at(self, event: str, leg: int, turn: int, call_id: str = "") -> str | None:
        """Return why a hook ended the job at an event, which it has no record of but that end; None: none did."""
        end = self.end
        if end is None or end.reason != "DENIED" or end.leg != leg or f" at {event}: " not in (end.error or ""):
            return None
        went_on = (leg, turn + 1) in self.replies or (leg, call_id) in self.started
        is_of_turn = call_id or (leg, turn) not in self.replies
        return end.error if is_of_turn and not went_on else None

    def model_of(self, leg: int) -> str:
        """Return the model that a leg asked; empty: it asked none."""
        named = (reply.asked or reply.model for (number, _), reply in self.replies.items() if number == leg)
        return next(named, "")


class Recordings:
    """The recordings of a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, RecordedJob] = {}
        self._sessions: dict[str, Recording] = {}

    def of(self, job: str) -> RecordedJob:
        """Return what ``job`` recorded: nothing where it was not there. Raises ``ConfigurationError``."""
        if job not in self._read:
            session = job.partition(".")[0]
            if session not in self._sessions:
                self._sessions[session] = read_recording(self._folder, job)
            self._read[job] = RecordedJob.of(self._sessions[session].get(number_of(job), ()))
        return self._read[job]

    def are_scripted(self) -> bool:
        """Tell whether no model has said anything in any of them: a stand-in has played."""
        by = {record.model for record in self._all() if isinstance(record, ModelReplied)}
        return by <= {SCRIPTED.name, GRAPH}  # a graph makes its calls itself

    def know_people(self) -> bool:
        """Tell whether the server that the jobs ran on knew who asked for them, and so who answers."""
        requests = (record for record in self._all() if isinstance(record, JobRequested))
        return any(request.by and not request.is_claimed for request in requests)

    def _all(self) -> Iterator[Record]:
        for path in self._folder.glob("*.json"):
            for records in read_recording(self._folder, path.stem).values():
                yield from records
