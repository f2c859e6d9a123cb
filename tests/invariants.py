"""What holds of every journal, whatever became of the processes that wrote it and of the server that keeps it.

It has no hole and no second writer: each leg is begun by a claim, its turns follow each other, every call that a model
made is begun once by each claim and answered once, control moves once a leg, and the end is the end. Read by itself, a
journal that two writers shared shows them by what one of them cannot have done.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ekiden.shared.approvals import ANSWER_ID
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    Forked,
    Guarded,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    NodeFinished,
    Noticed,
    Nudged,
    Record,
    Refused,
    Retried,
    Routed,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolStarted,
    Unrouted,
)
from ekiden.shared.stores.views import JobView

__all__ = ["faults_of_job", "faults_of_journal"]


def faults_of_job(view: JobView, entries: Sequence[Entry]) -> list[str]:
    """Return what is wrong with a journal, and where the job's state says other things than it."""
    faults = faults_of_journal(entries, is_over=view.is_over)
    last = entries[-1].record if entries else None
    if isinstance(last, Ended) and (last.status, last.reason) != (view.status, view.reason):
        faults.append(f"the job is {view.status} ({view.reason}), its journal says {last.status} ({last.reason})")
    legs = 1 + max([-1, *(one.record.leg for one in entries if isinstance(one.record, HandedOff))])
    if legs != view.leg:
        faults.append(f"the job is at leg {view.leg}, its journal at leg {legs}")
    return faults


def faults_of_journal(entries: Sequence[Entry], *, is_over: bool) -> list[str]:
    """Return what is wrong with a journal, whose job ``is_over``; nothing, as it should be."""
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    if is_over and not reader.has_ended:
        reader.faults.append(f"{len(entries)}: the job is over, and its last record is no end")
    return reader.faults


class _Reader:
    """Reads a journal as its one rightful writer has written it."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.has_ended = self._has_forked = False
        self._seq = 0
        self._leg = 0
        self._is_claimed = False
        self._attempts = 0
        self._turns: list[ModelReplied] = []
        self._nudged: set[int] = set()
        self._open: set[str] = set()
        """Calls of the last turn without an answer."""
        self._begun: set[str] = set()
        """Those of them that the claim in force has begun."""
        self._settled: set[str] = set()
        """Those of which a person has said whether they were done, and of which nothing has come yet."""
        self._approvals = 0
        self._unanswered: set[str] = set()
        self._guarded: set[str] = set()
        """What guardrails want people to be asked about that is no call: an answer, a handoff of the file."""
        """What persons are asked and have not decided."""
        self._closing = False
        """Whether the end, or the return, is all that may come."""

    def read(self, entry: Entry) -> None:
        """Read the next entry."""
        record = entry.record
        self._seq += 1
        self._expect(entry.seq == self._seq, f"there is a hole: the entry is numbered {entry.seq}")
        self._seq = entry.seq
        self._expect(
            (entry.seq == 1) == isinstance(record, JobRequested), "a journal has one request, at its beginning"
        )
        self._expect(record.leg == self._leg, f"it is of leg {record.leg}, and leg {self._leg} runs")
        self._expect(not self.has_ended or isinstance(record, Retried), f"{record.type} comes behind the end")
        self._expect(
            not self._closing or isinstance(record, ToolFinished | Ended | HandedOff),
            f"{record.type} is written without a claim",
        )
        if type(record) in self._STEPS and not (isinstance(record, StateChanged) and record.by == "fork"):
            self._expect(self._is_claimed, f"{record.type} is written without a claim")
        if (note := self._NOTED.get(type(record))) is not None:
            note(self, record)

    def _expect(self, condition: bool, fault: str) -> None:
        if not condition:
            self.faults.append(f"{self._seq}: {fault}")

    def _claimed(self, record: LegStarted) -> None:
        self._expect(not self._unanswered, f"the leg goes on before {sorted(self._unanswered)} are decided")
        self._attempts += 1
        self._expect(record.attempt == self._attempts, f"attempt {record.attempt} comes where {self._attempts} is due")
        self._is_claimed = True
        self._begun = set()

    def _progressed(self, _: Record) -> None:
        self._attempts = 0

    def _replied(self, record: ModelReplied) -> None:
        self._progressed(record)
        due = len(self._turns) + 1
        self._expect(record.turn == due, f"turn {record.turn} comes where {due} is due")
        self._expect(not self._open, f"turn {record.turn} comes before the answers to {sorted(self._open)}")
        self._turns.append(record)
        self._open = {call.id for call in record.message.calls}
        self._begun, self._settled = set(), set()

    def _nudge(self, _: Nudged) -> None:
        self._nudged.add(len(self._turns))

    def _started(self, record: ToolStarted) -> None:
        self._expect(record.call_id in self._open, f"call {record.call_id} is begun, which is not open")
        self._expect(record.call_id not in self._begun, f"call {record.call_id} is begun twice by one claim")
        self._begun.add(record.call_id)
        self._settled.discard(record.call_id)

    def _finished(self, record: ToolFinished) -> None:
        self._closing = not self._is_claimed
        self._progressed(record)
        self._answered(record.result.call_id)
        if not record.result.is_error:
            self._settled.discard(record.result.call_id)

    def _refused(self, record: Refused) -> None:
        if record.call_id is not None:
            self._answered(record.call_id)

    def _answered(self, call_id: str) -> None:
        self._expect(call_id in self._open, f"call {call_id} is answered, which is not open")
        self._open.discard(call_id)

    def _suspended(self, _: LegSuspended) -> None:
        self._attempts = max(0, self._attempts - 1)
        self._is_claimed = False

    def _asked(self, record: ApprovalAsked) -> None:
        is_known = record.call_id in self._open or record.call_id in self._guarded
        self._expect(is_known, f"{record.call_id} is asked about, which is no open call, and no guardrail wants it")
        self._approvals += 1
        due = f"{record.id.rpartition(':')[0]}:{self._approvals}"
        self._expect(record.id == due, f"approval {record.id} comes where {due} is due")
        self._unanswered.add(record.id)
        self._begun.discard(record.call_id)

    def _judged(self, record: Guarded) -> None:
        if record.status == "asked":
            self._guarded.add(record.call_id or ANSWER_ID)

    def _decided(self, record: Decided) -> None:
        self._expect(not self._is_claimed, f"{record.id} is decided beside a running leg")
        self._expect(record.id in self._unanswered, f"{record.id} is decided, which nobody asks")
        self._unanswered.discard(record.id)

    def _moved(self, record: HandedOff) -> None:
        is_childs_first = self._seq == 2  # a delegated job begins at its agent
        is_burial = bool(record.context.returned)
        is_users = record.context.reason == "the user has put it in charge"
        self._expect(self._is_claimed or is_childs_first or is_burial or is_users, "control moves without a claim")
        if record.call_id is not None:
            self._answered(record.call_id)
        self._expect(not self._open, f"control moves before the answers to {sorted(self._open)}")
        self._leg += 1
        self._begin_anew()
        self._settled = set()
        self._turns, self._nudged = [], set()

    def _retried(self, record: Retried) -> None:
        self._expect(self.has_ended or self._has_forked, "a job is retried that had not ended")
        self.has_ended = False
        self._begin_anew()
        counted = [turn for n, turn in enumerate(self._turns, 1) if turn.message.calls or n in self._nudged]
        self._turns = counted  # a reply that was no answer is void
        made = {call.id for call in counted[-1].message.calls} if counted else set[str]()
        self._settled |= {one.call_id for one in record.settled if not one.job}
        self._expect(self._settled <= made, f"a person says of {sorted(self._settled - made)} what nobody asked")
        self._open = set(self._settled)

    def _forked(self, _: Forked) -> None:
        self._is_claimed = self._closing = False
        self._attempts, self._begun = 0, set()
        self._has_forked = True  # a branch of a graph that goes on behind one that had not ended is retried with it
        self._nudged.add(len(self._turns))  # its agent may go on behind an answer

    def _ended(self, _: Ended) -> None:
        self._expect(not self._open, f"the job ends before the answers to {sorted(self._open)}")
        self.has_ended = True

    def _begin_anew(self) -> None:
        self._is_claimed = self._closing = False
        self._attempts = 0
        self._open, self._begun, self._unanswered = set(), set(), set()

    _STEPS = (
        *(ModelReplied, ToolStarted, Delegated, Refused, Nudged, StateChanged),
        *(Summarised, Routed, Unrouted, Noticed, LegSuspended, ApprovalAsked),
    )
    """What only who holds the leg writes."""
    _NOTED: ClassVar[dict[type[Any], Callable[["_Reader", Any], None]]] = {
        LegStarted: _claimed,
        Routed: _progressed,
        Unrouted: _progressed,
        NodeFinished: _progressed,
        ModelReplied: _replied,
        Nudged: _nudge,
        ToolStarted: _started,
        ToolFinished: _finished,
        Refused: _refused,
        LegSuspended: _suspended,
        ApprovalAsked: _asked,
        Guarded: _judged,
        Decided: _decided,
        HandedOff: _moved,
        Retried: _retried,
        Forked: _forked,
        Ended: _ended,
    }
