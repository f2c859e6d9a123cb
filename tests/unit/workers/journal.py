"""Journals that are written by hand, and the legs that they lead to."""

from collections.abc import Sequence
from typing import Any

from ekiden.shared.handoff import Frame, HandoffContext, History, first_context
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.records import (
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Nudged,
    Record,
    Summarised,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.base import Claimed, Lease
from ekiden.shared.stores.sessions import SessionMessage
from ekiden.workers.history import opening
from tests.unit.workers.world import calls, handing_over, said

__all__ = ["JOB", "Job", "texts"]

JOB = "abcdefghij234567.1"


class Job:
    """A job's journal so far. ``earlier`` was said in its session before."""

    def __init__(
        self,
        first: str,
        prompt: str = "fix it",
        *,
        inputs: dict[str, Any] | None = None,
        parent: str = "user",
        earlier: Sequence[SessionMessage] = (),
    ) -> None:
        self.entries: list[Entry] = []
        self.earlier = list(earlier)
        self.context = first_context(JOB)
        self.leg = 0
        self.add(JobRequested(prompt=prompt, inputs=inputs))
        context = self.context.advance(first, "route", is_route=True, history=History(upto=1))
        self._move(context.model_copy(update={"from_agent": parent}), None)

    @property
    def agent(self) -> str:
        """Who has control."""
        return self.context.to_agent

    @property
    def fence(self) -> str:
        """The id of the marks that the agent who has control sees."""
        return self.context.metadata.handoff_id

    @property
    def leg_now(self) -> Leg:
        """The leg that the journal leads to."""
        lease = Lease(JOB, self.leg, "1", "q")
        claimed = Claimed(lease, self.context, 1, 0, "cat", "", stop=None)
        return Leg(claimed, list(self.entries), None, earlier=self.earlier)  # type: ignore[arg-type]  # stores nothing

    def add(self, *records: Record) -> None:
        for record in records:
            self.entries.append(Entry(seq=len(self.entries) + 1, at_ms=0, record=record))

    def turn(self, *made: ToolCall, text: str = "", results: bool = True) -> None:
        message = (calls(*made, text=text) if made else said(text)).message
        self.add(ModelReplied(leg=self.leg, turn=1, message=message))
        for one in made if results else ():
            self.add(ToolStarted(leg=self.leg, call_id=one.id, name=one.name), self.finished(one))

    def nudged_turn(self, text: str, nudge: str) -> None:
        self.turn(text=text)
        self.add(Nudged(leg=self.leg, text=nudge))

    def finished(self, made: ToolCall, **fields: Any) -> ToolFinished:
        result = ToolResult(call_id=made.id, name=made.name, content=f"result of {made.id}")
        return ToolFinished(leg=self.leg, result=result, **fields)

    def summarised(self, text: str) -> None:
        self.add(Summarised(leg=self.leg, text=text))

    def hand_over(
        self,
        to: str,
        call_id: str,
        history: History | None = None,
        text: str = "",
        *,
        returns: bool = False,
        reason: str = "",
        beside: Sequence[ToolCall] = (),
        **words: Any,
    ) -> None:
        """Let the agent who has control hand it to ``to``, by a last turn with this call and those ``beside`` it."""
        call = handing_over(call_id, to, reason=reason or f"{to} should go on", **words)
        self.turn(*beside, call, text=text, results=False)
        self.add(*(self.finished(one) for one in beside))
        self.pass_on(to, call_id, history, returns=returns, reason=reason, **words)

    def pass_on(
        self,
        to: str,
        call_id: str | None,
        history: History | None = None,
        *,
        returns: bool = False,
        reason: str = "",
        **words: Any,
    ) -> None:
        """Move control behind the last turn; ``call_id`` None: because the agent's file says so."""
        metadata = self.context.metadata
        frame = Frame(
            agent=self.agent,
            leg=self.leg,
            call_id=call_id or "",
            from_agent=self.context.from_agent,
            chain_length=len(metadata.handoff_chain),
        )
        history = (history or History()).model_copy(update={"upto": len(self.entries)})
        reason = reason or f"{to} should go on"
        call = frame if returns else None
        self._move(self.context.advance(to, reason, history=history, call=call, **words), call_id)

    def come_back(self, text: str, *, is_error: bool = False) -> None:
        """Give control back to the agent that waits for it."""
        self._move(self.context.come_back(text, is_error=is_error, upto=len(self.entries)), None)

    def end(self, text: str) -> None:
        """Let the agent who has control answer the one that waits."""
        self.turn(text=text)
        self.come_back(text)

    def opened(self, **options: Any) -> list[Message]:
        """What the agent who has control now reads."""
        return opening(self.leg_now, **options)

    def _move(self, context: HandoffContext, call_id: str | None) -> None:
        self.add(HandedOff(leg=self.leg, context=context, call_id=call_id))
        self.context = context
        self.leg += 1
        self.add(LegStarted(leg=self.leg, agent=context.to_agent, attempt=1, worker="w"))


def texts(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Who says what."""
    return [(message.role, message.text) for message in messages]
