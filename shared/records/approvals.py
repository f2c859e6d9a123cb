"""The records of approvals: what persons are asked, and what they say. See ``records.py``."""

import operator
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.approvals import ApprovalKind, ApprovalView
from ekiden.shared.records.base import LATEST_MS, UNSAID, BaseRecord
from ekiden.shared.risk import Risk

__all__ = ["ApprovalAsked", "Decided", "ToolPaused"]


class ApprovalAsked(BaseRecord):
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
    reason: str = UNSAID
    rule: str = UNSAID
    """Which rule asked."""
    text: str = UNSAID
    choices: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    preview: str = UNSAID
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
        said = {name: value for name, value in self if name != "type"}
        return ApprovalView(job=self.id.rpartition(":")[0], **said, **known)


class ToolPaused(BaseRecord):
    """A tool that runs needs an answer of a person first; with it, it is called again, as from the beginning."""

    type: Literal["tool_paused"] = "tool_paused"
    call_id: str
    name: str
    state: str
    """What the tool wants back with the answer; its own words."""


class Decided(BaseRecord):
    """What a person said to what ``id`` asked, or that nobody did in time."""

    type: Literal["decided"] = "decided"
    id: str
    call_id: str
    tool: str
    digest: str
    """Of the call that was looked at: it counts for no other."""
    status: Literal["approved", "denied", "answered", "expired"]
    by: str = UNSAID
    """Who; empty: nobody."""
    is_claimed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the name is the client's word: the server knows no users, or one for all."""
    origin: str = UNSAID
    why: str = UNSAID
    answer: str | None = None
    edited: dict[str, Any] | None = None
    """The arguments that the person put in the place of the model's."""
    always_for_job: bool = Field(default=False, exclude_if=operator.not_)
