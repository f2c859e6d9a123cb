"""Whether a node of a graph, or an item of its list, is tried again where it has failed, and from where on."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.ids import root_of
from ekiden.shared.outcomes import ChildJob, Suspended
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
from ekiden.shared.relay.leg import Leg, backoff_s
from ekiden.shared.stores.views import JobView

__all__ = ["NextTry", "Recorded", "behind", "next_try", "since_retry", "still_stopping", "why_not_again"]


@dataclass(frozen=True)
class NextTry:
    """Another try of what has failed."""

    key: str = ""
    """The idempotency key of the call that it repeats, where nobody knows what that did; empty: one of its own."""


@dataclass(frozen=True)
class Recorded:
    """A result that counts although the job of its call was ended before it could say so."""

    output: Any
    untrusted: str = ""
    """See ``ToolFinished``."""


@dataclass(frozen=True)
class _Call:
    """What a child job that makes one call has recorded of it."""

    started: ToolStarted | None
    finished: ToolFinished | None
    key: str
    """Its idempotency key; empty, where it has not begun: one of its own."""

    @property
    def has_failed(self) -> bool:
        """Whether it ran, and the tool itself has said that it did not work."""
        if self.started is None or self.finished is None or self.finished.is_withheld:
            return False
        return self.finished.result.is_error and not self.finished.result.is_unknown

    @property
    def is_unknown(self) -> bool:
        """Whether it ran, and nobody knows what it did: its worker was lost or stopped, or its time was over."""
        return self.started is not None and (self.finished is None or self.finished.result.is_unknown)

    def repeated(self) -> NextTry | None:
        """Return the same call once more, if it may be made twice."""
        return NextTry(self.key) if self.started is not None and self.started.may_repeat else None


async def next_try(leg: Leg, node: Node, child: str, end: Ended) -> NextTry | None:
    """Return the try that may follow on one of a node which its child job did in vain; None: none may.

    What a person has stopped is to be no more. A tool that has failed runs again; one that has done what it was to do
    does not, as where its result is withheld. A call that was refused before it ran, as for its arguments, would be so
    again. A tool of which nobody knows what it did runs again only if it may under the same key.
    """
    if end.status == "cancelled":
        return None
    if not node.tool:
        return NextTry()
    call = await _call_of(leg, child)
    if call.started is None:
        return None if call.finished else NextTry(call.key)
    if call.has_failed:
        return NextTry()
    return call.repeated() if call.is_unknown else None


def still_stopping(leg: Leg, views: Iterable[JobView]) -> Suspended | None:
    """Return the pause until child jobs are over that had not ended when the job was retried; None: they are.

    They were told to stop, but until they have, they may begin what is to begin in their place.
    """
    if not (left := [view.id for view in views if not view.is_over]):
        return None
    return Suspended("children", backoff_s(leg, "children"), f"{', '.join(left)} to stop")


async def since_retry(leg: Leg, node: Node, child: str) -> Recorded | NextTry | None:
    """Return what comes of one that its child job had not ended well when the job was retried.

    It begins once more, but a call whose result is recorded: that counts. None: it must not, see ``why_not_again``.
    """
    if node.runner:
        return NextTry()
    call = await _call_of(leg, child)
    if call.finished is not None and not call.finished.result.is_error:
        result = call.finished.result
        return Recorded(result.content if result.data is None else result.data, call.finished.untrusted)
    if call.started is None:
        return NextTry(call.key)
    return NextTry() if call.has_failed else call.repeated()


def why_not_again(leg: Leg, node: Node, child: str) -> str:
    """Say why a call is not made once more in a job that was retried, and what a person can do."""
    return (
        f"Outcome unknown: {node.tool!r} ran in job {child}, which ended before anybody saw what it gave, and must not "
        f"run twice. Check what it did. `ekiden job fork {root_of(leg.job)}` lists the steps before it: a new job that "
        "begins behind one of them runs it again"
    )


async def _call_of(leg: Leg, child: str) -> _Call:
    records = await leg.recorded_by(child)
    started = [record for record in records if isinstance(record, ToolStarted)]
    finished = [record for record in records if isinstance(record, ToolFinished)]
    keys = [record.context.graphs[-1].key for record in records if isinstance(record, HandedOff)]
    key = keys[-1] or (f"{child}:{started[-1].leg}:{started[-1].call_id}" if started else "")
    return _Call(started[-1] if started else None, finished[-1] if finished else None, key)


async def behind(leg: Leg, child: ChildJob, before: str, *, is_list: bool = False) -> ChildJob:
    """Return a child job that does, in a job that was retried, what ``before`` did not end: behind all it had done.

    As it is, where ``before`` is empty, or was given something else; but a list stays the one that was begun.
    """
    if not before:
        return child
    records = await leg.recorded_by(before)
    request = records[0]
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    if is_list:
        child = replace(child, inputs=request.inputs or {})
    if request.agent != child.agent or _as_json(request.inputs or {}) != _as_json(child.inputs):
        return child
    [*_, last] = [record for record in records if isinstance(record, HandedOff)]
    *done, _ended = records
    leg_there = last.leg + 1
    replies = sum(isinstance(record, ModelReplied) for record in done)
    own = [Forked(leg=leg_there, job=before, seq=len(done), replies=replies), Retried(leg=leg_there)]
    return replace(child, context=last.context, behind=(*done[1:], *own))


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
