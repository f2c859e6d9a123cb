"""How a leg ends: a closed union. Handlers return one; the runner commits it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.definitions.rules import DEFAULT_HANDOFF_DEPTH, ToolRules
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.job_limits import NO_BUDGETS, UNLIMITED, Budgets, JobLimits

__all__ = [
    "ALL_SUCCEED",
    "ANY_ENDS",
    "AS_LONG_AS_THEY_CAN",
    "DEADLINE_PASSED",
    "Answer",
    "Cancelled",
    "ChildJob",
    "Failed",
    "Outcome",
    "SuspendCause",
    "Suspended",
    "TerminationReason",
    "Transfer",
    "Unfinished",
]

DEADLINE_PASSED = "the job's deadline has passed"
"""What a job ends with, as failed by ``TIMEOUT``, whose time is over."""

TerminationReason = Literal[
    "GOAL",
    "TIMEOUT",
    "MAX_TURNS",
    "MAX_TOKENS",
    "MAX_COST",
    "MAX_LEGS",
    "LOOP",
    "ABORTED",
    "ERROR",
    "ERROR_NO_COMPLETE_TASK_CALL",
    "HANDOFF_REFUSED",
    "GUARDRAIL",
    "DENIED",
    "NO_ROUTE",
    "GOAL_NOT_REACHED",
]
SuspendCause = Literal["missing_tools", "retry", "children", "catalog", "approval", "limit"]


@dataclass(frozen=True)
class Answer:
    """The job's final answer."""

    text: str
    reason: TerminationReason = "GOAL"
    output: Any = None
    """A structured answer: JSON."""
    is_final: bool = False
    """Ends the job also where a caller waits for control."""
    recovered: bool = False
    """It was given in the last turn of a leg that ``reason`` had ended."""


@dataclass(frozen=True)
class Unfinished:
    """The job ends with an answer that does not do what was asked, and says why. Never guessed from the text."""

    text: str


@dataclass(frozen=True)
class Transfer:
    """Control moves to ``context.to_agent``; only a handoff, neither the route nor a return, may be refused.

    ``call_id`` is the tool call that asked for it; None for the route, a return and what the agent's file asks for.
    """

    context: HandoffContext
    call_id: str | None = None
    tool_name: str = ""
    max_depth: int = DEFAULT_HANDOFF_DEPTH
    may_return: bool = False
    """The agent may hand back to the agent that control came from, though it is in the chain."""
    catalog: str | None = None
    """The digest of the catalog that the job is pinned to from here on; None: as before. The route sets it."""
    note: str = ""
    """What was mended in the call, for the journal."""
    definition: str = ""
    """The digest of the target's definition, which the catalog must have; empty: not looked for."""
    limits: JobLimits = UNLIMITED
    """What the whole job may use up; the route sets it."""
    budgets: Budgets = NO_BUDGETS
    """What its user and its session may; the route sets them, too."""
    left: tuple[str, ...] = ()
    """The agents that leave the chain, with a return or a step of a graph."""
    is_step: bool = False
    """It is a graph's next step: no handoff, and neither deeper nor a circle."""


@dataclass(frozen=True)
class ChildJob:
    """A delegated job: begun by the suspension that names it, or waited for again."""

    job: str
    call_id: str
    agent: str
    objective: str
    context: HandoffContext
    inputs: Mapping[str, Any]
    bounds: tuple[ToolRules, ...]
    max_depth: int | None
    timeout_s: float
    untrusted: str = ""
    """What text of an unknown author its caller had read, in words."""
    behind: tuple[Any, ...] = ()
    """The records of an earlier child job, behind which it goes on, but for its request; empty: it begins anew."""


ANY_ENDS = -1
ALL_SUCCEED = -1_000
AS_LONG_AS_THEY_CAN = 1_000_000
"""See ``Suspended.need``. To a version that does not know it, it is a wait for all: no leg has so many children."""


@dataclass(frozen=True)
class Suspended:
    """The leg gives up its worker and is woken after ``delay_s``, by its ``children``, or by answers."""

    cause: SuspendCause
    delay_s: float
    detail: str = ""
    children: tuple[ChildJob, ...] = ()
    need: int = 0
    """How many of the children must succeed; 0: all must end. The rest is cancelled then. ``ANY_ENDS``: one must end,
    however, and the rest goes on; ``ALL_SUCCEED``: all must end, or one fails, and the rest goes on. Above
    ``AS_LONG_AS_THEY_CAN``, how many must succeed beyond that; or so few are left that they cannot, and the rest goes
    on. Children of the leg that are not named any more are cancelled."""
    approvals: tuple[ApprovalView, ...] = ()
    """What persons are asked: the leg goes on when each is answered, or has waited for as long as it may."""


@dataclass(frozen=True)
class Failed:
    """The job ends without an answer. ``message`` is for the user: what happened and what to do."""

    reason: TerminationReason
    message: str
    last_turn: str = ""
    """What the agent is told if it may end with what it has, in one turn more; empty: it may not."""


@dataclass(frozen=True)
class Cancelled:
    """Somebody cancelled the job."""

    message: str = "cancelled"


Outcome = Answer | Unfinished | Transfer | Suspended | Failed | Cancelled
