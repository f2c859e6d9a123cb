"""HandoffContext: what one agent gives the next. Versioned; stored examples of every version are a test.

It is kept with the job and returned by the claim; the queue message only names it.
"""

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ekiden.shared.ids import drawn_id

__all__ = [
    "VERSION",
    "Frame",
    "HandoffContext",
    "HandoffMetadata",
    "History",
    "Returned",
    "first_context",
]

VERSION = 1


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class History(_Frozen):
    """What of the conversation the target sees, by reference into the job's journal."""

    mode: Literal["all", "none", "last", "summary"] = "all"
    last: int | None = None
    """Turns, with mode ``last``."""
    upto: int = 0
    """The journal position (inclusive) that the history ends at."""


class Frame(_Frozen):
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


class Returned(_Frozen):
    """What control came back with."""

    leg: int
    """The leg that handed over, and waited."""
    call_id: str
    text: str
    is_error: bool = False


class HandoffMetadata(_Frozen):
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


class HandoffContext(_Frozen):
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
        metadata = self.metadata.model_copy(
            update={
                "handoff_id": drawn_id(),
                "timestamp": time.time(),
                "handoff_chain": (*self.metadata.handoff_chain, to_agent),
                "chain_depth": self.metadata.chain_depth + (0 if is_route else 1),
            }
        )
        return HandoffContext(
            from_agent=self.from_agent if is_route else self.to_agent,
            to_agent=to_agent,
            reason=reason,
            context=context,
            summary=summary,
            payload=payload,
            history=history or History(),
            metadata=metadata,
            calls=(*self.calls, call) if call else self.calls,
        )

    def come_back(self, text: str, *, is_error: bool, upto: int) -> "HandoffContext":
        """Return the context of the innermost caller that gets control back: the chain as it was, no deeper."""
        *outer, frame = self.calls
        metadata = self.metadata.model_copy(
            update={
                "handoff_id": drawn_id(),
                "timestamp": time.time(),
                "handoff_chain": self.metadata.handoff_chain[: frame.chain_length],
            }
        )
        return HandoffContext(
            from_agent=frame.from_agent,
            to_agent=frame.agent,
            reason=f"{self.to_agent} has ended",
            history=History(upto=upto),
            metadata=metadata,
            calls=tuple(outer),
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
