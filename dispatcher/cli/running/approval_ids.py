"""Which approval is meant by what somebody typed."""

from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import ApprovalView
from ekiden.shared.errors import AmbiguousId, ApprovalGone

__all__ = ["approval_of"]


async def approval_of(client: Client, typed: str) -> ApprovalView:
    """Return an approval by its id, ``JOB:N``, or by its job, where just one waits there; a job's beginning will do.

    Raises ``ApprovalGone``, ``UnknownJob``, ``AmbiguousId``.
    """
    prefix, colon, number = typed.rpartition(":")
    if colon:
        return await client.approval(f"{await client.resolve(prefix)}:{number}")
    job = await client.resolve(typed)
    waiting = await client.approvals(job=job)
    if not waiting:
        raise ApprovalGone(f"job {job!r} waits for nobody: `ekiden approvals list` shows what does")
    if len(waiting) > 1:
        raise AmbiguousId(f"job {job!r} asks several things: give one of {', '.join(one.id for one in waiting)}")
    return waiting[0]
