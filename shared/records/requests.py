"""What a job is about, and who gets it first."""

import operator
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.approvals import WhenAsked
from ekiden.shared.definitions.rules import ToolRules
from ekiden.shared.messages import Usage
from ekiden.shared.records.base import UNSAID, BaseRecord
from ekiden.shared.risk import Risk
from ekiden.shared.stored_model import StoredModel

__all__ = ["JobRequested", "Routed", "RoutingStage", "Unrouted"]


class JobRequested(BaseRecord):
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
    """What the job's first agent was called with, where somebody did: an agent that delegates, or a program."""
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
    by: str = UNSAID
    """Who asked for it; empty: nobody said."""
    is_claimed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether that is the client's word: the server knows no users, or one for all."""
    when_asked: WhenAsked = Field(default="park", exclude_if=lambda word: word == "park")
    """What becomes of a call that nobody has approved in advance: it waits for a person, or is denied."""
    asks: bool = Field(default=False, exclude_if=operator.not_)
    """Whether whoever asked is there to say who takes it, where several agents are about as likely."""


class RoutingStage(StoredModel):
    """What one stage of the routing found, whether or not it decided."""

    stage: str
    agent: str | None = None
    """Its best agent, if it has one."""
    score: float = 0.0
    confidence: float = 0.0
    """How surely it decides rightly: of rules, that the agent is the right one; by meaning, that anybody here is."""
    threshold: float | None = None
    """What was needed of ``confidence``."""
    decided: bool = False
    note: str = ""
    """Why it did not decide, or who else was near."""
    duration_ms: float = 0.0
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Of the call of ``model``; None: nobody says what it costs."""


class Routed(BaseRecord):
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
    near: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Other agents that were about as likely."""


class Unrouted(BaseRecord):
    """The dispatcher chose nobody."""

    type: Literal["unrouted"] = "unrouted"
    why: str
    stages: tuple[RoutingStage, ...] = ()
    agents: tuple[str, ...] = ()
    """Whom the user may name instead, the likeliest first: those that the job's error lists, in its order."""
    is_tie: bool = Field(default=False, exclude_if=operator.not_)
    """Whether these are about as likely, and the user is to say which."""
