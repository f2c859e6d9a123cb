"""Whether a node of a graph, or an item of its list, is tried again where it has failed, and from where on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.outcomes import ChildJob
from ekiden.shared.records import (
    Ended,
    Forked,
    HandedOff,
    JobRequested,
    ModelReplied,
    Retried,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.leg import Leg, closing_records, entries_behind

__all__ = ["NextTry", "behind", "next_try"]


@dataclass(frozen=True)
class NextTry:
    """Another try of what has failed."""

    key: str = ""
    """The idempotency key of the call that it repeats, where nobody knows what that did; empty: one of its own."""


async def next_try(leg: Leg, node: Node, child: str, key: str = "") -> NextTry | None:
    """Return the try that may follow on one of a node which its child job did in vain, under ``key``; None: none may.

    A call that was refused before it ran, as for its arguments, would be so again. A tool of which nobody knows what it
    did, since its worker was lost or its time was over, runs again only if it may under the same key.
    """
    if not node.tool:
        return NextTry()
    records = await leg.recorded_by(child)
    started = [record for record in records if isinstance(record, ToolStarted)]
    results = [record.result for record in records if isinstance(record, ToolFinished)]
    if not started:
        return None if results else NextTry()
    if results and not results[-1].is_unknown:
        return NextTry()
    last = started[-1]
    return NextTry(key or f"{child}:{last.leg}:{last.call_id}") if last.may_repeat else None


async def behind(leg: Leg, child: ChildJob, before: str) -> ChildJob:
    """Return a child job that does, in a job that was retried, what ``before`` did not end: behind all it had done.

    As it is, where ``before`` is empty, or was given something else.
    """
    if not before:
        return child
    records = await leg.recorded_by(before)
    request = records[0]
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    if request.agent != child.agent or _as_json(request.inputs or {}) != _as_json(child.inputs):
        return child
    [*_, last] = [record for record in records if isinstance(record, HandedOff)]
    done = records[:-1] if isinstance(records[-1], Ended) else records
    leg_there = last.leg + 1
    replies = sum(isinstance(record, ModelReplied) for record in done)
    own = [  # of one that was told to stop, and whose worker has not noticed yet, calls may be open
        *closing_records(entries_behind(0, done), leg_there, "Not finished: the job was retried."),
        Forked(leg=leg_there, job=before, seq=len(done), replies=replies),
        Retried(leg=leg_there),
    ]
    return replace(child, context=last.context, behind=(*done[1:], *own))


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
