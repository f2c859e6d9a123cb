"""Records of what is noticed between the turns of a leg."""

from typing import Literal

from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.record_base import BaseRecord

__all__ = ["LoopDetected"]


class LoopDetected(BaseRecord):
    """The agent goes round in circles, and what its model is told of that. The next time ends the leg."""

    type: Literal["loop"] = "loop"
    kind: LoopKind
    text: str
