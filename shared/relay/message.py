"""The queue message: a wake-up for one leg, in the form that Celery reads (protocol 2 on kombu's Redis lists).

Built here and not by Celery: a client needs no Celery to submit, and the commit script must push the text itself. A
contract test holds it together with what Celery builds and consumes.
"""

import json

from pydantic import BaseModel, ConfigDict

from ekiden.shared.handoff import VERSION, HandoffContext
from ekiden.shared.stores.submissions import Outbox

__all__ = [
    "DISPATCH_QUEUE",
    "IDLE_QUEUE",
    "TASK",
    "LegMessage",
    "agent_of",
    "outbox",
    "queue_for",
    "queue_of",
    "queue_of_leg",
]

TASK = "ekiden.leg"
DISPATCH_QUEUE = "ekiden.dispatch"
IDLE_QUEUE = "ekiden.idle"
"""What a worker without agents consumes: nothing is ever sent there."""
_AGENT_PREFIX = "ekiden.agent."

# The commit script puts in what must be new at each push: the number of the push, and the relay time in ms.
_PUSH_NUMBER = "\x01"
_PUSH_TIME = "\x02"


class LegMessage(BaseModel):
    """Which leg to wake."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = VERSION
    job: str
    leg: int
    handoff: HandoffContext


def queue_for(agent: str) -> str:
    """Return the queue of ``agent``'s legs."""
    return f"{_AGENT_PREFIX}{agent}"


def queue_of(message: LegMessage) -> str:
    """Return the queue that ``message`` belongs into."""
    return queue_of_leg(message.leg, message.handoff.to_agent)


def queue_of_leg(leg: int, agent: str) -> str:
    """Return the queue that the messages of a leg of ``agent`` go into."""
    return queue_for(agent) if leg else DISPATCH_QUEUE


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
