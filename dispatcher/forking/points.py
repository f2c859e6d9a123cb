"""Where a job can be forked: behind which steps of a journal another job can go on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ekiden.shared.conversation import Conversation
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.records import (
    GRAPH,
    ApprovalAsked,
    Delegated,
    Entry,
    HandedOff,
    JobRequested,
    LoopDetected,
    ModelReplied,
    NodeFinished,
    Nudged,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)

__all__ = ["ForkPoint", "point_at", "points_of"]

_NEAREST = 4
"""How many points an error names."""


@dataclass(frozen=True)
class ForkPoint:
    """A step that a fork can begin behind."""

    seq: int
    """Its position in the journal."""
    at_ms: int
    leg: int
    agent: str
    """Who goes on."""
    replies: int
    """How many answers of models a fork has from there, which it does not pay for."""
    what: str
    """What comes next, for people."""
    waiting: tuple[str, ...] = ()
    """Agents that control comes back to."""


def points_of(entries: Iterable[Entry]) -> list[ForkPoint]:
    """Return the points of a journal: nothing is under way there that a fork would have to do twice, or could not.

    So none is between the beginning of a tool, of a delegated job or of a question to a person, and its result: an
    approval is for one job alone.
    """
    reader = _Reader()
    return [point for entry in entries if (point := reader.read(entry)) is not None]


def point_at(points: Sequence[ForkPoint], seq: int, job: str) -> ForkPoint:
    """Return the point at ``seq``. Raises ``InvalidRequest``, which names the nearest ones."""
    found = next((point for point in points if point.seq == seq), None)
    if found is None:
        nearest = sorted(sorted(points, key=lambda one: abs(one.seq - seq))[:_NEAREST], key=lambda one: one.seq)
        near = "; ".join(f"{one.seq} ({one.what})" for one in nearest)
        raise InvalidRequest(
            f"job {job!r} cannot be forked at {seq}: the nearest points are {near}; `ekiden job fork {job}` lists all"
        )
    return found


class _Reader:
    """Reads a journal, and knows what is under way."""

    def __init__(self) -> None:
        self._leg = 0
        self._agent = "router"
        self._waiting: tuple[str, ...] = ()
        self._replies = 0
        self._conversation = Conversation()
        self._under_way: set[str] = set()
        """Calls that were begun, or that a person is asked about, and that have no result."""

    def read(self, entry: Entry) -> ForkPoint | None:
        """Take the next entry; return the point behind it, if it is one."""
        record = entry.record
        self._note(record)
        if self._under_way or (what := self._next(record)) is None:
            return None
        return ForkPoint(entry.seq, entry.at_ms, self._leg, self._agent, self._replies, what, self._waiting)

    def _note(self, record: Record) -> None:
        match record:
            case HandedOff(context=context):
                self._leg, self._agent = record.leg + 1, context.to_agent
                self._waiting = tuple(frame.agent for frame in context.calls)
                self._conversation, self._under_way = Conversation(), set()
                return
            case ToolStarted(call_id=call_id) | Delegated(call_id=call_id) | ApprovalAsked(call_id=call_id):
                self._under_way.add(call_id)
            case ToolFinished(result=result):
                self._under_way.discard(result.call_id)
            case NodeFinished(call_id=call_id):
                self._under_way.discard(call_id)
            case ModelReplied(model=model):
                self._replies += model != GRAPH
        self._conversation.note(record)

    def _next(self, record: Record) -> str | None:
        """Say what comes behind a record; None: nothing begins there."""
        turns, open_calls = len(self._conversation.turns), self._conversation.open_calls
        match record:
            case JobRequested():
                return "the routing"
            case HandedOff():
                return f"{self._agent} begins"
            case ModelReplied() if open_calls:
                names = ", ".join(dict.fromkeys(call.name for call in open_calls))
                return f"{self._agent} makes the calls of turn {turns}: {names}"
            case ModelReplied():
                return f"{self._agent} has answered in turn {turns}"
            case ToolFinished() | Refused() | Nudged() | LoopDetected() if not open_calls:
                return f"{self._agent} begins turn {turns + 1}"
            case _:
                return None
