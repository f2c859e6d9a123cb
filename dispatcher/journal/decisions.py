"""What a job decided, step by step, without what is new in each run: two runs of a job are compared by it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from ekiden.shared.definitions.model import canonical_json
from ekiden.shared.hooks.events import AfterTool
from ekiden.shared.outcomes import DEADLINE_PASSED
from ekiden.shared.records import (
    Decided,
    Ended,
    Entry,
    FellBack,
    Guarded,
    GuardJudged,
    HandedOff,
    Hooked,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Noticed,
    Record,
    Retried,
    Routed,
    Served,
    StateChanged,
    ToolFinished,
    ToolStarted,
    Unrouted,
)

__all__ = ["DIGESTS", "Decision", "decisions_of"]

DIGESTS = ("definition", "model", "messages", "tools")
"""What of a prompt is compared, one by one."""
_NO_DECISIONS = (JobRequested, LegStarted, LegSuspended, Noticed, Retried, Routed, Unrouted, FellBack, Served)
"""What asks for a job, or tells how it went. Who gets it first is said by the move of control to that agent, what was
offered by the digests of prompts."""
_OF_THE_RUN = {"duration_ms", "cost_usd", "used_ms", "prompt", "asked", "fingerprint", "preview"}
_OF_PEOPLE = {"by", "is_claimed", "origin", "status"}
"""Fields that each run has anew, that prices change, or that the digests of prompts tell of."""


@dataclass(frozen=True)
class Decision:
    """One step of a job.

    Attributes:
        seq: The place of its record in the journal.
        at_ms: When that was.
        leg: Whose it is.
        agent: Whose that leg is.
        kind: The record's type.
        about: For people: the tool, the target, the guardrail, the status.
        told: All that it decides, as canonical JSON.
        digests: Of what a model was asked, by name.
        prompt: Of the system prompt, what stands behind the text of the agent's file.
    """

    seq: int
    at_ms: int
    leg: int
    agent: str
    kind: str
    about: str
    told: str
    digests: Mapping[str, str] = field(default_factory=dict)
    prompt: str = ""


def decisions_of(
    journals: Mapping[str, Sequence[Entry]],
    unserved: Collection[tuple[str, str]] = (),
    played: Mapping[str, Sequence[Entry]] = MappingProxyType({}),
) -> dict[str, list[Decision]]:
    """Return what a job and those below it decided, by job, each in the order of its journal.

    Results of calls that ran side by side stand in the order of the calls.

    Args:
        journals: Of the jobs.
        unserved: Jobs and agents of which is not known which tools they were offered: these have no digest.
        played: The journals that they were played from: what was said then may quote the ids of their handoffs.
    """
    drawn = _drawn_in(played) | _drawn_in(journals)
    without = {job: {agent for one, agent in unserved if one == job} for job in journals}
    return {job: list(_decisions(entries, drawn, without[job])) for job, entries in journals.items()}


def _drawn_in(journals: Mapping[str, Sequence[Entry]]) -> dict[str, str]:
    """Return the ids that are drawn anew in each run, each with what stands for it."""
    moves = (one.record for entries in journals.values() for one in entries if isinstance(one.record, HandedOff))
    return {move.context.metadata.handoff_id: f"«{number}»" for number, move in enumerate(moves)}


def _decisions(entries: Sequence[Entry], drawn: Mapping[str, str], unserved: Collection[str]) -> Iterator[Decision]:
    agents = {one.record.leg: one.record.agent for one in entries if isinstance(one.record, LegStarted)}
    prompts: dict[int, str] = {}
    for entry in _in_call_order([one for one in _that_stand(entries) if not isinstance(one.record, _NO_DECISIONS)]):
        record, digests = entry.record, dict[str, str]()
        if isinstance(record, ModelReplied):
            if record.prompt is not None:  # it is recorded where it changes
                prompts[record.leg] = _as_always(record.prompt.text, drawn)
            if record.fingerprint is not None:
                names = [name for name in DIGESTS if name != "tools" or agents.get(record.leg) not in unserved]
                digests = {name: getattr(record.fingerprint, name) for name in names}
        yield Decision(
            seq=entry.seq,
            at_ms=entry.at_ms,
            leg=record.leg,
            agent=agents.get(record.leg, ""),
            kind=record.type,
            about=_about(record),
            told=_as_always(canonical_json(_told(record)), drawn),
            digests=digests,
            prompt=prompts.get(record.leg, "") if isinstance(record, ModelReplied) else "",
        )


def _as_always(text: str, drawn: Mapping[str, str]) -> str:
    for one, name in drawn.items():
        text = text.replace(one, name)
    return text


def _that_stand(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out what somebody did not let stand where the job was retried: its end, and calls that nobody knew of."""
    stand: list[Entry] = []
    for one in entries:
        if isinstance(one.record, Retried):
            stand = [known for known in stand if not _is_void(known.record, one.record)]
        stand.append(one)
    return stand


def _is_void(record: Record, retried: Retried) -> bool:
    """Tell whether a record counts no more once its job is retried, with what people say of calls of that leg."""
    said = {one.call_id: one.is_done for one in retried.settled if not one.job and record.leg == retried.leg}
    match record:
        case ToolFinished(result=result):
            return result.is_unknown and result.call_id in said
        case ToolStarted(call_id=call_id):
            return said.get(call_id) is False
        case _:
            return isinstance(record, Ended)


def _in_call_order(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield entries, those that go with the results of a turn's calls in the order of these calls."""
    order: dict[str, int] = {}
    for is_result, group in groupby(entries, lambda one: _goes_with_result(one.record)):
        if not is_result:
            for entry in group:
                if isinstance(entry.record, ModelReplied):
                    order = {call.id: number for number, call in enumerate(entry.record.message.calls)}
                yield entry
            continue
        yield from _sorted(list(group), order)


def _sorted(entries: Sequence[Entry], order: Mapping[str, int]) -> list[Entry]:
    """Return results, each with what is about it in front, in the order of their calls."""
    placed: list[tuple[int, Entry]] = []
    written: list[Entry] = []  # variables, by the tool whose result comes next
    for entry in entries:
        if isinstance(entry.record, StateChanged):
            written.append(entry)
            continue
        call = entry.record.result.call_id if isinstance(entry.record, ToolFinished) else _call_of(entry.record)
        place = order.get(call, len(order))
        placed += [(place, one) for one in (*written, entry)]
        written = []
    placed.sort(key=itemgetter(0))
    return [entry for _, entry in placed] + written


def _call_of(record: Record) -> str:
    return str(getattr(record, "call_id", ""))


def _goes_with_result(record: Record) -> bool:
    """Tell whether a record is a result, or stands in front of the result that it is about."""
    match record:
        case StateChanged() | ToolFinished():
            return True
        case Guarded(at=at) | GuardJudged(at=at):
            return at in ("tool_output", "delegation") and bool(record.call_id)
        case Hooked(at=at):
            return at == AfterTool.name
        case _:
            return False


def _told(record: Record) -> dict[str, Any]:
    """Return what a record decides. Who answers, and that nobody did in time, is no decision of the job's."""
    if isinstance(record, Decided):
        said = record.model_dump(mode="json", exclude=_OF_PEOPLE, exclude_none=True)
        return {**said, "approved": record.status in ("approved", "answered")}
    if not isinstance(record, HandedOff):
        return record.model_dump(mode="json", exclude=_OF_THE_RUN, exclude_none=True)
    if record.kind == "route":
        return {"to": record.context.to_agent}
    context = record.context
    said = context.model_dump(mode="json", exclude={"v", "history", "metadata", "calls"}, exclude_none=True)
    chain = list(context.metadata.handoff_chain)
    return {**said, "kind": record.kind, "call": record.call_id, "history": context.history.mode, "chain": chain}


def _about(record: Record) -> str:
    match record:
        case HandedOff(context=context):
            return f"{context.from_agent} → {context.to_agent}"
        case ModelReplied(turn=turn):
            return f"turn {turn}"
        case ToolFinished(result=result):
            return result.name
        case Ended(status=status, error=error):
            return "deadline" if error == DEADLINE_PASSED else status
        case _:
            named = (getattr(record, name, "") for name in ("name", "tool", "rail", "agent"))
            return str(next(filter(None, named), ""))
