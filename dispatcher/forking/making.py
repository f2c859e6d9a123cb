"""What a fork is made of: the other job's steps as they stand in its own journal, and behind them its own."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ekiden.dispatcher.forking.points import ForkPoint
from ekiden.shared.approvals import WhenAsked
from ekiden.shared.handoff import HandoffContext, History, first_context
from ekiden.shared.records import BY_FORK, Decided, Entry, Forked, HandedOff, JobRequested, Record, StateChanged
from ekiden.shared.risk import Risk

__all__ = ["Changes", "Origin", "Steps", "digest_of", "steps_of"]

_PUT_IN_CHARGE = "the user has put it in charge"


@dataclass(frozen=True)
class Changes:
    """What is to be otherwise in a fork than in the job that it comes from."""

    prompt: str = ""
    """What the user says: instead of the request where that has not been routed, and else besides."""
    agent: str = ""
    """Who goes on."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """Session variables; None takes one away."""
    catalog: str = ""
    """The digest of the agents that it is pinned to; empty: those of the other job."""
    approve: tuple[Risk, ...] = ()
    """Risks of which whoever forks has approved every call in advance."""
    when_asked: WhenAsked | None = None
    """What becomes of other calls that are asked about; None: the same as in the other job."""


@dataclass(frozen=True)
class Steps:
    """The journal of a fork as it begins, and the leg that goes on."""

    records: list[Record]
    leg: int
    context: HandoffContext


@dataclass(frozen=True)
class Origin:
    """The job that a fork comes from, and who forks it."""

    job: str
    entries: Sequence[Entry]
    cwd: str
    commit: str
    by: str
    is_claimed: bool


def steps_of(origin: Origin, point: ForkPoint, changes: Changes, job: str, request_id: str, trace: str) -> Steps:
    """Return the steps that the fork ``job`` begins with: as many as ``point`` says, and what makes it another job.

    Args:
        origin: Where they come from.
        point: Up to where.
        changes: What is otherwise.
        job: The fork's id.
        request_id: Of the request to fork.
        trace: Its own trace (W3C).
    """
    shared = [entry.record for entry in origin.entries[: point.seq]]
    request = shared[0]
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    is_unrouted = point.leg == 0
    own = {
        "request_id": request_id,
        "traceparent": trace,
        "parent_traceparent": None,
        "by": origin.by,
        "is_claimed": origin.is_claimed,
        "approve": changes.approve,
        "asks": False,
        **({"when_asked": changes.when_asked} if changes.when_asked else {}),
        **({"prompt": changes.prompt} if is_unrouted and changes.prompt else {}),
        **({"agent": changes.agent} if is_unrouted and changes.agent else {}),
    }
    records: list[Record] = [request.model_copy(update=own), *(_as_shared(one, job, trace) for one in shared[1:])]
    context = next((one.context for one in reversed(records) if isinstance(one, HandedOff)), first_context(job, trace))
    leg = point.leg
    if changes.agent not in ("", point.agent) and not is_unrouted:
        moved, context = _put_in_charge(origin.entries[: point.seq], leg, context, changes.agent)
        records, leg = [*records, *moved], leg + 1
    records.append(
        Forked(
            leg=leg,
            job=origin.job,
            seq=point.seq,
            replies=point.replies,
            prompt="" if is_unrouted else changes.prompt,
            agent=changes.agent,
            catalog=changes.catalog,
            commit=origin.commit,
            traceparent=request.traceparent or "",
        )
    )
    if changes.state:
        records.append(StateChanged(leg=leg, changes=dict(changes.state), by=BY_FORK))
    return Steps(records, leg, context)


def _as_shared(record: Record, job: str, trace: str) -> Record:
    """Return a step of the other job as it stands in the fork's journal.

    Its moves lead on in the fork's own trace, and what a person has approved for all of that job counts in it alone.
    """
    if isinstance(record, HandedOff):
        metadata = record.context.metadata.model_copy(update={"traceparent": trace, "correlation_id": job})
        return record.model_copy(update={"context": record.context.model_copy(update={"metadata": metadata})})
    if isinstance(record, Decided) and record.always_for_job:
        return record.model_copy(update={"always_for_job": False})
    return record


def _put_in_charge(
    entries: Sequence[Entry], leg: int, context: HandoffContext, agent: str
) -> tuple[list[Record], HandoffContext]:
    """Return the steps by which control moves to the agent that the user wants, and what it is moved with."""
    from ekiden.shared.relay.leg import closing_records  # what runs legs: who submits does without

    closing = closing_records(list(entries), leg, f"Not finished: agent {agent!r} was put in charge.")
    history = History(upto=len(entries) + len(closing))
    context = context.advance(agent, _PUT_IN_CHARGE, history=history)
    return [*closing, HandedOff(leg=leg, context=context)], context


def digest_of(origin: str, seq: int, changes: Changes, deadline_s: float) -> str:
    """Return the SHA-256 of what is asked for, which is the same each time that a fork is asked for."""
    asked = [origin, seq, deadline_s, asdict(changes)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
