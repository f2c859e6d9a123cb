"""The queue message: a wake-up for one leg, in the form that Celery reads (protocol 2 on kombu's Redis lists).

Built here and not by Celery: a client needs no Celery to submit, and the commit script must push the text itself. A
contract test holds it together with what Celery builds and consumes.
"""

import json

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.stores.submissions import Outbox

__all__ = [
    "DISPATCH_QUEUE",
    "FORM",
    "IDLE_QUEUE",
    "TASK",
    "LegMessage",
    "agent_of",
    "outbox",
    "queue_for",
    "queue_of",
    "queue_of_leg",
]

FORM = 2
"""Of the message: whoever finds a later one leaves it to those who know it. The first carried the handoff along."""
TASK = "ekiden.leg"
DISPATCH_QUEUE = "ekiden.dispatch"
IDLE_QUEUE = "ekiden.idle"
"""What a worker without agents consumes: nothing is ever sent there."""
_AGENT_PREFIX = "ekiden.agent."

# The commit script puts in what must be new at each push: the number of the push, and the relay time in ms.
_PUSH_NUMBER = "\x01"
_PUSH_TIME = "\x02"


class LegMessage(BaseModel):
    """Which leg to wake, and no more: the claim brings the rest.

    The first form is read as well: during an upgrade both are in the queues, and in the hashes of jobs.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    v: int = FORM
    job: str
    leg: int
    id: str = Field(validation_alias=AliasChoices("id", AliasPath("handoff", "metadata", "handoff_id")))
    """Of the handoff that led to the leg."""
    agent: str = Field(validation_alias=AliasChoices("agent", AliasPath("handoff", "to_agent")))


def queue_for(agent: str) -> str:
    """Return the queue of ``agent``'s legs."""
    return f"{_AGENT_PREFIX}{agent}"


def queue_of(message: LegMessage) -> str:
    """Return the queue that ``message`` belongs into."""
    return queue_of_leg(message.leg, message.agent)


def queue_of_leg(leg: int, agent: str) -> str:
    """Return the queue that the messages of a leg of ``agent`` go into."""
    return queue_for(agent) if leg else DISPATCH_QUEUE


def agent_of(queue: str) -> str | None:
    """Return the agent whose legs ``queue`` holds; None for other queues."""
    return queue.removeprefix(_AGENT_PREFIX) if queue.startswith(_AGENT_PREFIX) else None


def outbox(job: str, leg: int, queue: str, context: HandoffContext) -> Outbox:
    """Return the message that wakes ``leg``, with placeholders that the pushing script fills in."""
    message = LegMessage(job=job, leg=leg, id=context.metadata.handoff_id, agent=context.to_agent)
    body, name = _compact(f"[[{message.model_dump_json()}],{{}},{{}}]"), _compact(queue)
    task = f'{_compact(f"{job}:{leg}:")[:-1]}{_PUSH_NUMBER}"'
    return Outbox(queue, _ENVELOPE.format(body=body, task=task, queue=name))


_compact = json.JSONEncoder(separators=(",", ":")).encode

_ENVELOPE = (
    '{{"body":{body},"content-type":"application/json","content-encoding":"utf-8",'
    f'"headers":{{{{"task":"{TASK}","id":{{task}},"ignore_result":true,"ekiden_ms":{_PUSH_TIME}}}}},'
    '"properties":{{"correlation_id":{task},"delivery_info":{{"exchange":"","routing_key":{queue}}},'
    '"body_encoding":null,"delivery_tag":{task}}}}}'
)
"""What Celery and kombu need beside the body, and no more; holds no text of a user or a model."""
