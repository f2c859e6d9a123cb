"""Whether a node of a graph, or an item of its list, is tried again where it has failed."""

from dataclasses import dataclass

from ekiden.shared.definitions.graph import Node
from ekiden.shared.records import ToolFinished, ToolStarted
from ekiden.shared.relay.leg import Leg

__all__ = ["NextTry", "next_try"]


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
