"""What becomes of approvals: the record of an answer, and of nobody's."""

from dataclasses import replace

from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.hooks.base import Hook
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.records import Decided
from ekiden.shared.stores.base import JobStore

__all__ = ["decided_view", "decision_of", "expire_approvals"]

UNANSWERED = "nobody answered in time"

log = LateLogger(__name__)


def decision_of(view: ApprovalView, answer: Answer, *, is_claimed: bool) -> Decided:
    """Return the record of what a person says to an approval."""
    return Decided(
        leg=view.leg,
        id=view.id,
        call_id=view.call_id,
        tool=view.tool,
        digest=answer.digest,
        status=answer.status,
        by=answer.by,
        is_claimed=is_claimed,
        origin=answer.origin,
        why=answer.why,
        answer=answer.answer,
        edited=None if answer.edited is None else dict(answer.edited),
        always_for_job=answer.always_for_job,
    )


def decided_view(view: ApprovalView, decided: Decided, at_ms: int) -> ApprovalView:
    """Return an approval as it is once it is decided."""
    names = ("status", "by", "is_claimed", "origin", "why", "answer", "edited")
    return replace(view, decided_at_ms=at_ms, **{name: getattr(decided, name) for name in names})


async def expire_approvals(store: JobStore, job: str, at_ms: int, hooks: Hook) -> None:
    """Deny what ``job`` has asked and nobody has answered until ``at_ms`` (relay time): its leg goes on."""
    for view in await store.asked([job]):
        if view.status != "waiting":
            continue
        decided = Decided(
            leg=view.leg,
            id=view.id,
            call_id=view.call_id,
            tool=view.tool,
            digest=view.digest,
            status="expired",
            why=UNANSWERED,
        )
        if (verdict := await store.decide(decided, passed_ms=at_ms)) == "ok":
            hooks.approval_decided(decided_view(view, decided, view.expires_at_ms))
        log.info("approval_expired", job=job, approval=view.id, verdict=verdict)
