"""What is written with a leg's outcome: its records, the session's messages, child jobs, all without secrets."""

from dataclasses import replace

from ekiden.shared.errors import StopFlag
from ekiden.shared.ids import parent_of
from ekiden.shared.messages import Message, SessionPart, TextPart
from ekiden.shared.outcomes import DEADLINE_PASSED, Answer, Cancelled, ChildJob, Failed, Outcome, Suspended, Unfinished
from ekiden.shared.records import Ended, HandedOff, JobRequested, LastTurn, Record, Summarised
from ekiden.shared.redaction import redact
from ekiden.shared.relay.leg import Leg, closing_records
from ekiden.shared.relay.message import outbox, queue_for
from ekiden.shared.stores.sessions import MAX_MESSAGES
from ekiden.shared.stores.submissions import ChildSubmission
from ekiden.shared.tracing.trace_ids import child_traceparent

__all__ = ["End", "end_of", "last_turn_of", "messages_in", "stopped_by", "submission_of", "without_secrets"]

End = Answer | Unfinished | Failed | Cancelled
"""The outcomes that end a job."""


def end_of(leg: int, outcome: End) -> Ended:
    """Return the record of the job's end."""
    match outcome:
        case Answer(text, reason, output):
            is_late = outcome.recovered
            return Ended(leg=leg, status="done", reason=reason, answer=text, output=output, recovered=is_late)
        case Unfinished(text):
            return Ended(leg=leg, status="unfinished", reason="GOAL_NOT_REACHED", answer=text)
        case Failed(reason, message):
            return Ended(leg=leg, status="failed", reason=reason, error=message)
        case Cancelled(message):
            return Ended(leg=leg, status="cancelled", reason="ABORTED", error=message)


def stopped_by(flag: StopFlag) -> Cancelled | Failed:
    """Return the end of a job that somebody, or its deadline, stopped."""
    if flag == "deadline":
        return Failed("TIMEOUT", DEADLINE_PASSED)
    return Cancelled("the job that delegated it needs it no more" if flag == "parent" else "cancelled")


def last_turn_of(leg: Leg, end: Failed) -> list[Record]:
    """Return what grants a leg, which would end so, its last turn: first, no call is without a result."""
    closing = closing_records(leg.entries, leg.number, f"Not finished: {end.reason}.")
    granted = LastTurn(leg=leg.number, reason=end.reason, error=end.message, text=end.last_turn, used_ms=leg.used_ms)
    return [*closing, granted]


def submission_of(leg: Leg, child: ChildJob) -> ChildSubmission:
    """Return a child job as the store creates it: already routed to its agent, with the journal of a routed job."""
    above = leg.context.metadata.traceparent
    trace = child_traceparent(above, child.job)
    request = JobRequested(
        prompt=child.objective,
        agent=child.agent,
        cwd=leg.cwd or None,
        traceparent=trace or None,
        parent_traceparent=above or None,
        inputs=dict(child.inputs),
        bounds=child.bounds,
        max_depth=child.max_depth,
        untrusted=child.untrusted,
        approve=leg.request.approve,
        when_asked=leg.request.when_asked,
        by=leg.request.by,
        is_claimed=leg.request.is_claimed,
    )
    context = child.context.with_trace(trace)
    child = replace(child, context=context)
    records = child.behind or (HandedOff(context=context),)
    number = records[-1].leg if child.behind else 1
    box = outbox(child.job, number, queue_for(context.to_agent), context)
    return ChildSubmission(child, box, (request, *records), number)


def without_secrets(outcome: Outcome) -> Outcome:
    """Mask secrets in the reason of a failure or a pause.

    Other outcomes are left as they are: the next leg goes on from their texts.
    """
    match outcome:
        case Failed():
            return replace(outcome, message=redact(outcome.message))
        case Suspended():
            return replace(outcome, detail=redact(outcome.detail))
    return outcome


def messages_in(leg: Leg, end: Ended) -> list[str]:
    """Return what goes into the session: the user's request and, if there is one, the answer. A child says nothing."""
    if parent_of(leg.job) is not None:
        return []
    said = [Message(role="user", parts=(TextPart(text=leg.asked),), snapshots=_snapshots(leg))]
    if end.answer is not None:
        said.append(Message(role="model", parts=(TextPart(text=end.answer),), agent=_speaker(leg)))
    return [message.model_dump_json(exclude_none=True) for message in said]


def _speaker(leg: Leg) -> str:
    """Return whose answer it is: of a graph's node that of the outermost graph, which the next message can go to."""
    graphs = leg.context.graphs
    return graphs[0].graph if graphs else leg.agent


def _snapshots(leg: Leg) -> tuple[SessionPart, ...]:
    """Return what this job has made stand for the session before it, and what would soon be too long ago to be read."""
    records = (entry.record for entry in leg.entries)
    made = [part for one in records if isinstance(one, Summarised) and (part := one.part) is not None]
    known = [part for one in leg.earlier for part in one.message.snapshots]
    if not known:
        return tuple(made)
    recent = [part for one in leg.earlier[-MAX_MESSAGES // 2 :] for part in one.message.snapshots]
    newest = {(part.agent, part.is_common): part for part in (*known, *made)}
    return tuple(part for part in newest.values() if part not in recent)
