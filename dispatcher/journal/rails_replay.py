"""What guardrails would have said of what is in the journals, one job after the other: nothing is repaired."""

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.shared.definitions.graph import END
from ekiden.shared.definitions.guardrails import GuardedPlace
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.guardrails.judging import faults_of
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.messages import WITHHELD, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    Forked,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    NodeFinished,
    Record,
    ToolFinished,
    ToolStarted,
    shared_in,
)

__all__ = ["RailsReplay", "Violation", "rails_replayed"]

_QUOTED = re.compile(r"«fence [^»]*»\n(.*)\n«end of fence [^»]*»", re.DOTALL)
"""What another agent gave back, between the marks that its caller reads."""
_CONTROLS = ("complete_task", "exit", "transfer_to_")


@dataclass(frozen=True)
class Violation:
    """Something that would not have passed."""

    job: str
    rail: str
    at: str
    errors: tuple[str, ...]


@dataclass
class RailsReplay:
    """What came out.

    Attributes:
        jobs: How many journals were read, those of delegated jobs too.
        counts: How often what a guardrail looked at passed, or not: by guardrail, place, and whether it passed.
        violations: What would not have passed, the newest job's first; no more than were wanted.
        is_cut: Whether there are more jobs than were to be read.
        not_asked: Guardrails of which nothing can be asked here: by a model, or by code that workers have.
    """

    jobs: int = 0
    counts: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    is_cut: bool = False
    not_asked: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        counts = [
            {"guardrail": rail, "at": at, "passed": passed, "count": count}
            for (rail, at, passed), count in sorted(self.counts.items())
        ]
        listed = [asdict(one) for one in self.violations]
        return {
            "jobs": self.jobs,
            "is_cut": self.is_cut,
            "counts": counts,
            "violations": listed,
            "not_asked": list(self.not_asked),
        }


async def rails_replayed(
    client: Client, agent: AgentDefinition, *, since_s: float, limit: int, shown: int
) -> RailsReplay:
    """Hold the guardrails of ``agent`` against what an agent of its name was asked, said, called and got.

    Those that need a model, or code of a plug-in, judge by what else they say alone, and if that is nothing not at all.

    Args:
        client: Of the server that has the journals.
        agent: As its file is now.
        since_s: How old a job may be, in seconds.
        limit: How many jobs are read at most; one job and those below it are in memory at a time.
        shown: How many violations are kept.
    """
    mute = tuple(rail.name for rail in agent.guardrails if not rail.says_something_alone)
    found, oldest_ms = RailsReplay(not_asked=mute), (time.time() - since_s) * 1_000
    jobs = [view for view in await client.jobs(limit + 1) if view.created_ms >= oldest_ms]
    found.is_cut = len(jobs) > limit
    for view in jobs[:limit]:
        for job, entries in (await client.journals(view.id)).items():
            found.jobs += 1
            _judge(found, job, agent, entries, shown)
    return found


def _judge(found: RailsReplay, job: str, agent: AgentDefinition, entries: Sequence[Entry], shown: int) -> None:
    for place, name, subject, is_error in _subjects(entries, agent.name):
        for rail in agent.guardrails:
            if rail.name in found.not_asked or place not in rail.on or (name and not rail.is_for(name)):
                continue
            errors = tuple(faults_of(rail.for_words() if is_error else rail, subject))
            found.counts[rail.name, place, not errors] += 1
            if errors and len(found.violations) < shown:
                found.violations.append(Violation(job, rail.name, place, errors))


_Subjects = Iterator[tuple[GuardedPlace, str, Subject, bool]]


def _subjects(entries: Sequence[Entry], agent: str) -> _Subjects:
    """Yield what stands in a journal at each place: the tool or agent that it is about, the value, if it is none.

    What was over where a fork begins was the other job's.
    """
    records, shared = [entry.record for entry in entries], [one.record for one in entries[: shared_in(entries)]]
    started = [record for record in records if isinstance(record, LegStarted)]
    legs = {one.leg for one in started if one.agent == agent and one.leg}
    begun = {one.leg for one in shared if isinstance(one, LegStarted)}
    yield from _inputs(records, legs - begun)
    yield from _added(records[len(shared) :], legs)
    yield from _handoffs(records[len(shared) :], legs)
    over = {(one.leg, one.result.call_id) for one in shared if isinstance(one, ToolFinished)}
    yield from _calls([record for record in records if record.leg in legs], over)
    yield from _edges(records, records[len(shared) :], legs, agent)
    end = records[-1] if records else None
    if isinstance(end, Ended) and end.answer is not None and started and _has_answered(records, started[-1], agent):
        subject = Subject(end.answer) if end.output is None else Subject.of(end.output)
        yield "output", "", subject, end.status == "unfinished"


def _inputs(records: Sequence[Record], legs: Collection[int]) -> _Subjects:
    """Yield what agents were asked in their legs."""
    request = next((record for record in records if isinstance(record, JobRequested)), None)
    if request is None:
        return
    asked = request.prompt
    if 1 in legs:
        yield "input", "", Subject.asked(asked, request.inputs), False
    for record in records:
        if isinstance(record, Forked) and record.prompt:
            asked = f"{asked}\n\n{record.prompt}"
        elif isinstance(record, HandedOff) and record.leg + 1 in legs and _begins(record):
            yield "input", "", Subject.asked(asked, request.inputs, record.context), False


def _added(own: Sequence[Record], legs: Collection[int]) -> _Subjects:
    """Yield what the user has added to it in the fork that the job is; ``own``: not shared."""
    for record in own:
        if isinstance(record, Forked) and record.prompt and record.leg in legs:
            yield "input", "", Subject(record.prompt), False


def _begins(moved: HandedOff) -> bool:
    """Tell whether an agent is asked something by this: handed over to, or a node."""
    return moved.kind == "handoff" or (moved.kind == "edge" and bool(moved.context.graphs[-1].node))


def _handoffs(records: Sequence[Record], legs: Collection[int]) -> _Subjects:
    for record in records:
        if isinstance(record, HandedOff) and record.kind == "handoff" and record.leg in legs:
            yield "handoff", "", Subject.handed_over(record.context), False


def _edges(records: Sequence[Record], own: Sequence[Record], legs: Collection[int], agent: str) -> _Subjects:
    """Yield what has gone along edges: of the graph of ``agent``, or of nodes that it was; ``own``: not shared."""
    delegated = {one.call_id: one.agent for one in records if isinstance(one, Delegated)}
    for record in own:
        if isinstance(record, NodeFinished) and set(record.next) - {END}:
            was_node = delegated.get(record.call_id) == agent if record.call_id else record.leg in legs
            if was_node or record.graph == agent:
                yield "handoff", "", Subject.of(record.output), False


def _has_answered(records: Sequence[Record], last: LegStarted, agent: str) -> bool:
    """Tell whether a job's answer is that of ``agent``, or of its graph."""
    ended = [record for record in records if isinstance(record, NodeFinished)]
    return last.agent == agent or (bool(ended) and (ended[-1].graph, ended[-1].leg) == (agent, last.leg))


def _calls(records: Sequence[Record], over: Collection[tuple[int, str]]) -> _Subjects:
    delegated = {(one.leg, one.call_id): one.agent for one in records if isinstance(one, Delegated)}
    begun = {(one.leg, one.call_id) for one in records if isinstance(one, ToolStarted)} | delegated.keys()
    begun -= {*over}
    for record in records:
        match record:
            case ModelReplied(message=message):
                own = (call for call in message.calls if (record.leg, call.id) not in over)
                made = [call for call in own if not call.name.startswith(_CONTROLS)]
                yield from (("tool_input", call.name, Subject.of(dict(call.args)), False) for call in made)
            case ToolFinished(result=result) if (record.leg, result.call_id) in begun and not _is_withheld(result):
                whose = delegated.get((record.leg, result.call_id))
                place: GuardedPlace = "delegation" if whose else "tool_output"
                quoted = _QUOTED.fullmatch(result.content) if whose else None
                yield place, whose or result.name, Subject(quoted[1] if quoted else result.said), result.is_error


def _is_withheld(result: ToolResult) -> bool:
    """Tell whether a guardrail has put its word in the place of what there was."""
    return result.is_error and result.content.startswith(WITHHELD)
