"""Records of what is noticed between the turns of a leg."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.messages import Usage
from ekiden.shared.outcomes import TerminationReason
from ekiden.shared.record_base import BaseRecord

__all__ = ["Fingerprint", "LastTurn", "LoopDetected", "LoopJudged"]


class Fingerprint(BaseModel):
    """Digests of what a model was asked: equal where a reply that is known would be an answer, too."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    definition: str
    """The agent's, as the catalog has it."""
    model: str
    """Of its name, temperature and instructions."""
    messages: str
    """Of all that was said, without what is drawn anew in each run: the ids of handoffs."""
    tools: str


class LoopDetected(BaseRecord):
    """The agent goes round in circles, and what its model is told of that. The next time ends the leg."""

    type: Literal["loop"] = "loop"
    kind: LoopKind
    text: str


class LoopJudged(BaseRecord):
    """A model has looked whether a long leg gets anywhere."""

    type: Literal["loop_judged"] = "loop_judged"
    turn: int
    """The leg's last turn by then."""
    confidence: float
    """How sure it is, from 0 to 1, that the leg gets nowhere."""
    text: str
    """Why."""
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    duration_ms: int = 0


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
