"""How each call of a model stands, from its validation to its end: told by the records that there are, none is its own.

validating -> awaiting_approval -> scheduled -> executing -> success | error | cancelled
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.records import (
    Delegated,
    Ended,
    HandedOff,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)

__all__ = ["OPEN", "CallState", "CallStates", "CallView", "state_of"]

CallState = Literal["validating", "awaiting_approval", "scheduled", "executing", "success", "error", "cancelled"]
OPEN: tuple[CallState, ...] = ("validating", "awaiting_approval", "scheduled", "executing")
"""Of a call that has no answer yet."""
_DENIED = "Tool execution denied by user"


@dataclass(frozen=True)
class CallView:
    """A call and how it stands."""

    leg: int
    call: ToolCall
    state: CallState


class CallStates:
    """The fold of a job's records; ``note`` is its only writer."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._views: dict[tuple[int, str], CallView] = {}
        self._turn: list[tuple[int, str]] = []
        """The calls of the last reply."""
        for record in records:
            self.note(record)

    @property
    def last_turn(self) -> list[CallView]:
        """The calls of the last reply, in its order."""
        return [self._views[key] for key in self._turn]

    def of(self, leg: int, call_id: str) -> CallState | None:
        """Return how a call stands; None: no reply has it."""
        view = self._views.get((leg, call_id))
        return view.state if view else None

    def note(self, record: Record) -> dict[str, CallState]:
        """Take in the next record; return the calls that stand differently now, by id."""
        before = {key: self._views[key].state for key in self._turn}
        self._take(record)
        now = {key: self._views[key].state for key in self._turn}
        return {call_id: state for (leg, call_id), state in now.items() if before.get((leg, call_id)) != state}

    def _take(self, record: Record) -> None:
        match record:
            case ModelReplied(leg=leg, message=message):
                self._turn = [(leg, call.id) for call in message.calls]
                self._views |= {(leg, call.id): CallView(leg, call, "validating") for call in message.calls}
            case ToolStarted(leg=leg, call_id=call_id) | Delegated(leg=leg, call_id=call_id):
                self._set(leg, call_id, "executing")
                self._move("validating", "scheduled")
            case ToolFinished(leg=leg, result=result, forgotten=forgotten):
                self._set(leg, result.call_id, "cancelled" if forgotten else _end_of(result))
                self._move("validating", "scheduled")
            case Refused(leg=leg, call_id=str(call_id)):
                self._set(leg, call_id, "error")
            case HandedOff(leg=leg, call_id=str(call_id)):
                self._set(leg, call_id, "success")
            case LegSuspended(cause="approval"):
                self._move("validating", "awaiting_approval")
                self._move("scheduled", "awaiting_approval")
            case LegStarted():  # decided; or the worker was lost, and each is looked at again
                self._move("awaiting_approval", "scheduled")
                self._move("executing", "scheduled")
            case Ended(status=status):
                self._end(status)
            case _:
                pass

    def _end(self, status: str) -> None:
        """Who ends a job answers its open calls with why, in the same step: what was never done is no error."""
        for state in OPEN:
            self._move(state, "cancelled")
        if status == "cancelled":
            self._move("error", "cancelled")

    def _set(self, leg: int, call_id: str, state: CallState) -> None:
        if (view := self._views.get((leg, call_id))) is not None:
            self._views[leg, call_id] = replace(view, state=state)

    def _move(self, before: CallState, after: CallState) -> None:
        for key in self._turn:
            if self._views[key].state == before:
                self._views[key] = replace(self._views[key], state=after)


def state_of(call: ToolCall, records: Iterable[Record]) -> CallState | None:
    """Return how a call of one leg stands, by the records of that leg; None: no reply of them has it."""
    records = list(records)
    leg = next((one.leg for one in records if isinstance(one, ModelReplied) and call in one.message.calls), 0)
    return CallStates(records).of(leg, call.id)


def _end_of(result: ToolResult) -> CallState:
    if not result.is_error:
        return "success"
    return "cancelled" if result.content.startswith(_DENIED) else "error"
