"""The part of the client that answers approvals: what waits for a person, and what they say to it."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ekiden.dispatcher.identity import Person, person_at
from ekiden.shared.approvals import Answer, ApprovalView, digest_of
from ekiden.shared.composition import LateHooks
from ekiden.shared.errors import AlreadyDecided, ApprovalGone, InvalidRequest, NotAnApprover, NotPermitted
from ekiden.shared.ids import is_job_id, root_of
from ekiden.shared.records import JobRequested
from ekiden.shared.relay.answering import decided_view, decision_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import JobView

__all__ = ["Approvals"]

_GONE = "there is no approval {!r} that waits (any more): `ekiden approvals list` shows those that do"


class Approvals(ABC):
    """Lists and answers approvals: of this client's jobs and of all others on its server."""

    _stores: Stores
    _hooks: LateHooks

    @abstractmethod
    async def children(self, job: str) -> list[JobView]:
        """Return the jobs that ``job`` has delegated, oldest first."""

    async def approvals(self, *, job: str | None = None, waiting: bool = True) -> list[ApprovalView]:
        """Return what waits for a person, of ``job`` and all that was delegated below it, or of all jobs.

        What expires first comes first. With ``waiting=False`` what was decided, too, in the order of the jobs: then
        ``job`` is needed. Raises ``InvalidRequest``.
        """
        if waiting:
            return await self._stores.jobs.waiting(job)
        if job is None:
            raise InvalidRequest("which job's approvals? Those that are decided are listed by job")
        return await self._stores.jobs.asked(await self._with_all_below(job))

    async def only_waits(self, job: str) -> bool:
        """Tell whether nothing of ``job``, and of what it has delegated, goes on before somebody answers."""
        asking = {one.job for one in await self.approvals(job=job)}
        return bool(asking) and await self._waits(job, asking)

    async def _waits(self, job: str, asking: Collection[str]) -> bool:
        if (await self._stores.jobs.job(job)).status != "suspended":
            return False
        below = [child.id for child in await self.children(job) if not child.is_over]
        if job not in asking and not below:
            return False
        return all([await self._waits(child, asking) for child in below])

    async def approval(self, id: str) -> ApprovalView:  # noqa: A002  # what everybody calls it
        """Return one approval, waiting or decided. Raises ``ApprovalGone``."""
        job = id.rpartition(":")[0]
        found = [view for view in await self._stores.jobs.asked([job]) if view.id == id] if is_job_id(job) else []
        if not found:
            raise ApprovalGone(_GONE.format(id))
        return found[0]

    async def answer(self, id: str, answer: Answer) -> ApprovalView:  # noqa: A002  # as above
        """Answer an approval once and for all; return it as decided.

        Raises:
            AlreadyDecided: somebody was quicker.
            ApprovalGone: it does not exist, has expired, or its job has ended.
            NotAnApprover: the rule that asks lets others answer.
            InvalidRequest: the answer does not fit what was asked, or is for another call than the one that was shown.
            NotPermitted: the Redis user may not decide, or the job is signed and this client has no key.
            NotConfirmed: it is decided, but replicas do not have it.
        """
        view = await self.approval(id)
        _require_waiting(view)
        _require_fit(view, answer)
        person = await person_at(self._stores, answer.by)
        await self._require_approver(view, person)
        origin = answer.origin or socket.gethostname()
        decided = decision_of(view, replace(answer, by=person.name, origin=origin), is_claimed=person.is_claimed)
        verdict = await self._stores.jobs.decide(decided)
        if verdict != "ok":
            _require_waiting(await self.approval(id))
            raise ApprovalGone(_GONE.format(id) if verdict != "expired" else _expired(view))
        now = decided_view(view, decided, await self._stores.now_ms())
        self._hooks.started().approval_decided(now)
        return now

    async def _require_approver(self, view: ApprovalView, person: Person) -> None:
        """Raise ``NotAnApprover`` unless this person may answer, ``NotPermitted`` where nobody would believe it."""
        is_signing = bool(self._stores.signing)
        if not is_signing and await self._stores.jobs.is_signed(view.job):
            raise NotPermitted(
                f"job {view.job!r} is signed, and this client has no key (ekiden.signing_key): no worker would believe "
                "its answer"
            )
        if not (view.approvers or view.separate):
            return
        if person.is_claimed and not is_signing:
            raise NotAnApprover(
                f"{view.rule or 'a rule'} says who may answer {view.id!r}, and nobody can tell who you are: give each "
                "person a user of the Redis server (`ekiden acl`), or sign (ekiden.signing_key)"
            )
        if view.approvers and person.name not in view.approvers:
            raise NotAnApprover(f"{person.name!r} may not answer {view.id!r}: {', '.join(view.approvers)} may")
        if view.separate:
            _require_another(view, person, await self._author_of(view), is_signing=is_signing)

    async def _author_of(self, view: ApprovalView) -> Person:
        entries = await self._stores.jobs.journal(root_of(view.job), limit=1)
        request = entries[0].record if entries else None
        if not isinstance(request, JobRequested):
            return Person("", is_claimed=True)
        return Person(request.by, request.is_claimed)

    async def _with_all_below(self, job: str) -> Sequence[str]:
        found = [job]
        for one in found:  # which grows
            found += [child.id for child in await self.children(one)]
        return found


def _require_waiting(view: ApprovalView) -> None:
    """Raise ``AlreadyDecided`` or ``ApprovalGone`` unless an answer to ``view`` can still count."""
    if view.status == "expired":
        raise ApprovalGone(_expired(view))
    if view.status == "void":
        raise ApprovalGone(f"approval {view.id!r} waits no more: its job has ended")
    if view.status != "waiting":
        who = (view.by or "somebody") + (" (by their own word)" if view.is_claimed else "")
        when = datetime.fromtimestamp(view.decided_at_ms // 1000, UTC).isoformat(" ").removesuffix("+00:00")
        where = f" from {view.origin}" if view.origin else ""
        message = f"approval {view.id!r} was {view.status} by {who} at {when} UTC{where}: the first answer counts"
        raise AlreadyDecided(message, view.by, view.decided_at_ms)


def _require_fit(view: ApprovalView, answer: Answer) -> None:
    """Raise ``InvalidRequest`` for an answer to something else than what ``view`` asks."""
    if answer.digest != view.digest or digest_of(view.tool, view.args) != view.digest:
        raise InvalidRequest(f"approval {view.id!r} is about another call than the answer: look at it again")
    if (answer.status == "answered") != (view.kind == "question") and answer.status != "denied":
        what = "a question: `ekiden approvals answer`" if view.kind == "question" else "a call: approve or deny it"
        raise InvalidRequest(f"approval {view.id!r} is {what}")
    if answer.status == "answered" and answer.answer is None:
        raise InvalidRequest(f"approval {view.id!r} is a question, and the answer has no text")
    if answer.status == "answered" and view.choices and answer.answer not in view.choices:
        raise InvalidRequest(f"approval {view.id!r} can be answered with {', '.join(map(repr, view.choices))}")
    if (answer.edited is not None or answer.always_for_job) and answer.status != "approved":
        raise InvalidRequest("only a call that is approved can be changed, or approved for the whole job")


def _require_another(view: ApprovalView, person: Person, author: Person, *, is_signing: bool) -> None:
    """Raise ``NotAnApprover`` unless somebody else than ``person`` has asked for the job, as far as can be told."""
    if not author.name or (author.is_claimed and not is_signing):
        raise NotAnApprover(
            f"{view.rule or 'a rule'} wants somebody else to answer {view.id!r} than who asked for the job, and nobody "
            "can tell who that was: submit as a user of the Redis server (`ekiden acl`), or sign (ekiden.signing_key)"
        )
    if author.name == person.name:
        raise NotAnApprover(f"{person.name!r} has asked for job {view.job!r}: somebody else must answer {view.id!r}")


def _expired(view: ApprovalView) -> str:
    return f"approval {view.id!r} has expired: the call was denied"
