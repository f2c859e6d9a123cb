"""The journal's record types. A record is written before its step has effects and after the step has results.

Stored for as long as a session lives: only add fields, with defaults. Stored examples are a test.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from shared.handoff import HandoffContext
from shared.llm.base import FinishReason
from shared.messages import Message, ToolResult, Usage

__all__ = [
    "Ended",
    "Entry",
    "HandedOff",
    "JobRequested",
    "LegStarted",
    "ModelReplied",
    "Noticed",
    "Paused",
    "Record",
    "Refused",
    "Retried",
    "Routed",
    "RoutingStage",
    "ToolFinished",
    "ToolStarted",
    "decode_record",
    "encode_record",
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    leg: int = 0


class JobRequested(_Record):
    """What the user asked for; the first record of every job."""

    type: Literal["request"] = "request"
    prompt: str
    agent: str | None = None
    """The agent that the user named, if any: the router then has nothing to choose."""
    cwd: str | None = None
    """The folder that file tools start in."""
    strategy: str | None = None
    """How to route this request; None: as the dispatcher is configured."""
    traceparent: str | None = None
    """The ids of the job's trace and of its root span (W3C), which whoever ends the job records."""


class LegStarted(_Record):
    """A worker took the leg."""

    type: Literal["leg_started"] = "leg_started"
    agent: str
    attempt: int
    worker: str


class RoutingStage(BaseModel):
    """What one stage of the routing found, whether or not it decided."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stage: str
    agent: str | None = None
    """Its best agent, if it has one."""
    score: float = 0.0
    confidence: float = 0.0
    threshold: float | None = None
    """What was needed: of ``confidence`` for rules, of ``score`` by meaning."""
    decided: bool = False
    note: str = ""
    """Why it did not decide, or who else was near."""
    duration_ms: float = 0.0
    model: str = ""
    usage: Usage = Usage()


class Routed(_Record):
    """The dispatcher chose the first agent."""

    type: Literal["routed"] = "routed"
    agent: str
    stage: str
    score: float
    confidence: float
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()
    reason: str = ""
    """What a model said of its choice."""
    stages: tuple[RoutingStage, ...] = ()


class ModelReplied(_Record):
    """A model's answer, before any of its tool calls runs."""

    type: Literal["model_reply"] = "model_reply"
    turn: int
    message: Message
    finish: FinishReason = "stop"
    detail: str = ""
    """The provider's word for an unusual finish."""
    usage: Usage = Usage()
    model: str = ""
    duration_ms: int = 0


class ToolStarted(_Record):
    """A tool call is about to have effects."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str


class ToolFinished(_Record):
    """A tool call's result. ``forgotten`` results (and their calls) are never shown to a model again."""

    type: Literal["tool_result"] = "tool_result"
    result: ToolResult
    duration_ms: int = 0
    forgotten: bool = False


class HandedOff(_Record):
    """Control moved. ``call_id`` is the transfer call that this answers."""

    type: Literal["handoff"] = "handoff"
    context: HandoffContext
    call_id: str | None = None


class Refused(_Record):
    """A transfer call that was not carried out, and the text that the model gets."""

    type: Literal["handoff_refused"] = "handoff_refused"
    call_id: str
    name: str
    code: str
    message: str


class Noticed(_Record):
    """Something that the user should know while the job goes on."""

    type: Literal["notice"] = "notice"
    text: str


class Paused(_Record):
    """The leg gave up its worker."""

    type: Literal["suspended"] = "suspended"
    cause: str
    delay_s: float
    detail: str = ""


class Retried(_Record):
    """Somebody let a job that failed or died go on behind its last record."""

    type: Literal["retried"] = "retried"


class Ended(_Record):
    """The job's end; the last record of every job that is not retried."""

    type: Literal["ended"] = "ended"
    status: Literal["done", "failed", "cancelled", "dead"]
    reason: str
    answer: str | None = None
    error: str | None = None


Record = Annotated[
    JobRequested
    | LegStarted
    | Routed
    | ModelReplied
    | ToolStarted
    | ToolFinished
    | HandedOff
    | Refused
    | Noticed
    | Paused
    | Retried
    | Ended,
    Field(discriminator="type"),
]

_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


class Entry(BaseModel):
    """A record in its place: ``seq`` counts from 1 within the job, ``at_ms`` is the server's clock."""

    model_config = ConfigDict(frozen=True)

    seq: int
    at_ms: int
    record: Record


def encode_record(record: Record) -> str:
    """Return the compact JSON form."""
    return record.model_dump_json(exclude_defaults=False, exclude_none=True)


def decode_record(text: str) -> Record:
    """Read ``encode_record``'s JSON; fields that a later version added are ignored."""
    return _RECORD.validate_json(text)
