"""Calls of jobs that are over of which nobody knows whether they were done, and whom a retry lets go on with them."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from shlex import quote
from typing import NamedTuple

from ekiden.shared.conversation import Conversation
from ekiden.shared.ids import root_of
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import GRAPH, Delegated, Ended, HandedOff, ModelReplied, NodeFinished, Record, Retried

__all__ = ["UnknownCall", "unknown_calls"]

_ITEM = re.compile(r"(.*\])(/\d+)?")
"""What a job calls an item of its list, whichever try it is."""


class UnknownCall(NamedTuple):
    """A call that had begun, and of which nobody saw what it gave."""

    job: str
    """Whose call it is: the job that may be retried, or one that does a part of its graph."""
    call: ToolCall
    node: str = ""
    """The node of a graph that makes it; empty: an agent does."""

    @property
    def name(self) -> str:
        """How it is told: ``pay``, or with its node ``money (pay)``."""
        return f"{self.node} ({self.call.name})" if self.node else self.call.name

    @property
    def id(self) -> str:
        """What it is called among all calls of its server."""
        return f"{self.job}:{self.call.id}"

    @property
    def remedy(self) -> str:
        """The command that says what became of it."""
        return f"ekiden job retry {root_of(self.job)} --call {quote(self.id)}=done[:TEXT]|undone"


async def unknown_calls(job: str, journal: Callable[[str], Awaitable[Sequence[Record]]]) -> list[UnknownCall]:
    """Return those of a job that has failed, and of the parts of its graph that had not ended well.

    What agents have delegated is not among them: how that ended was told to these. ``journal`` returns a job's records.
    """
    return [one async for one in _in_tree(job, journal)]


async def _in_tree(job: str, journal: Callable[[str], Awaitable[Sequence[Record]]]) -> AsyncIterator[UnknownCall]:
    records = await journal(job)
    end = records[-1] if records else None
    if not isinstance(end, Ended) or end.status == "done":
        return
    for call in _unknown_in(records):
        yield UnknownCall(job, call, _node_of(call.id, records))
    for part in _parts(records):
        async for one in _in_tree(part, journal):
            yield one


def _unknown_in(records: Sequence[Record]) -> list[ToolCall]:
    """Return those of the last turn that would stand if the job were retried: behind others the agent has gone on."""
    leg = records[-1].leg
    turns = Conversation([*(one for one in records if one.leg == leg), Retried(leg=leg)]).turns
    answers = turns[-1].answers if turns else {}
    return [turns[-1].call(call_id) for call_id, result in answers.items() if result.is_unknown]


def _node_of(call_id: str, records: Iterable[Record]) -> str:
    node, is_of_node = "", False
    for record in records:
        if isinstance(record, HandedOff):
            node = record.context.graphs[-1].node if record.context.graphs else ""
        elif isinstance(record, ModelReplied) and call_id in {call.id for call in record.message.calls}:
            is_of_node = record.model == GRAPH
    return node if is_of_node else ""


def _parts(records: Sequence[Record]) -> list[str]:
    """Return the child jobs of a graph, or of a list, that had not ended well: these go on when it is retried."""
    calls = {call.id for one in records if isinstance(one, ModelReplied) for call in one.message.calls}
    found: dict[str, str] = {}
    for record in records:
        if isinstance(record, Delegated) and record.call_id not in calls:
            found[_visit(record.call_id)] = record.child
        elif isinstance(record, NodeFinished) and (record.again or not _has_failed_item(record)):
            found.pop(_visit(record.call_id), None)
    return list(found.values())


def _has_failed_item(record: NodeFinished) -> bool:
    return bool(record.error) and _ITEM.fullmatch(record.call_id) is not None


def _visit(call_id: str) -> str:
    item = _ITEM.fullmatch(call_id)
    return item[1] if item else call_id
