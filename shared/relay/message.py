"""The queue message: a wake-up for one leg, in the form that Celery reads (protocol 2 on kombu's Redis lists).

Built here and not by Celery: a client needs no Celery to submit, and the commit script must push the text itself. A
contract test holds it together with what Celery builds and consumes. Read here, too: anybody may push anything to a
list, and Celery's consumer, which takes what it gets for a message, would end with its worker.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shared.handoff import VERSION, HandoffContext
from shared.stores.base import Outbox

__all__ = [
    "DISPATCH_QUEUE",
    "IDLE_QUEUE",
    "TASK",
    "LegMessage",
    "Unreadable",
    "agent_of",
    "outbox",
    "queue_for",
    "readable",
]

TASK = "ekiden.leg"
DISPATCH_QUEUE = "ekiden.dispatch"
IDLE_QUEUE = "ekiden.idle"
"""What a worker without agents consumes: nothing is ever sent there."""
_AGENT_PREFIX = "ekiden.agent."
MAX_BYTES = 262_144
"""What a message may take: ours stay under 4 KB."""

# The commit script puts in what must be new at each push: the number of the push, and the server's time in ms.
_PUSH_NUMBER = "\x01"
_PUSH_TIME = "\x02"


class LegMessage(BaseModel):
    """Which leg to wake."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = VERSION
    job: str
    leg: int
    handoff: HandoffContext


class Unreadable(ValueError):
    """Something in a queue is no message of ours; the text says why and repeats none of it."""


def queue_for(agent: str) -> str:
    """Return the queue of ``agent``'s legs."""
    return f"{_AGENT_PREFIX}{agent}"


def agent_of(queue: str) -> str | None:
    """Return the agent whose legs ``queue`` holds; None for other queues."""
    return queue.removeprefix(_AGENT_PREFIX) if queue.startswith(_AGENT_PREFIX) else None


def outbox(job: str, leg: int, queue: str, context: HandoffContext) -> Outbox:
    """Return the message that wakes ``leg``, with placeholders that the pushing script fills in."""
    message = LegMessage(job=job, leg=leg, handoff=context.for_wire())
    body = json.dumps([[message.model_dump(mode="json", exclude_none=True)], {}, _NO_CANVAS], separators=(",", ":"))
    envelope = json.dumps(_envelope(f"{job}:{leg}:{_PUSH_NUMBER}", queue), separators=(",", ":"))
    # With their neighbours: the queue is named after an agent, whose name may hold a backslash and what follows here.
    envelope = envelope.replace(':\\u0001"', f':{_PUSH_NUMBER}"').replace(':"\\u0002"', f":{_PUSH_TIME}")
    return Outbox(queue, f'{{"body":{json.dumps(body)},{envelope[1:]}')


_NO_CANVAS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def _envelope(task_id: str, queue: str) -> dict[str, object]:
    """Everything of the message but its body; holds no text of a user or a model."""
    return {
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {
            "lang": "py",
            "task": TASK,
            "id": task_id,
            "root_id": task_id,
            "parent_id": None,
            "group": None,
            "group_index": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "shadow": None,
            "timelimit": [None, None],
            "argsrepr": "-",
            "kwargsrepr": "-",
            "origin": "ekiden",
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
            "ekiden_ms": _PUSH_TIME,
        },
        "properties": {
            "correlation_id": task_id,
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": None,
            "delivery_tag": task_id,
        },
    }


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
    ignore_result: bool = True
    compression: None = None


class _Properties(_Checked):
    delivery_tag: str = Field(min_length=1)
    correlation_id: str | None = None
    reply_to: str | None = None
    delivery_mode: int = 2
    priority: int = 0
    body_encoding: Literal["base64"] | None = None
    delivery_info: dict[str, str] = Field(default_factory=dict)


class _Envelope(_Checked):
    body: str
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    headers: _Headers
    properties: _Properties


class _Newer(_Checked):
    """A message of a later version, whatever else is in it: whoever understands it will take it."""

    v: int = Field(gt=VERSION)
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


def readable(item: bytes, queue: str, loads: Callable[[str], Any]) -> dict[str, Any]:
    """Return what was in ``queue`` as Celery is to see it: what was checked, and nothing else. Raises ``Unreadable``.

    ``loads`` reads JSON as Celery does, which reads the body once more.
    """
    if len(item) > MAX_BYTES:
        raise Unreadable(f"it takes {len(item):,} bytes, and a message at most {MAX_BYTES:,}")
    try:
        envelope = _Envelope.model_validate(loads(item.decode()))
        envelope.properties.delivery_info = {"exchange": "", "routing_key": queue}
        body = envelope.body
        _BODY.validate_python(loads(base64.b64decode(body).decode() if envelope.properties.body_encoding else body))
    except ValidationError as error:
        raise Unreadable(f"it is no message of ours: {_first(error)}") from None
    except Exception as error:  # whatever makes a reader of JSON fail: bytes, depth, numbers, objects that it knows
        raise Unreadable(f"it cannot be read as JSON ({type(error).__name__})") from None
    return envelope.model_dump(by_alias=True)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)
