"""Creates jobs, and remembers for which request each is: a server that goes back in time gives numbers again."""

from typing import NamedTuple

from dispatcher.places import Place
from shared.errors import NotConfirmed, WentBack
from shared.handoff import first_context
from shared.records import JobRequested
from shared.relay.message import DISPATCH_QUEUE, outbox
from shared.settings import SessionPolicy
from shared.stores.base import JobStore, OnBusy
from shared.stores.submissions import Submission

__all__ = ["Submitter", "Wanted"]

MAX_REMEMBERED = 10_000
"""Jobs of which one process remembers for which request they are: who follows its own, does it soon."""


class Wanted(NamedTuple):
    """A request, and where and how it is to become a job."""

    request: JobRequested
    session: str | None
    """An existing session; None: a new one."""
    user: str
    policy: SessionPolicy
    on_busy: OnBusy
    deadline_s: float


class Submitter:
    """Creates jobs in ``jobs``."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._requests: dict[str, str] = {}

    def place(self, job: str) -> Place:
        """Return the beginning of the job's journal, which only that of our own request is if it was created here."""
        return Place(job, self._requests.get(job))

    async def create(self, wanted: Wanted) -> tuple[Submission, bool]:
        """Create the job, or find the one that this request has created before; tell whether it is new."""
        request_id = str(wanted.request.request_id)
        while True:
            job = await self._jobs.reserve(wanted.session, request_id, wanted.user, wanted.policy)
            context = first_context(job, wanted.request.traceparent or "")
            box = outbox(job, 0, DISPATCH_QUEUE, context)
            submission = Submission(job, wanted.request, context, box, wanted.deadline_s)
            self._remember(job, request_id)
            try:
                return submission, await self._jobs.submit(submission, wanted.on_busy)
            except WentBack:  # the server has forgotten that the number is ours, and so will not tell us the same again
                continue
            except NotConfirmed as error:
                again = f"`ekiden job follow {job}` shows it; request id {request_id!r} again is the same job"
                raise NotConfirmed(f"{error}. It may yet run: {again}", job, request_id) from error

    def _remember(self, job: str, request_id: str) -> None:
        self._requests[job] = request_id
        if len(self._requests) > MAX_REMEMBERED:
            del self._requests[next(iter(self._requests))]
