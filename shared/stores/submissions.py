"""What a job is created from, and the message that wakes its next leg."""

import hashlib
import json
from dataclasses import dataclass

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.outcomes import ChildJob
from ekiden.shared.records import JobRequested, Record

__all__ = ["ChildSubmission", "NewSession", "Outbox", "Submission", "digest_of", "summary_of"]


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
    records: tuple[Record, Record]
    """Its request, and the move of control to its agent."""


def digest_of(request: JobRequested) -> str:
    """Return the SHA-256 of what is asked for, which is the same each time that a request is submitted."""
    asked = request.model_dump(mode="json", exclude_defaults=True, exclude={"traceparent", "by", "is_claimed"})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def summary_of(prompt: str) -> str:
    """Return the beginning of a prompt on one line, as lists of jobs show it."""
    return " ".join(prompt[:2_000].split())[:120]
