"""Creates the job of a request: in the client, or in a dispatcher for those who may not run scripts."""

from typing import NamedTuple

from dispatcher.requests import SubmitRequest, require_agent
from shared.errors import NotConfirmed, UnknownJob
from shared.handoff import first_context
from shared.ids import is_session_id
from shared.records import JobRequested
from shared.relay.message import DISPATCH_QUEUE, outbox
from shared.stores.opening import Stores
from shared.stores.submissions import Submission

__all__ = ["Created", "create_job"]


class Created(NamedTuple):
    """A job that there is now."""

    job: str
    is_new: bool
    """False: an earlier submission with this request id has created it."""
    handoff_id: str
    """Of leg 0, where it is new."""


async def create_job(stores: Stores, request: SubmitRequest) -> Created:
    """Store and queue the job of ``request``, once however often it is asked.

    Raises as ``Client.submit`` does.
    """
    if request.session is not None and not is_session_id(request.session):  # which names keys
        raise UnknownJob(f"there is no session {request.session!r}: `ekiden sessions list` names them")
    in_force = await stores.catalogs.in_force() if request.agent is not None else None
    if request.agent is not None and in_force is not None:  # without one, the dispatcher decides when it comes
        require_agent(request.agent, in_force.manifest)
    job = await stores.jobs.reserve(request.session, request.request_id, request.user, request.policy)
    context = first_context(job, request.traceparent)
    submission = Submission(
        job, _record_of(request), context, outbox(job, 0, DISPATCH_QUEUE, context), request.deadline_s
    )
    try:
        is_new = await stores.jobs.submit(submission, request.on_busy)
    except NotConfirmed as error:
        again = (
            f"It may yet run: `ekiden job follow {job}` shows it; "
            f"request id {request.request_id!r} again is the same job"
        )
        raise NotConfirmed(f"{error}. {again}", job, request.request_id) from error
    return Created(job, is_new, context.metadata.handoff_id)


def _record_of(request: SubmitRequest) -> JobRequested:
    return JobRequested(
        prompt=request.prompt,
        agent=request.agent,
        strategy=request.strategy,
        cwd=request.cwd,
        traceparent=request.traceparent,
        state=request.state,
    )
