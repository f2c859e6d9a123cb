"""The way in for those who may not run scripts: a request is pushed to one list, and a dispatcher creates its job.

The request id makes it happen once: a request that a dispatcher had taken when it died comes again, to another one.
What is no request is kept as a dead letter. Each push has a ticket, under which its answer is found: nobody else can
guess it, nor read it where it waits, and the first answer stands. Where requests are signed, others get no answer.
"""

import asyncio
import secrets
import time
from typing import Annotated, NamedTuple

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ekiden.dispatcher.requests import SubmitRequest, why_invalid
from ekiden.dispatcher.submitting import Created, create_job, unconfirmed
from ekiden.shared.errors import (
    EkidenError,
    Forged,
    InvalidRequest,
    NotConfirmed,
    NotPermitted,
    NotTaken,
    SessionBusy,
    StoreUnavailable,
    UnknownAgent,
    UnknownJob,
)
from ekiden.shared.signing import Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.intake import MAX_BYTES, RedisIntakeStore, Taken
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.replication import RequireReplicas

__all__ = ["ask_dispatcher", "serve_intake"]

ANSWER_S = 30.0
"""How long a client waits for a dispatcher: longer than one has that another must step in for."""
LOOK_S = (0.005, 0.1)
"""How long between two looks for the answer: first, then more each time, at most."""
WAIT_S = 2.0
"""How long a dispatcher waits for a request in one command; below the connection's timeout."""

_KIND = "request"
_NO_TICKET = "-" * 32

log = structlog.get_logger(__name__)


class _Ticket(BaseModel):
    """What is answered even where the rest cannot be read: another version may have written it."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    ticket: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _Pushed(_Ticket):
    """A request in the intake."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    request: SubmitRequest
    wait_replicas: Annotated[int, Field(ge=0, le=10)] = 0
    """How many replicas its sender wants to have the job before it counts."""

    @field_validator("request")
    @classmethod
    def _only_asks(cls, request: SubmitRequest) -> SubmitRequest:
        if request.on_busy == "interrupt":
            raise ValueError("who may only push requests may not cancel jobs (on_busy interrupt)")
        if request.approve:
            raise ValueError("who may only push requests may not approve calls (approve)")
        return request


class _Reply(BaseModel):
    """What a dispatcher answers: a job, or the error that refuses it; with ``NotConfirmed`` both."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    job: str = ""
    is_new: bool = False
    handoff_id: str = ""
    error: str = ""
    """The name of its class."""
    message: str = ""


_REFUSALS: dict[str, type[EkidenError]] = {
    error.__name__: error for error in (InvalidRequest, SessionBusy, UnknownAgent, UnknownJob)
}
"""What a dispatcher refuses a request with: what a client that may run scripts is told itself."""


async def ask_dispatcher(stores: Stores, request: SubmitRequest, wait_replicas: int) -> Created:
    """Let a dispatcher create the job of ``request``.

    Raises as ``Client.submit`` does, and ``NotTaken`` when no dispatcher answers within ``ANSWER_S``.
    """
    if request.on_busy == "interrupt":
        raise NotPermitted(
            "to interrupt is to cancel another job, which this Redis user may not do: it needs the role admin "
            "(`ekiden acl`), or let the request wait (--on-busy queue)"
        )
    if request.approve:
        raise NotPermitted(
            "to approve calls in advance is to answer approvals, which this Redis user may not do: it needs the role "
            "admin (`ekiden acl`), or let the calls wait for somebody who may (without --approve)"
        )
    pushed = _Pushed(ticket=secrets.token_hex(16), request=request, wait_replicas=wait_replicas)
    text = stores.signing.sign(_KIND, (), pushed.model_dump_json(exclude_none=True))
    if len(text.encode()) > MAX_BYTES:
        raise InvalidRequest(f"the request takes more than {MAX_BYTES:,} bytes: put what is long into a file")
    await stores.intake.push(text)
    return _created(await _answer(stores.intake, pushed), request)


async def _answer(intake: RedisIntakeStore, pushed: _Pushed) -> _Reply:
    pause_s, longest_s = LOOK_S
    deadline = time.monotonic() + ANSWER_S
    while (text := await intake.reply(pushed.ticket)) is None:
        if time.monotonic() > deadline:
            raise NotTaken(
                f"no dispatcher has answered within {ANSWER_S:g} s: the request stays in the intake until one runs "
                f"(`ekiden status` shows which do); request id {pushed.request.request_id!r} again is the same job. "
                "Where requests are signed (ekiden.signing_key), others are not answered"
            )
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, longest_s)
    return _Reply.model_validate_json(text)


def _created(reply: _Reply, request: SubmitRequest) -> Created:
    if reply.error == NotConfirmed.__name__:
        raise NotConfirmed(reply.message, reply.job, request.request_id)
    if reply.error:
        raise _REFUSALS.get(reply.error, EkidenError)(reply.message)
    return Created(reply.job, reply.is_new, reply.handoff_id)


class _Answer(NamedTuple):
    """What becomes of a request that was taken: who holds its ticket, if anybody, gets ``reply``."""

    taken: Taken
    ticket: str | None
    reply: _Reply
    request_id: str = ""
    wanted: int = 0
    """How many replicas its sender wants to have the job."""


async def serve_intake(stores: Stores, wait_replicas: int) -> None:
    """Serve what is in the intake, or wait for it a while: in order, so that of equal ids the first counts.

    ``wait_replicas``: replicas that are to have all of it before it is answered. What a request wants beyond that is
    not waited for, since all others would wait with it: its sender is told that it was not confirmed.
    """
    if not (taken := await stores.intake.take()):
        await stores.intake.wait(WAIT_S)
    unconfirmed_yet = Stores.on(stores.client, stores.url, None, stores.signing)
    served = [await _serve(unconfirmed_yet, one) for one in taken]
    answers = await _confirmed(stores.intake, [answer for answer in served if answer is not None], wait_replicas)
    for answer in answers:
        await stores.intake.settle(answer.taken, answer.ticket, answer.reply.model_dump_json())
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError  # before Python 3.12, wait_for in the client's library may have swallowed it


async def _confirmed(intake: RedisIntakeStore, answers: list[_Answer], own: int) -> list[_Answer]:
    """Return the answers as replicas have the jobs by now. All are waited for at once."""
    had, trouble = 0, ""
    if any(answer.reply.job and max(own, answer.wanted) for answer in answers):
        try:
            had = await intake.replicas(own)
        except (StoreUnavailable, NotPermitted) as error:
            trouble = str(error)
    return [_told(answer, own, had, trouble) if answer.reply.job else answer for answer in answers]


def _told(answer: _Answer, own: int, had: int, trouble: str) -> _Answer:
    if answer.wanted > own:
        trouble = trouble or f"{had} had it when the dispatcher had waited for {own}, as it is set up to"
    job = answer.reply.job
    try:
        RequireReplicas(max(own, answer.wanted)).heard(job, had, trouble)
    except NotConfirmed as error:
        message = str(unconfirmed(error, job, answer.request_id))
        return answer._replace(reply=_Reply(job=job, error=NotConfirmed.__name__, message=message))
    return answer


async def _serve(stores: Stores, taken: Taken) -> _Answer | None:
    """Create the job of one request, and return the answer; None: it failed for now, and comes again."""
    ticket = None
    try:
        text = _believed(taken, stores.signing)
        ticket = _ticket_of(text)
        pushed = _read(text)
        reply = await _create(stores, pushed.request)
        return _Answer(taken, ticket, reply, pushed.request.request_id, pushed.wait_replicas)
    except (InvalidRequest, Forged) as error:
        return await _refused(stores, taken, ticket, error)
    except (StoreUnavailable, NotPermitted) as error:
        log.warning("request_comes_again", error=str(error))
        return None
    except Exception:  # one request's trouble must not keep the others waiting
        log.exception("request_not_served")
        return await _refused(stores, taken, ticket, EkidenError("a fault of Ekiden's: see the dispatcher's log"))


async def _create(stores: Stores, request: SubmitRequest) -> _Reply:
    request = request.model_copy(update={"is_claimed": True})  # the list does not tell who has pushed
    try:
        return _Reply(**(await create_job(stores, request))._asdict())
    except tuple(_REFUSALS.values()) as error:
        return _Reply(error=type(error).__name__, message=str(error))


def _believed(taken: Taken, signing: Signing) -> str:
    """Return what was pushed. Raises ``Forged``, and ``InvalidRequest`` for what is too long."""
    if taken.is_too_long:
        raise InvalidRequest(f"it is longer than {MAX_BYTES:,} bytes")
    return signing.read(_KIND, (), taken.text)


def _ticket_of(text: str) -> str | None:
    try:
        return _Ticket.model_validate_json(text).ticket
    except ValidationError:
        return None


def _read(text: str) -> _Pushed:
    try:
        return _Pushed.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest(why_invalid(error)) from error


async def _refused(stores: Stores, taken: Taken, ticket: str | None, error: EkidenError) -> _Answer:
    """Keep what is no request as a dead letter, without its ticket, which only its sender may know."""
    reason = f"no request: {error}"
    log.error("dead_letter", queue=keys.INTAKE, reason=reason, see="ekiden status --dead-letters")
    text = taken.text.replace(ticket, _NO_TICKET) if ticket else taken.text
    await stores.dead_letters.bury(keys.INTAKE, reason, text.encode())
    message = f"the dispatcher does not take the request: {error}"
    return _Answer(taken, ticket, _Reply(error=type(error).__name__, message=message))
