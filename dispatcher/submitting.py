"""Creates the job of a request: in the client, or in a dispatcher for those who may not run scripts."""

from typing import NamedTuple

from ekiden.dispatcher.journal_cursor import JournalCursor
from ekiden.dispatcher.requests import SubmitRequest, require_agent
from ekiden.shared.errors import InvalidRequest, NotConfirmed, UnknownJob, WentBack
from ekiden.shared.handoff import first_context
from ekiden.shared.ids import first_job_for, is_session_id
from ekiden.shared.records import JobRequested
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.stores.catalogs import InForce
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import NewSession, Submission

__all__ = ["Created", "OwnJobs", "create_job", "unconfirmed"]

MAX_REMEMBERED = 10_000
"""Jobs of which one process remembers for which request they are: who follows its own, does it soon."""


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
        await _require_callable(stores, request, in_force)
    begins = NewSession(request.user, request.policy) if request.session is None else None
    while True:
        if begins is not None:
            job = first_job_for(request.request_id)
        else:
            job = await stores.jobs.reserve(request.session, request.request_id, request.user, request.policy)
        context = first_context(job, request.traceparent)
        box = outbox(job, 0, DISPATCH_QUEUE, context)
        submission = Submission(job, _record_of(request), context, box, request.deadline_s, begins)
        try:
            is_new = await stores.jobs.submit(submission, request.on_busy)
        except WentBack:  # the number is another's: whoever reserves it gets the next
            begins = None
            continue
        except NotConfirmed as error:
            raise unconfirmed(error, job, request.request_id) from error
        return Created(job, is_new, context.metadata.handoff_id)


def unconfirmed(error: NotConfirmed, job: str, request_id: str) -> NotConfirmed:
    """Return ``error`` as whoever submitted the job is told."""
    again = f"`ekiden job follow {job}` shows it; request id {request_id!r} again is the same job"
    return NotConfirmed(f"{error}. It may yet run: {again}", job, request_id)


class OwnJobs:
    """Remembers for which request each job of this process is: a server that goes back gives numbers again."""

    def __init__(self) -> None:
        self._requests: dict[str, str] = {}

    def note(self, job: str, request_id: str) -> None:
        """Remember a job."""
        self._requests[job] = request_id
        if len(self._requests) > MAX_REMEMBERED:
            del self._requests[next(iter(self._requests))]

    def cursor(self, job: str) -> JournalCursor:
        """Return the beginning of the job's journal, which only that of our own request is if it was created here."""
        return JournalCursor(job, self._requests.get(job))


async def _require_callable(stores: Stores, request: SubmitRequest, in_force: InForce) -> None:
    """Refuse inputs that the named agent does not take; what is missing where there are none, its dispatcher says."""
    if request.agent is None or request.inputs is None:
        return
    from ekiden.shared.definitions.agent_inputs import why_not_callable  # who submits without inputs does without
    from ekiden.shared.definitions.model import AgentDefinition
    from ekiden.shared.step_limits import run_limited

    text = await stores.catalogs.definition(in_force.digest, in_force.manifest[request.agent])
    definition, inputs = AgentDefinition.from_json(text), request.inputs
    if why := await run_limited(lambda: why_not_callable(definition, inputs, request.prompt)):
        raise InvalidRequest(why)


def _record_of(request: SubmitRequest) -> JobRequested:
    return JobRequested(
        prompt=request.prompt,
        agent=request.agent,
        strategy=request.strategy,
        cwd=request.cwd,
        traceparent=request.traceparent,
        state=request.state,
        inputs=request.inputs,
        request_id=request.request_id,
        approve=request.approve,
        when_asked=request.when_asked,
        asks=request.asks,
        by=request.by,
        is_claimed=bool(request.by) and request.is_claimed,
    )
