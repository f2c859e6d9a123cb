"""The journal's record types. A record is written before its step has effects and after the step has results.

Stored for as long as a session lives: only add fields, with defaults. Stored examples are a test.
"""

import operator
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ekiden.shared.approvals import ApprovalKind, ApprovalView, WhenAsked
from ekiden.shared.definitions.model import ToolRules
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.base import FinishReason
from ekiden.shared.messages import Message, ToolResult, Usage
from ekiden.shared.risk import Risk
from ekiden.shared.signing import Seal

__all__ = [
    "LATEST_MS",
    "ApprovalAsked",
    "Decided",
    "Delegated",
    "Ended",
    "Entry",
    "HandedOff",
    "JobRequested",
    "LegStarted",
    "LegSuspended",
    "ModelReplied",
    "Noticed",
    "Nudged",
    "Record",
    "Refused",
    "Retried",
    "Routed",
    "RoutingStage",
    "StateChanged",
    "Summarised",
    "ToolFinished",
    "ToolStarted",
    "TransferKind",
    "Unrouted",
    "decode_record",
    "encode_record",
    "untrusted_in",
]


LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar knows what comes behind."""


_UNSAID: Any = Field(default="", exclude_if=operator.not_)
"""An empty text is not written."""


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
    request_id: str | None = None
    """Whose job it is: a server that went back in time gives the same number to another request."""
    strategy: str | None = None
    """How to route this request; None: as the dispatcher is configured."""
    traceparent: str | None = None
    """The ids of the job's trace and of its root span (W3C), which whoever ends the job records."""
    state: dict[str, Any] = Field(default_factory=dict)
    """Session variables that the request sets."""
    inputs: dict[str, Any] | None = None
    """What a delegated job was called with."""
    bounds: tuple[ToolRules, ...] = ()
    """Rules of the agents above a delegated job: it has no tool that one of them does not permit."""
    max_depth: int | None = None
    """The chain's greatest depth that the agents above a delegated job allow."""
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """What text of an unknown author the agents above a delegated job had read, in words; empty: none."""
    parent_traceparent: str | None = None
    """The span (W3C) that the root span of a delegated job hangs below."""
    approve: tuple[Risk, ...] = Field(default=(), exclude_if=operator.not_)
    """Risks of which whoever asked for the job has approved every call in advance, so far as they may."""
    by: str = _UNSAID
    """Who asked for it; empty: nobody said."""
    is_claimed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether that is the client's word: the server knows no users, or one for all."""
    when_asked: WhenAsked = Field(default="park", exclude_if=lambda word: word == "park")
    """What becomes of a call that nobody has approved in advance: it waits for a person, or is denied."""


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


class Unrouted(_Record):
    """The dispatcher chose nobody."""

    type: Literal["unrouted"] = "unrouted"
    why: str
    stages: tuple[RoutingStage, ...] = ()
    agents: tuple[str, ...] = ()
    """Whom the user may name instead, the likeliest first: those that the job's error lists, in its order."""


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
    cost_usd: float | None = None
    """None: nobody said what the model costs."""
    duration_ms: int = 0
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """Why its words are those of an unknown author, in words: so is who instructs the agent. Empty: they are not."""


class ToolStarted(_Record):
    """A tool call is about to have effects."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    package: str = Field(default="", exclude_if=operator.not_)
    """The distribution that the tool came with, and its version; empty: Ekiden, or nobody said."""
    is_known: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the agent has such a tool: else the name is the model's words."""


class ToolFinished(_Record):
    """A tool call's result. ``forgotten`` results (and their calls) are never shown to a model again."""

    type: Literal["tool_result"] = "tool_result"
    result: ToolResult
    duration_ms: int = 0
    forgotten: bool = False
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """What text came in with it whose author nobody vouches for, in words; empty: none."""


TransferKind = Literal["route", "handoff", "return"]
"""How control moves: a job begins at an agent (routed to it, or delegated), is handed over, comes back to who waits."""


def _kind_of(moved: dict[str, Any]) -> TransferKind:
    """Decide it when the move is made; journals of older versions do not say it, and are read by the same rule."""
    if moved["context"].returned is not None:
        return "return"
    return "handoff" if moved["leg"] else "route"


class HandedOff(_Record):
    """Control moved. ``call_id`` is the transfer call that this answers."""

    type: Literal["handoff"] = "handoff"
    context: HandoffContext
    call_id: str | None = None
    kind: TransferKind = Field(default_factory=_kind_of)


class Refused(_Record):
    """A transfer call that was not carried out, and the text that the model gets."""

    type: Literal["handoff_refused"] = "handoff_refused"
    call_id: str | None = None
    """None: a handoff that the agent's file asked for, not its model."""
    name: str
    code: str
    message: str


class Nudged(_Record):
    """A reply that was no end of the leg, and what the model is told for it."""

    type: Literal["nudged"] = "nudged"
    text: str


class StateChanged(_Record):
    """Session variables that a leg writes; None takes one away. They count once the leg is committed."""

    type: Literal["state"] = "state"
    changes: dict[str, Any]
    by: str = ""
    """The tool that wrote them."""


class Summarised(_Record):
    """A model's summary of the history that the agent took over."""

    type: Literal["summary"] = "summary"
    text: str
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    duration_ms: int = 0


class Delegated(_Record):
    """A child job was begun for a tool call."""

    type: Literal["delegated"] = "delegated"
    call_id: str
    child: str
    """The child job's id."""
    agent: str
    objective: str = ""


class Noticed(_Record):
    """Something that the user should know while the job goes on."""

    type: Literal["notice"] = "notice"
    text: str


class ApprovalAsked(_Record):
    """A call waits for a person: to be approved, or, as a question, to be answered. Bound to all that stands here."""

    type: Literal["approval_asked"] = "approval_asked"
    id: str
    """``<job>:<n>``, counted from 1 within the job."""
    call_id: str
    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    digest: str
    """Of the call (``approvals.digest_of``)."""
    agent: str
    definition: str
    """The digest of the agent's definition."""
    kind: ApprovalKind = "call"
    risk: Risk = "medium"
    reason: str = _UNSAID
    rule: str = _UNSAID
    """Which rule asked."""
    text: str = _UNSAID
    choices: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    preview: str = _UNSAID
    approvers: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    separate: bool = Field(default=False, exclude_if=operator.not_)
    timeout_s: float = Field(ge=0, le=LATEST_MS / 1000)
    """How long it waits, if the job lives so long."""

    @classmethod
    def of(cls, view: ApprovalView) -> "ApprovalAsked":
        """Return the record of what is about to be asked."""
        return cls(**{name: getattr(view, name) for name in cls.model_fields if name != "type"})

    def view(self, **known: Any) -> ApprovalView:
        """Return what people see of it; ``known``: what became of it."""
        said = {name: getattr(self, name) for name in type(self).model_fields if name != "type"}
        return ApprovalView(job=self.id.rpartition(":")[0], **said, **known)


class Decided(_Record):
    """What a person said to what ``id`` asked, or that nobody did in time."""

    type: Literal["decided"] = "decided"
    id: str
    call_id: str
    tool: str
    digest: str
    """Of the call that was looked at: it counts for no other."""
    status: Literal["approved", "denied", "answered", "expired"]
    by: str = _UNSAID
    """Who; empty: nobody."""
    is_claimed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the name is the client's word: the server knows no users, or one for all."""
    origin: str = _UNSAID
    why: str = _UNSAID
    answer: str | None = None
    edited: dict[str, Any] | None = None
    """The arguments that the person put in the place of the model's."""
    always_for_job: bool = Field(default=False, exclude_if=operator.not_)


class LegSuspended(_Record):
    """The leg gave up its worker."""

    type: Literal["suspended"] = "suspended"
    cause: str
    delay_s: float = Field(ge=0, le=LATEST_MS / 1000)
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
    output: Any = None
    """A structured answer, where the agent declares one."""


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
    | StateChanged
    | Summarised
    | Delegated
    | Noticed
    | ApprovalAsked
    | Decided
    | LegSuspended
    | Retried
    | Ended,
    Field(discriminator="type"),
]

_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


class Entry(BaseModel):
    """A record in its place: ``seq`` counts from 1 within the job, ``at_ms`` is the server's clock."""

    model_config = ConfigDict(frozen=True)

    seq: int
    at_ms: int = Field(ge=0, le=LATEST_MS)
    record: Record
    seal: Seal | None = Field(default=None, exclude=True, repr=False)
    """What it is signed with, if it is."""
    text: str = Field(default="", exclude=True, repr=False)
    """A signed record as it was written; empty for others."""


def untrusted_in(records: Iterable[Record]) -> str:
    """Return the first untrusted text of these records, in words; empty: there is none."""
    marked = (record.untrusted for record in records if isinstance(record, ToolFinished | ModelReplied))
    return next(filter(None, marked), "")


def encode_record(record: Record) -> str:
    """Return the compact JSON form."""
    return record.model_dump_json(exclude_defaults=False, exclude_none=True)


def decode_record(text: str) -> Record:
    """Read ``encode_record``'s JSON; fields that a later version added are ignored."""
    return _RECORD.validate_json(text)
