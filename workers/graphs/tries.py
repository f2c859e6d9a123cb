"""Whether a node of a graph, or an item of its list, is tried again where it has failed, and from where on."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.ids import root_of
from ekiden.shared.outcomes import ChildJob, Suspended
from ekiden.shared.records import (
    Delegated,
    Ended,
    Forked,
    HandedOff,
    JobRequested,
    ModelReplied,
    Record,
    Retried,
    SettledCall,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.leg import Leg, backoff_s
from ekiden.shared.stores.views import JobView
from ekiden.workers.node_calls import NODE_CALL
from ekiden.workers.tools.tool_runner import CHECK_FIRST

__all__ = ["NextTry", "behind", "next_try", "since_retry", "still_stopping", "why_failed", "why_not_again"]


@dataclass(frozen=True)
class NextTry:
    """Another try of what has failed."""

    key: str = ""
    """The idempotency key of the call that it repeats, where nobody knows what that did; empty: one of its own."""
    behind: str = ""
    """The child job behind whose records it goes on; empty: it begins anew."""


@dataclass(frozen=True)
class _Call:
    """What a child job that makes one call has recorded of it."""

    started: ToolStarted | None
    finished: ToolFinished | None
    key: str
    """Its idempotency key; empty, where it has not begun: one of its own."""
    settled: SettledCall | None = None
    """What a person has said of it since it began."""

    @property
    def has_failed(self) -> bool:
        """Whether it ran, and the tool itself has said that it did not work."""
        if self.started is None or self.finished is None or self.finished.is_withheld or self.settled is not None:
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

    What a person has stopped is to be no more, nor a graph in which they have stopped something. A tool that has failed
    runs again; one that has done what it was to do does not, as where its result is withheld. A call that was refused
    before it ran, as for its arguments, would be so again. A tool of which nobody knows what it did runs again only if
    it may under the same key.
    """
    if end.status == "cancelled" or (node.runner and await _has_stopped_part(leg, child)):
        return None
    if not node.tool:
        return NextTry()
    call = await _call_of(leg, child)
    if call.started is None:
        return None if call.finished else NextTry(call.key)
    if call.has_failed:
        return NextTry()
    return call.repeated() if call.is_unknown else None


async def _has_stopped_part(leg: Leg, job: str) -> bool:
    """Tell whether a person has stopped something that a graph of a job began, and nobody has retried it since."""
    records = await leg.recorded_by(job)
    retried = max((place for place, record in enumerate(records) if isinstance(record, Retried)), default=0)
    made = {call.id for record in records if isinstance(record, ModelReplied) for call in record.message.calls}
    begun = (record for record in records[retried:] if isinstance(record, Delegated))
    parts = [record.child for record in begun if record.call_id not in made]
    if any(view.status == "cancelled" and view.stop == "user" for view in await leg.children(parts)):
        return True
    return any([await _has_stopped_part(leg, part) for part in parts])


def still_stopping(leg: Leg, views: Iterable[JobView]) -> Suspended | None:
    """Return the pause until child jobs are over that had not ended when the job was retried; None: they are.

    They were told to stop, but until they have, they may begin what is to begin in their place.
    """
    if not (left := [view.id for view in views if not view.is_over]):
        return None
    return Suspended("children", backoff_s(leg, "children"), f"{', '.join(left)} to stop")


async def since_retry(leg: Leg, node: Node, child: str, *, is_list: bool = False) -> NextTry | None:
    """Return how one begins once more that its child job had not ended well when the job was retried.

    None: it must not, see ``why_not_again``. A call that has given its result is not made again, nor is one of which
    a person says that it was done.
    """
    if node.runner or is_list:
        return NextTry(behind=child)
    call = await _call_of(leg, child)
    if call.finished is not None and not call.finished.result.is_error:
        return NextTry(behind=child)
    if (said := _said_of(leg, child) or call.settled) is not None:
        return NextTry(behind=child) if said.is_done else NextTry(call.key)
    if call.started is None:
        return NextTry(call.key)
    return NextTry() if call.has_failed else call.repeated()


def why_not_again(leg: Leg, node: Node, child: str) -> str:
    """Say why a call is not made once more in a job that was retried, and what a person can do."""
    return (
        f"Outcome unknown: {node.tool!r} ran in job {child}, which ended before anybody saw what it gave, and must not "
        f"run twice.{_remedy(leg, child)}"
    )


async def why_failed(leg: Leg, node: Node, child: str, why: str) -> str:
    """Return ``why`` a node has failed, with what a person can do where nobody knows what its tool did."""
    if not node.tool or not (await _call_of(leg, child)).is_unknown:
        return why
    return why.removesuffix(f" {CHECK_FIRST}") + _remedy(leg, child)


def _remedy(leg: Leg, child: str) -> str:
    root = root_of(leg.job)
    said = f"`ekiden job retry {root} --call {child}:{NODE_CALL}=done:TEXT` gives TEXT as its result, `…=undone` lets"
    fork = f"`ekiden job fork {root}` lists the steps before it: a new job that begins behind one of them runs it again"
    return f" Check what it did. Then say so: {said} it run again. Or {fork}"


def _said_of(leg: Leg, child: str) -> SettledCall | None:
    """Return what a person has said of the call of a child job when this job was retried."""
    return next((one for said in _retries(leg) for one in said.settled if one.job == child), None)


def _retries(leg: Leg) -> list[Retried]:
    return [entry.record for entry in reversed(leg.entries) if isinstance(entry.record, Retried)]


async def _call_of(leg: Leg, child: str) -> _Call:
    records = await leg.recorded_by(child)
    started = [record for record in records if isinstance(record, ToolStarted)]
    said = records[records.index(started[-1]) :] if started else []
    settled = [one for record in said if isinstance(record, Retried) for one in record.settled if not one.job]
    finished = [record for record in records if isinstance(record, ToolFinished)]
    keys = [record.context.graphs[-1].key for record in records if isinstance(record, HandedOff)]
    key = keys[-1] or (f"{child}:{started[-1].leg}:{started[-1].call_id}" if started else "")
    return _Call(
        started[-1] if started else None, finished[-1] if finished else None, key, settled[-1] if settled else None
    )


async def behind(leg: Leg, child: ChildJob, before: str, *, is_as_begun: bool) -> ChildJob:
    """Return a child job that does, in a job that was retried, what ``before`` did not end: behind all it had done.

    As it is, where ``before`` is empty, or was given something else; ``is_as_begun``: then it stays with that.
    """
    if not before:
        return child
    records = await leg.recorded_by(before)
    request = records[0]
    assert isinstance(request, JobRequested), "the first record of a job is its request"
    if is_as_begun:
        child = replace(child, inputs=request.inputs or {})
    if request.agent != child.agent or _as_json(request.inputs or {}) != _as_json(child.inputs):
        return child
    [*_, last] = [record for record in records if isinstance(record, HandedOff)]
    *done, _ended = records
    leg_there = last.leg + 1
    replies = sum(isinstance(record, ModelReplied) for record in done)
    forked = Forked(leg=leg_there, job=before, seq=len(done), replies=replies)
    return replace(child, context=last.context, behind=(*done[1:], forked, _retried(leg, before, records, leg_there)))


def _retried(leg: Leg, before: str, records: Iterable[Record], leg_there: int) -> Retried:
    """Return the retry of a child job, with what a person has said of its calls, and of those of jobs below it."""
    begun = tuple(f"{record.child}." for record in records if isinstance(record, Delegated))
    said: dict[tuple[str, str], SettledCall] = {}
    by, is_claimed = "", False
    for retried in reversed(_retries(leg)):
        if found := [one for one in retried.settled if one.job == before or f"{one.job}.".startswith(begun)]:
            said |= {(one.job, one.call_id): one for one in found}
            by, is_claimed = retried.by, retried.is_claimed
    settled = [one.model_copy(update={"job": ""}) if one.job == before else one for one in said.values()]
    return Retried(leg=leg_there, settled=tuple(settled), by=by, is_claimed=is_claimed)


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
