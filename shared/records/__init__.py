"""The journal's record types. A record is written before its step has effects and after the step has results.

Stored for as long as a session lives: only add fields, with defaults. Stored examples are a test.
"""

import operator
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.base import FinishReason
from ekiden.shared.messages import Message, ToolResult
from ekiden.shared.records.approvals import ApprovalAsked, Decided, ToolPaused
from ekiden.shared.records.base import LATEST_MS, UNSAID, BaseRecord, ModelCall
from ekiden.shared.records.forks import BY_FORK, Forked
from ekiden.shared.records.graphs import GRAPH, NodeFinished
from ekiden.shared.records.guardrails import Guarded, GuardJudged, Repairing
from ekiden.shared.records.hooks import Hooked
from ekiden.shared.records.requests import JobRequested, Routed, RoutingStage, Unrouted
from ekiden.shared.records.retries import Retried, SettledCall
from ekiden.shared.records.served import Served, ServedTool, ServedTools
from ekiden.shared.records.turns import (
    FellBack,
    Fingerprint,
    LastTurn,
    LimitNear,
    LoopDetected,
    LoopJudged,
    Prompt,
    Recalled,
    Summarised,
)
from ekiden.shared.signing import Seal

__all__ = [
    "BY_FORK",
    "GRAPH",
    "LATEST_MS",
    "ApprovalAsked",
    "Decided",
    "Delegated",
    "Ended",
    "Entry",
    "FellBack",
    "Forked",
    "GuardJudged",
    "Guarded",
    "HandedOff",
    "Hooked",
    "JobRequested",
    "LastTurn",
    "LegStarted",
    "LegSuspended",
    "LimitNear",
    "LoopDetected",
    "LoopJudged",
    "ModelCall",
    "ModelReplied",
    "NodeFinished",
    "Noticed",
    "Nudged",
    "Recalled",
    "Record",
    "Refused",
    "Repairing",
    "Retried",
    "Routed",
    "RoutingStage",
    "Served",
    "ServedTool",
    "ServedTools",
    "SettledCall",
    "StateChanged",
    "Summarised",
    "ToolFinished",
    "ToolPaused",
    "ToolStarted",
    "TransferKind",
    "Unrouted",
    "decode_record",
    "encode_record",
    "shared_in",
    "untrusted_in",
]


class LegStarted(BaseRecord):
    """A worker took the leg."""

    type: Literal["leg_started"] = "leg_started"
    agent: str
    attempt: int
    worker: str
    claim: str = UNSAID
    """Drawn for this claim: a server that went back in time never comes by it again. Empty: an older version's."""


class ModelReplied(ModelCall):
    """A model's answer, before any of its tool calls runs."""

    type: Literal["model_reply"] = "model_reply"
    turn: int
    message: Message
    finish: FinishReason = "stop"
    detail: str = ""
    """The provider's word for an unusual finish."""
    fingerprint: Fingerprint | None = None
    """Of what the model was asked; None: an older version has recorded it."""
    prompt: Prompt | None = Field(default=None, exclude_if=lambda value: value is None)
    """The system prompt, where it is not that of the turn before in this leg."""
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """Why its words are those of an unknown author, in words: so is who instructs the agent. Empty: they are not."""
    withheld: bool = Field(default=False, exclude_if=operator.not_)
    """Whether nobody is shown its text before guardrails have let it pass."""
    asked: str = UNSAID
    """The model that was asked first, where ``model`` is what its provider calls it, or a fallback."""


class ToolStarted(BaseRecord):
    """A tool call is about to have effects."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    package: str = Field(default="", exclude_if=operator.not_)
    """The distribution that the tool came with, and its version; empty: Ekiden, or nobody said."""
    digest: str = Field(default="", exclude_if=operator.not_)
    """Of all that the model was told of such a tool; see ``ToolView``."""
    is_known: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the agent has such a tool: else the name is the model's words."""
    may_repeat: bool = Field(default=False, exclude_if=operator.not_)
    """Whether it may run again under the same idempotency key, whatever became of this call."""


class ToolFinished(BaseRecord):
    """A tool call's result. ``forgotten`` results (and their calls) are never shown to a model again."""

    type: Literal["tool_result"] = "tool_result"
    result: ToolResult
    duration_ms: int = 0
    forgotten: bool = False
    is_withheld: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the tool did what it was to do, and the result says why nobody sees what it gave."""
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """What text came in with it whose author nobody vouches for, in words; empty: none."""


TransferKind = Literal["route", "handoff", "return", "edge"]
"""How control moves: a job begins at an agent (routed to it, or delegated), is handed over, comes back to who waits,
or goes along a graph."""


def _kind_of(moved: dict[str, Any]) -> TransferKind:
    """Decide it when the move is made; journals of older versions do not say it, and are read by the same rule."""
    if moved["context"].returned is not None:
        return "return"
    return "handoff" if moved["leg"] else "route"


class HandedOff(BaseRecord):
    """Control moved. ``call_id`` is the transfer call that this answers."""

    type: Literal["handoff"] = "handoff"
    context: HandoffContext
    call_id: str | None = None
    kind: TransferKind = Field(default_factory=_kind_of)


class Refused(BaseRecord):
    """A transfer call that was not carried out, and the text that the model gets."""

    type: Literal["handoff_refused"] = "handoff_refused"
    call_id: str | None = None
    """None: a handoff that the agent's file asked for, not its model."""
    name: str
    code: str
    message: str


class Nudged(BaseRecord):
    """A reply that was no end of the leg, and what the model is told for it."""

    type: Literal["nudged"] = "nudged"
    text: str


class StateChanged(BaseRecord):
    """Session variables that a leg writes; None takes one away. They count once the leg is committed."""

    type: Literal["state"] = "state"
    changes: dict[str, Any]
    by: str = ""
    """The tool that wrote them."""


class Delegated(BaseRecord):
    """A child job was begun for a tool call."""

    type: Literal["delegated"] = "delegated"
    call_id: str
    child: str
    """The child job's id."""
    agent: str
    objective: str = ""


class Noticed(BaseRecord):
    """Something that the user should know while the job goes on."""

    type: Literal["notice"] = "notice"
    text: str


class LegSuspended(BaseRecord):
    """The leg gave up its worker."""

    type: Literal["suspended"] = "suspended"
    cause: str
    delay_s: float = Field(ge=0, le=LATEST_MS / 1000)
    detail: str = ""


class Ended(BaseRecord):
    """The job's end; the last record of every job that is not retried."""

    type: Literal["ended"] = "ended"
    status: Literal["done", "unfinished", "failed", "cancelled", "dead"]
    """``unfinished``: there is an answer, and by its agent's own word it does not do what was asked."""
    reason: str
    answer: str | None = None
    error: str | None = None
    output: Any = None
    """A structured answer, where the agent declares one."""
    recovered: bool = Field(default=False, exclude_if=operator.not_)
    """The answer was given in the last turn of a leg that had reached a limit, which ``reason`` names."""


Record = Annotated[
    JobRequested
    | LegStarted
    | Routed
    | Unrouted
    | ModelReplied
    | ToolStarted
    | ToolFinished
    | HandedOff
    | Refused
    | Nudged
    | LoopDetected
    | LoopJudged
    | FellBack
    | LastTurn
    | Hooked
    | Guarded
    | GuardJudged
    | Repairing
    | LimitNear
    | Recalled
    | Served
    | StateChanged
    | Summarised
    | Delegated
    | NodeFinished
    | Noticed
    | ApprovalAsked
    | ToolPaused
    | Decided
    | LegSuspended
    | Retried
    | Forked
    | Ended,
    Field(discriminator="type"),
]

_RECORD: TypeAdapter[Record] = TypeAdapter(Record, config=ConfigDict(defer_build=True))


class Entry(NamedTuple):
    """A record in its place. A tuple: thousands of legs hold their journals, and the record alone has to be validated.

    ``seq`` counts from 1 within the job; ``at_ms`` is the server's clock, at most ``LATEST_MS``.
    """

    seq: int
    at_ms: int
    record: Record
    seal: Seal | None = None
    """What it is signed with, if it is."""
    text: str = ""
    """A signed record as it was written; empty for others."""
    size: int = 0
    """Characters of the record as it was read."""


def untrusted_in(records: Iterable[Record]) -> str:
    """Return the first untrusted text of these records, in words; empty: there is none."""
    return next((record.untrusted for record in records if isinstance(record, _MARKED) and record.untrusted), "")


_MARKED = (ToolFinished, ModelReplied, Recalled, NodeFinished)
"""What says whether text of unknown authors came in."""


def shared_in(entries: Iterable[Entry]) -> int:
    """Return how many steps at the beginning of a journal are another job's, from which it was forked; 0: none."""
    return max((entry.record.seq for entry in entries if isinstance(entry.record, Forked)), default=0)


def encode_record(record: Record) -> str:
    """Return the compact JSON form."""
    return record.model_dump_json(exclude_defaults=False, exclude_none=True)


def decode_record(text: str) -> Record:
    """Read ``encode_record``'s JSON; fields that a later version added are ignored."""
    return _RECORD.validate_json(text)
