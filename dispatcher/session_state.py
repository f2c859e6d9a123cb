"""What the variables of a session were, by the journals of its jobs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ekiden.shared.records import Ended, Entry, JobRequested, Record, StateChanged

__all__ = ["changes_of", "counted", "state_at", "state_before"]


def changes_of(record: Record) -> Mapping[str, Any]:
    """Return the variables that a step has set: a request's, or those of tools and agents; None takes one away."""
    match record:
        case JobRequested(state=changes) | StateChanged(changes=changes):
            return changes
        case _:
            return {}


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """Return the steps of an earlier job, without those of a leg that was cancelled: what it set never counted."""
    last = entries[-1].record if entries else None
    is_cancelled = isinstance(last, Ended) and last.status == "cancelled"
    return [entry for entry in entries if not (is_cancelled and last and entry.record.leg == last.leg)]


def state_at(now: Mapping[str, Any], steps: Iterable[tuple[Record, bool]]) -> dict[str, Any]:
    """Return a session's variables as they were before some of the steps that have set them.

    Args:
        now: As they are.
        steps: Those of all the session's jobs in the order of time, and whether each of them counts.
    """
    before: dict[str, Any] = {}
    touched: set[str] = set()
    for record, is_counted in steps:
        changes = changes_of(record)
        touched |= changes.keys()
        before |= changes if is_counted else {}
    found = {**{name: value for name, value in now.items() if name not in touched}, **before}
    return {name: value for name, value in found.items() if value is not None}


def state_before(journals: Iterable[Sequence[Entry]]) -> dict[str, Any]:
    """Return the variables behind these jobs, the oldest first, all of them over."""
    return state_at({}, [(entry.record, True) for journal in journals for entry in counted(journal)])
