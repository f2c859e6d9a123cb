"""What one job recorded, by where it was said: a leg and its turn, a call, the n-th request beside the turns."""

from collections.abc import Iterable, Mapping
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
    GuardJudged,
    LoopJudged,
    ModelReplied,
    Recalled,
    Record,
    Repairing,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolPaused,
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
    questions: dict[tuple[int, str], list[tuple[ToolPaused, ApprovalAsked | None]]] = field(default_factory=dict)
    """What calls asked persons before they finished."""
    recalled: dict[int, Recalled] = field(default_factory=dict)
    """By leg."""
    beside: list[Beside] = field(default_factory=list)
    end: Ended | None = None

    @classmethod
    def of(cls, records: Iterable[Record]) -> "RecordedJob":
        """Read the records of a job, in their order."""
        job, changes = cls(), dict[str, Any]()
        for record in records:
            match record:
                case ModelReplied():
                    job.replies[record.leg, record.turn] = record
                case StateChanged():
                    changes = dict(record.changes)
                    continue
                case ToolFinished():
                    job.finished[record.leg, record.result.call_id] = Finished(record, changes)
                case ToolPaused():
                    job.questions.setdefault((record.leg, record.call_id), []).append((record, None))
                case ApprovalAsked() if asked := job.questions.get((record.leg, record.call_id)):
                    asked[-1] = asked[-1][0], record
                case Recalled():
                    job.recalled[record.leg] = record
                case LoopJudged() | Summarised() | Repairing() | GuardJudged():
                    job.beside.append(record)
                case Ended():
                    job.end = record
                case _:
                    pass
            changes = {}
        return job

    def next_beside(self, kind: type[Beside], purpose: str = "") -> Beside | None:
        """Return the next record of that kind (and purpose, of summaries), and pass it over from now on."""
        for record in self.beside:
            if isinstance(record, kind) and (not isinstance(record, Summarised) or record.purpose == purpose):
                self.beside.remove(record)
                return record
        return None

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
        sessions = [read_recording(self._folder, path.stem) for path in self._folder.glob("*.json")]
        records = (record for session in sessions for job in session.values() for record in job)
        by = {record.model for record in records if isinstance(record, ModelReplied)}
        return by <= {SCRIPTED.name, GRAPH}  # a graph makes its calls itself
