"""Records of graphs."""

import operator
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.records.base import UNSAID, BaseRecord

__all__ = ["GRAPH", "NodeFinished"]

GRAPH = "graph"
"""What stands where a model's name does, where a graph itself makes the call of a node."""


class NodeFinished(BaseRecord):
    """A node of a graph has ended, and which of its edges were taken: written with what comes of that, in one step."""

    type: Literal["node_finished"] = "node_finished"
    graph: str
    """The agent whose file has it."""
    run: int
    """The leg of this job in which the graph began."""
    node: str
    channel: str
    """What conditions call the output."""
    output: Any = None
    error: str = UNSAID
    """Why there is none, where the graph goes on without."""
    again: bool = Field(default=False, exclude_if=operator.not_)
    """It is tried once more: no edge is taken yet."""
    key: str = UNSAID
    """The idempotency key of the call that the next try repeats; empty: that is one of its own."""
    next: tuple[str, ...] = ()
    """The nodes that its edges lead to, or ``END``."""
    call_id: str = UNSAID
    """Which beginning of the node it is, as ``Delegated`` says it; empty: it ran in this job."""
    untrusted: str = UNSAID
    """What text of an unknown author the output may come from, in words; empty: none, or this job says it itself."""
