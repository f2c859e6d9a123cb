"""What a job is created from, and the message that wakes its next leg."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.outcomes import ChildJob
from ekiden.shared.records import JobRequested, Record

__all__ = ["ChildSubmission", "Fork", "NewSession", "Outbox", "Submission", "digest_of", "summary_of"]


@dataclass(frozen=True)
class Outbox:
    """The next leg's queue message. The commit pushes it; the sweeper pushes it again when it was lost."""

    queue: str
    message: str


@dataclass(frozen=True)
class NewSession:
    """What a session is made with."""

    user: str = ""
    policy: str = "route"


@dataclass(frozen=True)
class Submission:
    """A job to create: its request, the context of leg 0 and the message that wakes the dispatcher."""

    job: str
    request: JobRequested
    context: HandoffContext
    outbox: Outbox
    deadline_s: float
    begins: NewSession | None = None
    """The session whose first job it is, to be made with it; None: the job's number was reserved."""


@dataclass(frozen=True)
class ChildSubmission:
    """A child job that a suspension begins, at its first agent: without a routing of its own."""

    child: ChildJob
    outbox: Outbox
    records: Sequence[Record]
    """Its request, and the move of control to its agent; or what it goes on behind."""
    leg: int = 1


@dataclass(frozen=True)
class Fork:
    """A job to create behind steps that another one has recorded, in a session of its own."""

    job: str
    origin: str
    """The other job."""
    records: Sequence[Record]
    """Its whole journal: the other's steps, and its own first ones."""
    leg: int
    context: HandoffContext
    """Of the leg that goes on."""
    outbox: Outbox
    catalog: str
    """The digest that it is pinned to; empty: it is yet to be routed."""
    request_id: str
    asked: str
    """A digest of what was asked for: the same request id means the same."""
    deadline_s: float
    limits: Mapping[str, int] = field(default_factory=dict)
    """What it may use up, as the store counts it."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables."""


def digest_of(request: JobRequested) -> str:
    """Return the SHA-256 of what is asked for, which is the same each time that a request is submitted."""
    asked = request.model_dump(mode="json", exclude_defaults=True, exclude={"traceparent", "by", "is_claimed"})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def summary_of(prompt: str) -> str:
    """Return the beginning of a prompt on one line, as lists of jobs show it."""
    return " ".join(prompt[:2_000].split())[:120]
