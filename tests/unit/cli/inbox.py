"""An inbox in memory: the client's three methods for approvals, and what else a question needs of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ekiden.shared.approvals import Answer, ApprovalView, digest_of
from ekiden.shared.errors import AlreadyDecided, AmbiguousId, ApprovalGone, UnknownJob

JOB = "ahv7ht7pcatiso7p.1"
NOON_MS = 1_795_000_000_000


def asked(number: int = 1, *, job: str = JOB, tool: str = "bash", **fields: Any) -> ApprovalView:
    """An approval that waits."""
    args: Mapping[str, Any] = fields.pop("args", {"command": "pytest -q"})
    known: dict[str, Any] = {"leg": 1, "agent": "debugger", "definition": "d1", "call_id": f"c{number}"}
    known |= {"asked_at_ms": NOON_MS + number, "expires_at_ms": NOON_MS + 60_000, **fields}
    return ApprovalView(f"{job}:{number}", job, tool=tool, args=args, digest=digest_of(tool, args), **known)


@dataclass(frozen=True)
class Job:
    id: str
    status: str = "suspended"
    cwd: str = ""

    @property
    def is_over(self) -> bool:
        return self.status == "done"


@dataclass
class Inbox:
    """What a server with these approvals says."""

    all: dict[str, ApprovalView]
    jobs: dict[str, Job] = field(default_factory=lambda: {JOB: Job(JOB)})
    answers: list[Answer] = field(default_factory=list)
    refusal: Exception | None = None
    """What every answer is refused with."""

    @classmethod
    def of(cls, *approvals: ApprovalView) -> "Inbox":
        return cls({one.id: one for one in approvals})

    async def approvals(self, *, job: str | None = None, waiting: bool = True) -> list[ApprovalView]:
        found = [one for one in self.all.values() if job is None or f"{one.job}.".startswith(f"{job}.")]
        return [one for one in found if one.status == "waiting" or not waiting]

    async def approval(self, approval_id: str) -> ApprovalView:
        if approval_id not in self.all:
            raise ApprovalGone(f"there is no approval {approval_id!r}")
        return self.all[approval_id]

    async def answer(self, approval_id: str, answer: Answer) -> ApprovalView:
        found = await self.approval(approval_id)
        if self.refusal is not None:
            raise self.refusal
        if found.status != "waiting":
            raise AlreadyDecided(f"{found.status} by {found.by}", found.by, found.decided_at_ms)
        self.answers.append(answer)
        self.decide(approval_id, answer.status, by="ada", why=answer.why, answer=answer.answer, edited=answer.edited)
        return self.all[approval_id]

    def decide(self, approval_id: str, status: Any, **fields: Any) -> None:
        self.all[approval_id] = replace(self.all[approval_id], status=status, decided_at_ms=NOON_MS, **fields)

    async def job(self, job: str) -> Job:
        return self.jobs[job]

    async def children(self, job: str) -> list[Job]:
        return [one for one in self.jobs.values() if one.id.startswith(f"{job}.")]

    async def only_waits(self, job: str) -> bool:
        asking = {one.job for one in await self.approvals(job=job)}
        going_on = [one for one in (self.jobs[job], *await self.children(job)) if not one.is_over]
        with_questions_below = {one.id for one in going_on if any(f"{job}.".startswith(f"{one.id}.") for job in asking)}
        return bool(asking) and all(one.status == "suspended" and one.id in with_questions_below for one in going_on)

    async def resolve(self, prefix: str) -> str:
        if prefix in self.jobs:
            return prefix
        found = [job for job in self.jobs if job.startswith(prefix)]
        if len(found) > 1:
            raise AmbiguousId(f"several job ids begin with {prefix!r}")
        if not found:
            raise UnknownJob(f"no job id begins with {prefix!r}")
        return found[0]

    async def pools(self) -> list[Any]:
        return []
