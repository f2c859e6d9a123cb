"""Records of what is noticed between the turns of a leg."""

from typing import Literal

from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.outcomes import TerminationReason
from ekiden.shared.record_base import BaseRecord

__all__ = ["LastTurn", "LoopDetected"]


class LoopDetected(BaseRecord):
    """The agent goes round in circles, and what its model is told of that. The next time ends the leg."""

    type: Literal["loop"] = "loop"
    kind: LoopKind
    text: str


class LastTurn(BaseRecord):
    """A leg that has reached a limit may end with what it has, in one turn more."""

    type: Literal["last_turn"] = "last_turn"
    reason: TerminationReason
    """Why the leg ends."""
    error: str
    """What the user is told if the turn gives no result."""
    text: str
    """What the model is told."""
    used_ms: int = 0
    """Time that the leg had taken by then: the turn has a time of its own."""
