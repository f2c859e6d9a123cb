"""What the relay and the clients need of a store, in their words."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.errors import StopFlag
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.job_limits import NO_LIMITS, Spending
from ekiden.shared.outcomes import Transfer
from ekiden.shared.records import Decided, Ended, Entry, Record
from ekiden.shared.signing import Seal
from ekiden.shared.stores.submissions import ChildSubmission, Outbox, Submission
from ekiden.shared.stores.views import JobView

__all__ = [
    "UNSIGNED",
    "Appended",
    "Appends",
    "Claim",
    "ClaimVerdict",
    "Claimed",
    "CommitVerdict",
    "DecisionVerdict",
    "JobReader",
    "JobStore",
    "Lease",
    "OnBusy",
    "SignedContext",
    "StopFlag",
    "claims_in",
]

ClaimVerdict = Literal[
    "gone", "too_new", "finished", "stale", "suspended", "waiting", "busy", "quarantined", "deferred"
]
"""Why a leg is not ours. ``quarantined``: it took workers along before and must run alone in its process; ``deferred``:
it must, and waits on a timer until there is room for it."""
CommitVerdict = Literal["ok", "fenced", "moved", "gone", "cancelled", "refused", "finished", "stale"]
"""What became of a commit. ``moved``: the journal is not where the writer believed: the server went back in time."""
DecisionVerdict = Literal["ok", "decided", "gone", "another", "busy", "expired"]
"""What becomes of a decision. ``decided``: somebody has before; ``another``: it is about another call than the one that
was asked about; ``busy``: it has not expired yet."""
OnBusy = Literal["queue", "reject", "interrupt"]
"""What becomes of a submission to a session that has an unfinished job; ``interrupt`` puts it in front."""


class Appended(NamedTuple):
    """What an append comes back with."""

    seq: int
    """The journal's last position."""
    spending: Spending = NO_LIMITS


@dataclass
class Lease:
    """The right to write a running leg, from where its writer believes that the journal stands."""

    job: str
    leg: int
    fence: str
    """``<claims so far>.<owner>``: of one claim alone, also on a server that went back; ``''`` is the sweeper's."""
    catalog: str = ""
    seq: int = 0
    """The journal's last position. Each append moves it on; a server that stands elsewhere refuses every write."""
    head: str | None = None
    """The tag of the last entry that is signed together with the one before it; None: the store looks it up."""


def claims_in(fence: str) -> int:
    """Return how many claims of its job there had been with the one that ``fence`` is of."""
    return int(fence.partition(".")[0] or 0)


@dataclass(frozen=True)
class Claim:
    """Who wants to run which leg. ``owner`` is drawn anew for each claim: nobody else can have it."""

    job: str
    leg: int
    handoff_id: str
    agent: str
    owner: str
    worker: str = ""
    known: int = 0
    """How much of the journal the worker has already: with the claim comes what is behind, from the last of that on."""


class SignedContext(NamedTuple):
    """The context of a leg as it is stored."""

    seal: Seal | None
    text: str
    agent: str
    """Whose leg it is, says the message that led to the claim."""


UNSIGNED = SignedContext(None, "", "")


@dataclass(frozen=True)
class Claimed:
    """A leg that is now ours."""

    lease: Lease
    context: HandoffContext
    attempt: int
    used_ms: int
    """Time that earlier attempts at this leg consumed."""
    catalog: str
    cwd: str
    stop: StopFlag | None
    """Who stopped the job before this worker had it, if anybody did."""
    has_state: bool = False
    """Whether the session has variables."""
    is_untrusted: bool = False
    """Whether a job of the session has read text whose author nobody vouches for."""
    spending: Spending = field(default_factory=dict)
    """What the root job has used up of what has a limit."""
    sent_at: float = 0.0
    """The monotonic time just before the claim was sent: the lease lasts from here at least."""
    signed: SignedContext = UNSIGNED
    rows: list[str] = field(default_factory=list)
    """The first page of the journal, place, time and text of each entry: what ``JobStore.page`` has not read yet."""


class Appends(Protocol):
    """What a leg writes with."""

    async def append(
        self, lease: Lease, token: str, records: Sequence[Record], *, used_ms: int, is_progress: bool
    ) -> Appended:
        """Record steps, and move ``lease.seq`` on. The same ``token`` again changes nothing.

        Raises ``LostLease``, and ``JobCancelled`` once somebody stopped the job.
        """
        ...


class JobReader(Protocol):
    """What a leg reads of other jobs."""

    async def views(self, jobs: Sequence[str]) -> list[JobView]:
        """Return those of ``jobs`` that there are, in their order."""
        ...

    async def ends(self, jobs: Sequence[str]) -> dict[str, Ended]:
        """Return how those of ``jobs`` have ended that have, as their journals say it."""
        ...

    async def journal(
        self, job: str, after: int = 0, *, wait_s: float = 0.0, limit: int = 500, seen_ms: int | None = None
    ) -> list[Entry]:
        """Return up to ``limit`` entries behind position ``after``, waiting up to ``wait_s`` for the first.

        Raises ``WentBack`` unless the entry at ``after`` is the one that its reader saw, written at ``seen_ms``.
        """
        ...


class JobStore(Appends, JobReader, Protocol):
    """Jobs, their journals and their queues. Every method may raise ``StoreUnavailable``.

    Writes of a running leg are fenced: they raise ``LostLease`` (or answer ``fenced``) once another worker owns it, and
    so they do (or answer ``moved``) once the server knows less of the journal than the lease's ``seq`` says.
    An append and a commit of a leg may both put any of its steps into the journal; what those have spent counts for the
    budget of the root job, once, and only if they are written.
    Leases, timers and deadlines are in relay time, which the clock of a server that jumps leaves alone.
    """

    async def reserve(self, session: str | None, request_id: str, user: str = "", policy: str = "route") -> str:
        """Return a job id in ``session`` (None: a new one, of ``user`` and with ``policy``).

        The same id again for the same request id.
        """
        ...

    async def submit(self, submission: Submission, on_busy: OnBusy = "queue") -> bool:
        """Create the job, and queue it or let it wait in its session's inbox; False when it exists already.

        With ``begins`` its session is made by the same step, and its number 1 reserved.
        Raises ``SessionBusy`` with ``on_busy="reject"``, ``InvalidRequest`` when it exists and was asked for something
        else (prompt, agent, folder, strategy, variables), and ``WentBack`` when its number is that of another request
        (the server forgot it, or the session to begin is there already): reserve one again.
        """
        ...

    async def claim(
        self, claim: Claim, lease_s: float, *, quarantine_from: int = 1_000_000, defer_s: float = 0.0
    ) -> Claimed | ClaimVerdict:
        """Take the lease of a leg and record its start, or say why not.

        From ``quarantine_from`` attempts without progress on, the leg is ``quarantined`` for others here; with
        ``defer_s`` it is put aside for so long instead.
        """
        ...

    async def page(self, claimed: Claimed) -> list[Entry]:
        """Return the entries that came with a claim, once: 500 at most, from ``Claim.known`` on, or the first."""
        ...

    async def give_back(self, lease: Lease) -> Literal["ok", "refunded", "stale"]:
        """Take back, once, the attempt of a claim whose leg was lost before it ran; queue it if it is ours yet."""
        ...

    async def transfer(
        self,
        lease: Lease,
        commit_id: str,
        transfer: Transfer,
        records: Sequence[Record],
        outbox: Outbox,
        *,
        cycles: str = "deny",
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """Commit a move of control; the last record is its ``HandedOff``, and ``outbox`` wakes the leg behind it.

        ``cycles``: whether a handoff may go to an agent in the chain: ``deny``, ``parent`` or ``limit:<n>``.
        ``used_ms``: the time spent on the leg; None: as much as the store knows of.
        The second value is the code of a refusal, or who stopped the job.
        """
        ...

    async def suspend(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        delay_s: float,
        *,
        children: Sequence[ChildSubmission] = (),
        need: int = 0,
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """Commit a suspension that a timer ends, or ``children`` do: all, or as ``Suspended.need`` says.

        Children that there are not yet are begun. What ``records`` ask persons (``ApprovalAsked``) waits for them from
        then on, as long as it may, but no longer than the job: it ends the suspension when all of it is decided.
        ``used_ms``: the time spent on the leg, where some of ``records`` are progress; None: they are not, and it stays
        as it was.
        """
        ...

    async def finish(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        messages: Sequence[str],
        *,
        state: Mapping[str, Any] | None = None,
        used_ms: int | None = None,
    ) -> tuple[CommitVerdict, str]:
        """Commit the end of a job; the last record is its ``Ended``. ``messages`` (JSON) go to the session."""
        ...

    async def stop(
        self,
        job: str,
        flag: StopFlag,
        records: Sequence[Record],
        messages: Iterable[str],
        *,
        seq: int | None = None,
        unfollowed_ms: int | None = None,
    ) -> Literal["ok", "flagged", "finished", "moved"]:
        """Stop a job from outside: ended at once (``ok``), or flagged for the worker that runs it.

        ``seq`` is the journal position that ``records`` are made for; ``moved``: it is another one, nothing was ended.
        ``unfollowed_ms``: what ``unfollowed_ms()`` answered some seconds ago. If it would still, no pool runs, and a
        lease is over by a time that nobody vouches for, too.
        """
        ...

    async def unfollowed_ms(self) -> int | None:
        """Return up to when pools have followed relay time, if nobody vouches for it now: a jump, or no pool runs."""
        ...

    async def retry(self, job: str, outbox: Outbox, record: Record, deadline_s: float) -> None:
        """Let a job that failed or died go on behind its last record."""
        ...

    async def renew(self, leases: Sequence[Lease], lease_s: float) -> dict[str, Literal["lost", "cancelled"]]:
        """Renew leases in one call; return the jobs to stop."""
        ...

    def stopped(self) -> AsyncIterator[str]:
        """Yield the ids of running jobs that somebody stops, as it happens; a hint, renewals tell it too."""
        ...

    async def passed_ms(self) -> int:
        """Return a relay time that has certainly come, for one sweep to go by: to look at the clock costs commands."""
        ...

    async def overdue(self, grace_s: float, limit: int = 100, *, at_ms: int | None = None) -> list[str]:
        """Return jobs whose lease ran out, whose timer rang, or whose message may be lost, at ``at_ms`` (None: now)."""
        ...

    async def past_deadline(self, limit: int = 100, *, at_ms: int | None = None) -> list[str]:
        """Return unfinished jobs whose deadline has passed at ``at_ms`` (None: now)."""
        ...

    async def requeue(self, job: str, grace_s: float, max_attempts: int, *, at_ms: int | None = None) -> str:
        """Push a job's message again if it is needed at ``at_ms`` (None: now).

        Answers ``dead <leg>`` when its attempts are used up, ``stopped <flag>`` when somebody stopped it meanwhile,
        and ``unanswered`` when what it asked persons has expired, or some of it: to be decided so.
        """
        ...

    async def waiting(self, below: str | None = None) -> list[ApprovalView]:
        """Return what waits for a person, what expires first in front: of all jobs, or of one and those below it."""
        ...

    async def asked(self, jobs: Sequence[str]) -> list[ApprovalView]:
        """Return all that ``jobs`` have asked persons, whatever became of it, in order."""
        ...

    async def decide(self, decided: Decided, *, passed_ms: int | None = None) -> DecisionVerdict:
        """Decide what ``decided.id`` asks, once and for all, record that, and wake the leg if it waits for no other.

        ``passed_ms``: for what nobody has decided in time, the relay time that certainly has come; None: for persons.
        """
        ...

    async def is_signed(self, job: str) -> bool:
        """Tell whether the last entry of a journal is signed: one that is not would be no continuation of it."""
        ...

    async def forget(self, job: str) -> None:
        """Take a job whose record is gone out of every index: it would hide what is younger from the sweeper."""
        ...

    async def tidy(self, limit: int = 100) -> int:
        """Take jobs and sessions whose keys have expired out of the lists; return how many jobs."""
        ...

    async def job(self, job: str) -> JobView:
        """Return a job; raises ``UnknownJob``."""
        ...

    async def jobs(self, limit: int = 20, status: str | None = None) -> list[JobView]:
        """Return the newest root jobs, newest first, of one status or of all."""
        ...

    async def resolve(self, prefix: str) -> str:
        """Return the one job whose id begins so; raises ``UnknownJob`` or ``AmbiguousId``."""
        ...
