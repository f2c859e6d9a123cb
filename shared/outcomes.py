"""How a leg ends: a closed union. Handlers return one; the runner commits it."""

from dataclasses import dataclass
from typing import Literal

from shared.handoff import HandoffContext

__all__ = ["Answer", "Cancelled", "Failed", "Outcome", "Suspended", "TerminationReason", "Transfer"]

TerminationReason = Literal[
    "GOAL",
    "TIMEOUT",
    "MAX_TURNS",
    "MAX_TOKENS",
    "MAX_COST",
    "LOOP",
    "ABORTED",
    "ERROR",
    "ERROR_NO_COMPLETE_TASK_CALL",
    "HANDOFF_REFUSED",
    "GUARDRAIL",
    "NO_ROUTE",
]


@dataclass(frozen=True)
class Answer:
    """The job's final answer."""

    text: str
    reason: TerminationReason = "GOAL"


@dataclass(frozen=True)
class Transfer:
    """Control moves to ``context.to_agent``. ``call_id`` is the tool call that asked for it; None for the route."""

    context: HandoffContext
    call_id: str | None = None
    tool_name: str = ""
    max_depth: int = 5
    may_return: bool = False
    """The agent may hand back to the agent that control came from, though it is in the chain."""
    catalog: str | None = None
    """The digest of the catalog that the job is pinned to from here on; None: as before. The route sets it."""


@dataclass(frozen=True)
class Suspended:
    """The leg gives up its worker and is woken after ``delay_s``."""

    cause: Literal["missing_tools", "retry"]
    delay_s: float
    detail: str = ""


@dataclass(frozen=True)
class Failed:
    """The job ends without an answer. ``message`` is for the user: what happened and what to do."""

    reason: TerminationReason
    message: str


@dataclass(frozen=True)
class Cancelled:
    """Somebody cancelled the job."""

    message: str = "cancelled"


Outcome = Answer | Transfer | Suspended | Failed | Cancelled
