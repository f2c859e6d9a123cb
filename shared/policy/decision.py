"""What is decided of one call of a tool."""

from dataclasses import dataclass
from typing import Literal

from ekiden.shared.risk import Risk

__all__ = ["ALLOWED", "Decision", "Verdict"]

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class Decision:
    """A verdict, and who says so."""

    verdict: Verdict
    reason: str = ""
    """Why: for a denied call the text that the model gets, for one that is asked about what people read."""
    rule: str = ""
    """The rule that won, as people find it again: file and place, setting, or default."""
    risk: Risk | None = None
    """How much this call can do; None: what its tool says of all calls."""
    timeout_s: float | None = None
    """How long an answer is waited for; None: as the settings say."""
    approvers: tuple[str, ...] = ()
    """Users and ``group:<name>`` who may answer; empty: anybody who can decide here."""
    separate: bool = False
    """Whether whoever asked for the job must not be the one who approves."""


ALLOWED = Decision("allow")
