"""What goes on in a delegated job, piece by piece, as gemini-cli tells it of a sub-agent: thoughts, calls, errors.

Source: the activity events of gemini-cli's sub-agents, with their names and fields.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    HandedOff,
    LastTurn,
    LegStarted,
    ModelReplied,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.stores.views import LivePiece

__all__ = ["Activities", "Activity", "ActivityType"]

ActivityType = Literal["THOUGHT_CHUNK", "TOOL_CALL_START", "TOOL_CALL_END", "ERROR"]
_SUBJECT = re.compile(r"\*\*([^*\n]+)\*\*")
"""How models name what a paragraph of their thoughts is about."""
_CONTEXTS = {"ERROR_NO_COMPLETE_TASK_CALL": "protocol_violation"}


class Activity(BaseModel):
    """One thing that an agent of a delegated job does."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    type: ActivityType
    job: str
    """The delegated job."""
    agent: str
    data: dict[str, Any]
    """By type: ``text`` (what a thought is about); ``name, args, id``; ``name, output, id``; ``error, context``, and
    ``name, id`` of a call."""


class Activities:
    """Reads them off the journal of one delegated job, and off what its models write just now."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._agents: dict[int, str] = {}
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._begun: set[tuple[int, str]] = set()
        self._turn: tuple[int, int, str] | None = None
        self._thought = ""
        """What came live of the turn's thoughts."""
        self._subjects: list[str] = []
        """Of the turn, those that were told."""
        self._is_failing = False

    def note(self, entry: Entry) -> list[Activity]:
        """Return what the next entry of the journal tells."""
        return list(self._noted(entry.record))

    def hear(self, piece: LivePiece) -> list[Activity]:
        """Return what a piece of an answer in the making tells: what its thoughts are about."""
        if piece.call:
            return []
        turn = (piece.leg, piece.turn, piece.fence)
        if piece.restart or turn != self._turn:
            self._turn, self._thought, self._subjects = turn, "", []
        if not piece.thought:
            return []
        self._thought += piece.text
        return self._thoughts(piece.leg, self._thought)

    def _noted(self, record: Record) -> Iterator[Activity]:
        leg = record.leg
        match record:
            case LegStarted(agent=agent):
                self._agents[leg] = agent
            case HandedOff(context=context):
                self._agents[leg + 1] = context.to_agent
            case ModelReplied(message=message):
                self._calls.update({(leg, call.id): call for call in message.calls})
                yield from self._thoughts(leg, _thoughts_in(message))
                self._turn, self._thought, self._subjects = None, "", []
            case ToolStarted(call_id=call_id, name=name) | Delegated(call_id=call_id, agent=name):
                yield from self._start(leg, call_id, name)
            case ToolFinished(result=result):
                yield from self._start(leg, result.call_id, result.name)
                yield self._end(leg, result.call_id, result.name, result.content, is_error=result.is_error)
            case Refused(call_id=call_id, name=name, message=why):
                yield from self._start(leg, call_id or name, name)
                yield self._end(leg, call_id or name, name, why, is_error=True)
            case LastTurn(reason=reason, error=error):
                self._is_failing = True
                yield self._error(leg, error, reason)
            case Ended(status="failed" | "dead", reason=reason, error=error) if not self._is_failing:
                yield self._error(leg, error or "", reason)
            case _:
                pass

    def _thoughts(self, leg: int, text: str) -> list[Activity]:
        found = _SUBJECT.findall(text)
        new = [subject for subject in found if subject not in self._subjects]
        self._subjects += new
        return [self._activity("THOUGHT_CHUNK", leg, text=subject.strip()) for subject in new]

    def _start(self, leg: int, call_id: str, name: str) -> Iterator[Activity]:
        if (leg, call_id) in self._begun:
            return
        self._begun.add((leg, call_id))
        call = self._calls.get((leg, call_id))
        made = {"name": call.name, "args": call.args} if call else {"name": name, "args": {}}
        yield self._activity("TOOL_CALL_START", leg, **made, id=call_id)

    def _end(self, leg: int, call_id: str, name: str, said: str, *, is_error: bool) -> Activity:
        self._begun.discard((leg, call_id))
        if is_error:
            return self._activity("ERROR", leg, error=said, context="tool_call", name=name, id=call_id)
        return self._activity("TOOL_CALL_END", leg, name=name, output=said, id=call_id)

    def _error(self, leg: int, error: str, reason: str) -> Activity:
        return self._activity("ERROR", leg, error=error, context=_CONTEXTS.get(reason, reason.lower()))

    def _activity(self, kind: ActivityType, leg: int, **data: Any) -> Activity:
        return Activity(type=kind, job=self._job, agent=self._agents.get(leg, ""), data=data)


def _thoughts_in(message: Message) -> str:
    return "\n\n".join(part.text for part in message.parts if isinstance(part, TextPart) and part.thought)
