"""What of a queue's contents Celery gets to see: what was checked, and nothing else.

Anybody may push anything to a list, and Celery's consumer, which takes whatever it gets for a message, ends with its
worker.
"""

import base64
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ekiden.shared.relay.message import FORM, LegMessage

__all__ = ["Unreadable", "validated"]

MAX_BYTES = 262_144
"""What a message may take: ours stay under 4 KB."""


class Unreadable(ValueError):
    """Something in a queue is no message of ours; the text says why and repeats none of it."""


class _Checked(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class _Headers(_Checked):
    """What Celery reads of a message's headers. A leg has no time of its own: the relay has the timers."""

    lang: str = "py"
    task: Literal["ekiden.leg"]
    id: str = Field(min_length=1)
    root_id: str | None = None
    parent_id: str | None = None
    group: None = None
    retries: int = 0
    eta: None = None
    expires: None = None
    timelimit: tuple[None, None] | None = None
    shadow: str | None = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None
    origin: str | None = None
    ignore_result: bool | None = None
    compression: None = None


class _Properties(_Checked):
    delivery_tag: str = Field(min_length=1)
    correlation_id: str | None = None
    reply_to: str | None = None
    delivery_mode: int = 2
    priority: int = 0
    body_encoding: Literal["base64"] | None = None
    delivery_info: Any = None


class _Envelope(_Checked):
    body: str
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    headers: _Headers
    properties: _Properties


class _Newer(_Checked):
    """A message of a later version, whatever else is in it: whoever understands it will take it."""

    v: int = Field(gt=FORM)
    job: str
    leg: int


class _Embedded(_Checked):
    """What Celery puts beside a task's arguments; a leg has none of it."""

    callbacks: None = None
    errbacks: None = None
    chain: None = None
    chord: None = None


class _NoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


_BODY = TypeAdapter(tuple[tuple[LegMessage | _Newer], _NoArguments, _Embedded | None])


def validated(item: bytes, queue: str, loads: Callable[[str], Any]) -> dict[str, Any]:
    """Return what was in ``queue`` as Celery is to see it: what was checked, and nothing else. Raises ``Unreadable``.

    ``loads`` reads JSON as Celery does, which reads the body once more; of the envelope it sees what is returned.
    """
    if len(item) > MAX_BYTES:
        raise Unreadable(f"it takes {len(item):,} bytes, and a message at most {MAX_BYTES:,}")
    try:
        envelope = _Envelope.model_validate_json(item)
        envelope.properties.delivery_info = {"exchange": "", "routing_key": queue}
        body = envelope.body
        _BODY.validate_python(loads(base64.b64decode(body).decode() if envelope.properties.body_encoding else body))
    except ValidationError as error:
        raise Unreadable(_why(error)) from None
    except Exception as error:  # whatever makes a reader of JSON fail: bytes, depth, numbers, objects that it knows
        raise Unreadable(f"it cannot be read as JSON ({type(error).__name__})") from None
    return envelope.model_dump(by_alias=True)


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return f"it cannot be read as JSON ({first['ctx']['error']})"
    told = ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)
    return f"it is no message of ours: {told}"
