"""HandoffContext: what one agent gives the next. Versioned; stored examples of every version are a test.

It is kept with the job and returned by the claim; the queue message only names it.
"""

import operator
import time
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.ids import drawn_id
from ekiden.shared.stored_model import StoredModel

__all__ = [
    "VERSION",
    "Frame",
    "GraphPosition",
    "HandoffContext",
    "HandoffMetadata",
    "History",
    "Returned",
    "first_context",
]

VERSION = 1


class History(StoredModel):
    """What of the conversation the target sees, by reference into the job's journal."""

    mode: Literal["all", "none", "last", "summary"] = "all"
    last: int | None = None
    """Turns, with mode ``last``."""
    upto: int = 0
    """The journal position (inclusive) that the history ends at."""


class Frame(StoredModel):
    """An agent that waits for control to come back: a call of the call stack."""

    agent: str
    leg: int
    """The leg that handed over."""
    call_id: str
    """The tool call that the result answers."""
    from_agent: str
    """Who the agent itself had control from."""
    chain_length: int
    """How much of the chain is its own: what follows is dropped at the return."""
    graphs: int = Field(default=0, exclude_if=operator.not_)
    """In how many graphs it is a step."""


class GraphPosition(StoredModel):
    """Where control is in a graph. What its nodes have given is in the journal, and the graph in the job's catalog."""

    graph: str
    """The agent whose file has it."""
    run: int
    """The leg of this job in which it began."""
    node: str = Field(default="", exclude_if=operator.not_)
    """The node that runs; empty: the graph itself has control, to begin what is no plain step."""
    step: int = 0
    """How many nodes have begun."""
    part: Literal["", "node", "item"] = Field(default="", exclude_if=operator.not_)
    """What of a node a job below the graph's does: all of it, or one item of its list; empty: it is no such job."""
    key: str = Field(default="", exclude_if=operator.not_)
    """The idempotency key of such a job's call, where it repeats one of which nobody knows what that did."""
    calls: int = Field(default=0, exclude_if=operator.not_)
    """How many agents waited for control already when it began."""
    chain_length: int
    """How much of the chain is the graph's own and before it: what follows is dropped at each step."""
    depth: int
    """How many handoffs there were before it: those within a node count for that one alone."""


class Returned(StoredModel):
    """What control came back with."""

    leg: int
    """The leg that handed over, and waited."""
    call_id: str
    text: str
    is_error: bool = False


class HandoffMetadata(StoredModel):
    """How control came here."""

    handoff_id: str
    timestamp: float
    """Seconds since the epoch, by the sender's clock: for people, never for decisions."""
    handoff_chain: tuple[str, ...]
    chain_depth: int
    """Handoffs so far, also those that control came back from, which the chain forgets; the route is none.

    The server counts them likewise: the most that an agent allows (``max_handoff_depth``) ends whatever goes round.
    """
    correlation_id: str
    traceparent: str = ""
    tracestate: str = ""

    def moved(self, chain: tuple[str, ...], depth: int) -> "HandoffMetadata":
        """Return what is said of the next move of control: with an id of its own, now."""
        return HandoffMetadata(
            handoff_id=drawn_id(),
            timestamp=time.time(),
            handoff_chain=chain,
            chain_depth=depth,
            correlation_id=self.correlation_id,
            traceparent=self.traceparent,
            tracestate=self.tracestate,
        )


class HandoffContext(StoredModel):
    """Who hands over to whom, why, and with what."""

    v: int = VERSION
    from_agent: str
    to_agent: str
    reason: str
    context: str | None = None
    summary: str | None = None
    payload: dict[str, Any] | None = None
    history: History = History()
    metadata: HandoffMetadata
    calls: tuple[Frame, ...] = ()
    """Who gets control back when the agent has ended, the last one first."""
    returned: Returned | None = None
    """Set where this is such a return."""
    graphs: tuple[GraphPosition, ...] = Field(default=(), exclude_if=operator.not_)
    """The graphs that control is in, the innermost last."""
    node: str = Field(default="", exclude_if=operator.not_)
    """The node of a graph that the job does whose first leg this is, for the graph of the job above it."""
    within: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """The graphs of the jobs above for whose nodes the job runs, the outermost first."""

    @property
    def ends_node(self) -> bool:
        """Whether the agent's answer is that of a graph's node: it runs as one, and no agent within waits for it."""
        at = self.graphs[-1] if self.graphs else None
        return at is not None and bool(at.node) and not at.part and len(self.calls) == at.calls

    @property
    def all_graphs(self) -> tuple[str, ...]:
        """The graphs in whose nodes it is, those of jobs above in front, and the innermost last."""
        return tuple(dict.fromkeys((*self.within, *(at.graph for at in self.graphs))))

    @property
    def does_part(self) -> bool:
        """Whether the job does a node, or an item of one, for the graph of the job above it."""
        return bool(self.graphs) and bool(self.graphs[-1].part)

    @property
    def begins_node(self) -> bool:
        """Whether control came here by a step of a graph, and not by a handoff from whoever had it so."""
        return self.ends_node and len(self.metadata.handoff_chain) == self.graphs[-1].chain_length + 1

    def is_first_agent(self, leg: int) -> bool:
        """Tell whether an agent that begins in ``leg`` is its job's first: only graphs have had control before."""
        return leg == 1 or (self.begins_node and self.graphs[0].run == 1 and all(at.step == 1 for at in self.graphs))

    @property
    def step_inputs(self) -> dict[str, Any] | None:
        """What the agent is given by the step of a graph, if one led here."""
        return self.payload if self.begins_node else None

    def encode(self) -> str:
        """Return the compact JSON form."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def decode(cls, text: str) -> "HandoffContext":
        """Read ``encode()``'s JSON; fields that a later version added are ignored."""
        return cls.model_validate_json(text)

    def with_id(self, handoff_id: str) -> "HandoffContext":
        """Return a copy with this handoff's id."""
        metadata = self.metadata.model_copy(update={"handoff_id": handoff_id})
        return self.model_copy(update={"metadata": metadata})

    def with_trace(self, traceparent: str) -> "HandoffContext":
        """Return a copy within this trace."""
        metadata = self.metadata.model_copy(update={"traceparent": traceparent})
        return self.model_copy(update={"metadata": metadata})

    def advance(
        self,
        to_agent: str,
        reason: str,
        *,
        is_route: bool = False,
        context: str | None = None,
        summary: str | None = None,
        payload: dict[str, Any] | None = None,
        history: History | None = None,
        call: Frame | None = None,
    ) -> "HandoffContext":
        """Return the context for the next agent: the chain one longer, one deeper unless it is the route.

        ``call``: this agent wants control back.
        """
        now = self.metadata
        return HandoffContext(
            from_agent=self.from_agent if is_route else self.to_agent,
            to_agent=to_agent,
            reason=reason,
            context=context,
            summary=summary,
            payload=payload,
            history=history or History(),
            metadata=now.moved((*now.handoff_chain, to_agent), now.chain_depth + (0 if is_route else 1)),
            calls=(*self.calls, call) if call else self.calls,
            graphs=self.graphs,
            within=self.within,
        )

    def begin_graph(self, leg: int) -> GraphPosition:
        """Return the position of a graph that begins in this job's ``leg``, where control came to its agent."""
        return GraphPosition(
            graph=self.to_agent,
            run=leg,
            calls=len(self.calls),
            chain_length=len(self.metadata.handoff_chain),
            depth=self.metadata.chain_depth,
        )

    def step(
        self, to_agent: str, reason: str, graphs: tuple[GraphPosition, ...], payload: dict[str, Any] | None = None
    ) -> "HandoffContext":
        """Return the context of a graph's next step, at the last of ``graphs``: the chain goes on from the graph.

        No step reads what was said in another: it gets ``payload``.
        """
        at = graphs[-1]
        chain = self.metadata.handoff_chain[: at.chain_length]
        return HandoffContext(
            from_agent=self.to_agent,
            to_agent=to_agent,
            reason=reason,
            payload=payload,
            history=History(mode="none"),
            metadata=self.metadata.moved((*chain, to_agent) if at.node else chain, at.depth),
            calls=self.calls[: at.calls],
            graphs=graphs,
            within=self.within,
        )

    def with_returned(self, text: str) -> "HandoffContext":
        """Return a copy in which what came back with control says ``text``."""
        back = self.returned.model_copy(update={"text": text}) if self.returned else None
        return self.model_copy(update={"returned": back})

    def come_back(self, text: str, *, is_error: bool, upto: int) -> "HandoffContext":
        """Return the context of the innermost caller that gets control back: the chain as it was, no deeper."""
        *outer, frame = self.calls
        chain = self.metadata.handoff_chain[: frame.chain_length]
        return HandoffContext(
            from_agent=frame.from_agent,
            to_agent=frame.agent,
            reason=f"{self.to_agent} has ended",
            history=History(upto=upto),
            metadata=self.metadata.moved(chain, self.metadata.chain_depth),
            calls=tuple(outer),
            graphs=self.graphs[: frame.graphs],
            within=self.within,
            returned=Returned(leg=frame.leg, call_id=frame.call_id, text=text, is_error=is_error),
        )


def first_context(job: str, traceparent: str = "") -> HandoffContext:
    """Return the context of leg 0: from the user, to the dispatcher's router; it names the job's trace."""
    metadata = HandoffMetadata(
        handoff_id=drawn_id(),
        timestamp=time.time(),
        handoff_chain=("user",),
        chain_depth=0,
        correlation_id=job,
        traceparent=traceparent,
    )
    return HandoffContext(from_agent="user", to_agent="router", reason="request", metadata=metadata)
