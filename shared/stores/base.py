"""What the relay and the clients need of a store, in their words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shared.handoff import HandoffContext
from shared.records import Ended, Entry, JobRequested, Record

__all__ = [
    "Claim",
    "ClaimVerdict",
    "Claimed",
    "CommitVerdict",
    "JobStatus",
    "JobStore",
    "JobView",
    "Lease",
    "Outbox",
    "PoolView",
    "Step",
    "Submission",
]

JobStatus = Literal["queued", "running", "suspended", "done", "failed", "cancelled", "dead"]
ClaimVerdict = Literal["gone", "too_new", "finished", "stale", "suspended", "busy"]
CommitVerdict = Literal["ok", "fenced", "gone", "cancelled", "refused"]


@dataclass(frozen=True)
class Outbox:
    """The next leg's queue message. The commit pushes it; the sweeper pushes it again when it was lost."""

    queue: str
    message: str


@dataclass(frozen=True)
class Submission:
    """A job to create: its request, the context of leg 0 and the message that wakes the dispatcher."""

    job: str
    request: JobRequested
    context: HandoffContext
    outbox: Outbox


@dataclass(frozen=True)
class Lease:
    """The right to write a running leg. ``fence`` is new with every claim."""

    job: str
    leg: int
    fence: str
    queue: str


@dataclass(frozen=True)
class Claim:
    """Who wants to run which leg. ``owner`` is unique per attempt, so that a repeated claim is recognised."""

    job: str
    leg: int
    handoff_id: str
    queue: str
    owner: str


@dataclass(frozen=True)
class Claimed:
    """A leg that is now ours."""

    lease: Lease
    context: HandoffContext
    attempt: int
    seq: int
    """The journal's last position."""
    used_ms: int
    """Time that earlier attempts at this leg consumed."""
    catalog: str
    cwd: str
    is_cancelled: bool


@dataclass(frozen=True)
class Step:
    """A transfer to commit."""

    context: HandoffContext
    record: Record
    outbox: Outbox
    catalog: str
    is_route: bool
    max_depth: int
    may_return: bool
    cycles: str
    """``deny``, ``parent`` or ``limit:<n>``."""


@dataclass(frozen=True)
class JobView:
    """A job as people see it. Times are the server's, in ms since the epoch."""

    id: str
    status: JobStatus
    agent: str
    leg: int
    queue: str
    summary: str
    created_ms: int
    ended_ms: int | None
    attempts: int
    depth: int
    catalog: str
    cwd: str
    reason: str | None
    result: str | None
    cancel_requested: bool

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, however."""
        return self.status in ("done", "failed", "cancelled", "dead")


@dataclass(frozen=True)
class PoolView:
    """What a pool process announces of itself."""

    id: str
    kind: Literal["dispatcher", "worker"]
    queues: tuple[str, ...]
    tools: tuple[str, ...] = ()
    capacity: int = 0
    in_flight: int = 0
    workspace_root: str | None = None
    version: str = ""
    host: str = ""
    pid: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)


class JobStore(Protocol):
    """Jobs, their journals and their queues. Every method may raise ``StoreUnavailable``.

    Writes of a running leg are fenced: they raise ``LostLease`` (or answer ``fenced``) once another worker owns it.
    """

    async def reserve(self, session: str | None, request_id: str, user: str = "") -> str:
        """Return a job id in ``session`` (None: a new session); the same id again for the same request id."""
        ...

    async def submit(self, submission: Submission) -> bool:
        """Create the job and push its first message; False when it exists already."""
        ...

    async def claim(self, claim: Claim, lease_s: float) -> Claimed | ClaimVerdict:
        """Take the lease of a leg, or say why not."""
        ...

    async def append(
        self, lease: Lease, token: str, records: Sequence[Record], *, used_ms: int, is_progress: bool
    ) -> int:
        """Record steps; return the journal's last position. The same ``token`` again changes nothing.

        Raises ``LostLease``, and ``JobCancelled`` once somebody cancelled the job.
        """
        ...

    async def transfer(self, lease: Lease, commit_id: str, step: Step) -> tuple[CommitVerdict, str]:
        """Commit a transfer; with ``refused`` the second value is the code."""
        ...

    async def suspend(self, lease: Lease, commit_id: str, record: Record, delay_s: float) -> CommitVerdict:
        """Commit a suspension that a timer ends."""
        ...

    async def finish(self, lease: Lease, commit_id: str, end: Ended, messages: Iterable[str]) -> CommitVerdict:
        """Commit the end of a job. ``messages`` (JSON) go to the session. Fence ``''``: the sweeper ends a dead leg."""
        ...

    async def cancel(self, job: str, end: Ended) -> Literal["ok", "flagged", "finished"]:
        """Cancel: ended at once (``ok``), or flagged for the worker that runs it."""
        ...

    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """Renew leases in one call; return the jobs to stop."""
        ...

    async def overdue(self, grace_s: float, limit: int = 100) -> list[str]:
        """Return jobs whose lease ran out, whose timer rang, or whose message may be lost."""
        ...

    async def requeue(self, job: str, grace_s: float, max_attempts: int) -> str:
        """Push a job's message again if it is needed; ``dead <leg>`` when its attempts are used up."""
        ...

    async def job(self, job: str) -> JobView:
        """Return a job; raises ``UnknownJob``."""
        ...

    async def jobs(self, limit: int = 20) -> list[JobView]:
        """Return the newest root jobs, newest first."""
        ...

    async def resolve(self, prefix: str) -> str:
        """Return the one job whose id begins so; raises ``UnknownJob`` or ``AmbiguousId``."""
        ...

    async def journal(self, job: str, after: int = 0, *, wait_s: float = 0.0, limit: int = 500) -> list[Entry]:
        """Return up to ``limit`` entries behind position ``after``, waiting up to ``wait_s`` for the first."""
        ...
