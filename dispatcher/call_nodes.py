"""Which node of a graph makes a call: people know it by that name."""

from collections.abc import Iterable

from ekiden.shared.records import GRAPH, HandedOff, ModelReplied, Record

__all__ = ["named_call", "node_of"]


def node_of(call_id: str, records: Iterable[Record]) -> str:
    """Return the node whose tool a call of a job is, by the job's records; empty: an agent has made it."""
    node, is_of_node = "", False
    for record in records:
        if isinstance(record, HandedOff):
            node = record.context.graphs[-1].node if record.context.graphs else ""
        elif isinstance(record, ModelReplied) and call_id in {call.id for call in record.message.calls}:
            is_of_node = record.model == GRAPH
    return node if is_of_node else ""


def named_call(tool: str, node: str) -> str:
    """Return how a call is told: ``pay``, or with its node ``money (pay)``."""
    return f"{node} ({tool})" if node else tool
