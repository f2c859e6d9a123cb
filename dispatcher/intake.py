"""The way in for those who may not run scripts: a request is pushed to one list, and a dispatcher creates its job.

The request id makes it happen once: a request that a dispatcher had taken when it died comes again, to another one.
What is no request is kept as a dead letter. Each push has a ticket, under which its answer is found.
"""

import asyncio
import time
import uuid
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ekiden.dispatcher.requests import SubmitRequest, why_invalid
from ekiden.dispatcher.submitting import Created, create_job
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
from ekiden.shared.signing import Signing, split
from ekiden.shared.stores import keys
from ekiden.shared.stores.confirming import Insisting
from ekiden.shared.stores.intake import MAX_BYTES, RedisIntakeStore, Taken
from ekiden.shared.stores.opening import Stores

__all__ = ["ask_dispatcher", "serve_intake"]

ANSWER_S = 30.0
"""How long a client waits for a dispatcher: longer than one has that another must step in for."""
LOOK_S = (0.005, 0.1)
"""How long between two looks for the answer: first, then more each time, at most."""
WAIT_S = 2.0
"""How long a dispatcher waits for a request in one command; below the connection's timeout."""

_KIND = "request"

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
    def _cancels_nothing(cls, request: SubmitRequest) -> SubmitRequest:
        if request.on_busy == "interrupt":
            raise ValueError("who may only push requests may not cancel jobs (on_busy interrupt)")
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
    pushed = _Pushed(ticket=uuid.uuid4().hex, request=request, wait_replicas=wait_replicas)
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
                f"no dispatcher has taken the request within {ANSWER_S:g} s: it stays in the intake until one runs "
                f"(`ekiden status` shows which do); request id {pushed.request.request_id!r} again is the same job"
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


async def serve_intake(stores: Stores, wait_replicas: int) -> None:
    """Serve what is in the intake, or wait for it a while. ``wait_replicas``: at least, for each job."""
    if not (taken := await stores.intake.take()):
        await stores.intake.wait(WAIT_S)
    await asyncio.gather(*(_serve(stores, one, wait_replicas) for one in taken))


async def _serve(stores: Stores, taken: Taken, wait_replicas: int) -> None:
    """Create the job of one request, and answer; what fails for now comes again."""
    try:
        pushed = _read(taken, stores.signing)
        created = await _create(stores, pushed, wait_replicas)
    except (InvalidRequest, Forged) as error:
        await _refuse(stores, taken, error)
    except (StoreUnavailable, NotPermitted) as error:
        log.warning("request_comes_again", error=str(error))
    except Exception:  # one request's trouble must not keep the others waiting
        log.exception("request_not_served")
        await _refuse(stores, taken, EkidenError("a fault of Ekiden's: see the dispatcher's log"))
    else:
        await stores.intake.settle(taken, pushed.ticket, created.model_dump_json())


async def _create(stores: Stores, pushed: _Pushed, wait_replicas: int) -> _Reply:
    insisting = Stores.on(
        stores.client, stores.url, Insisting(max(pushed.wait_replicas, wait_replicas)), stores.signing
    )
    try:
        return _Reply(**(await create_job(insisting, pushed.request))._asdict())
    except NotConfirmed as error:
        return _Reply(job=error.job, error=NotConfirmed.__name__, message=str(error))
    except tuple(_REFUSALS.values()) as error:
        return _Reply(error=type(error).__name__, message=str(error))


def _read(taken: Taken, signing: Signing) -> _Pushed:
    """Return the request. Raises ``InvalidRequest`` for what is none, ``Forged``."""
    if taken.is_too_long:
        raise InvalidRequest(f"it is longer than {MAX_BYTES:,} bytes")
    try:
        return _Pushed.model_validate_json(signing.read(_KIND, (), taken.text))
    except ValidationError as error:
        raise InvalidRequest(why_invalid(error)) from error


async def _refuse(stores: Stores, taken: Taken, error: EkidenError) -> None:
    """Keep what is no request as a dead letter, and tell who holds its ticket, if it has one."""
    reason = f"no request: {error}"
    log.error("dead_letter", queue=keys.INTAKE, reason=reason, see="ekiden status --dead-letters")
    await stores.dead_letters.bury(keys.INTAKE, reason, taken.text.encode())
    reply = _Reply(error=type(error).__name__, message=f"the dispatcher does not take the request: {error}")
    await stores.intake.settle(taken, _ticket_of(taken), reply.model_dump_json())


def _ticket_of(taken: Taken) -> str | None:
    try:
        return _Ticket.model_validate_json(split(taken.text)[1]).ticket
    except ValidationError:
        return None
