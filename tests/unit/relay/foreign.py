"""Things that may stand in a queue, and are no messages of ours, or are in spite of how they look."""

import json
from typing import Any

from ekiden.shared.handoff import first_context
from ekiden.shared.relay.message import outbox, queue_for

__all__ = ["BAD", "ODD_BUT_GOOD", "QUEUE", "good"]

QUEUE = queue_for("debugger")
JOB = "a" * 16 + ".1"


def good() -> dict[str, Any]:
    """A message of a job that there is not: as well-formed as any."""
    text = outbox(JOB, 1, QUEUE, first_context(JOB)).message
    return dict(json.loads(text.replace("\x01", "1").replace("\x02", "1700000000000")))


def changed(*path: str, to: Any) -> str:
    """A message that is wrong in one place."""
    message = good()
    inner = message
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return json.dumps(message)


def with_body(body: Any) -> str:
    return changed("body", to=body if isinstance(body, str) else json.dumps(body))


def without(*path: str) -> str:
    message = good()
    inner = message
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return json.dumps(message)


DEEP = "[" * 100_000 + "]" * 100_000
NAMED = {"id": "0123456789abcdef", "agent": "debugger"}
FIRST = {"v": 1, "job": JOB, "leg": 1, "handoff": first_context(JOB).model_dump(mode="json")}
BAD: dict[str, str | bytes] = {
    "a word": "hello",
    "null": "null",
    "a list": "[]",
    "a number of 5,000 digits": "1" * 5_000,
    "nothing": "",
    "binary": bytes(range(256)),
    "half a character": json.dumps(good()).encode() + b"\xff",
    "a compressed thing": b"\x1f\x8b\x08" + b"\x00" * 100,
    "a pickle": b"\x80\x04\x95" + b"x" * 50,
    "deep JSON": DEEP,
    "a deep body": with_body(DEEP[:50_000] + DEEP[-50_000:]),
    "far too long": json.dumps(good()) + " " * 300_000,
    "an object that kombu would make": '{"__type__": "decimal", "__value__": "hunter2"}',
    "no body": without("body"),
    "a body that is no text": changed("body", to=[[{}], {}, {}]),
    "a body that is no JSON": with_body("hello"),
    "a body without arguments": with_body([[], {}, None]),
    "a body with two arguments": with_body([[{}, {}], {}, None]),
    "a body with a name for its argument": with_body([[], {"message": {}}, None]),
    "a body with a chain": with_body([json.loads(good()["body"])[0], {}, {"chain": [{"task": "x"}]}]),
    "base64 that is none": changed("properties", "body_encoding", to="base64"),
    "an unknown encoding of the body": changed("properties", "body_encoding", to="rot13"),
    "an unknown content type": changed("content-type", to="application/x-hunter2"),
    "a pickled content type": changed("content-type", to="application/x-python-serialize"),
    "an unknown content encoding": changed("content-encoding", to="klingon"),
    "no content type": without("content-type"),
    "no properties": without("properties"),
    "properties that are a list": changed("properties", to=[]),
    "no delivery tag": without("properties", "delivery_tag"),
    "a delivery tag that is a list": changed("properties", "delivery_tag", to=[]),
    "no headers": without("headers"),
    "headers that are null": changed("headers", to=None),
    "headers that are a text": changed("headers", to="task"),
    "no task": without("headers", "task"),
    "an unknown task": changed("headers", "task", to="celery.backend_cleanup"),
    "a task that is a list": changed("headers", "task", to=[]),
    "no id": without("headers", "id"),
    "an id that is an object": changed("headers", "id", to={}),
    "a time to wait for": changed("headers", "eta", to="2999-01-01T00:00:00"),
    "a time that is none": changed("headers", "expires", to="soon"),
    "a time limit that is a number": changed("headers", "timelimit", to=5),
    "a compression": changed("headers", "compression", to="zlib"),
    "a leg without a job": with_body([[{"v": 2, "leg": 1, **NAMED}], {}, None]),
    "a leg that is a text": with_body([[{"v": 2, "job": JOB, "leg": "one", **NAMED}], {}, None]),
    "a leg without a handoff": with_body([[{"v": 2, "job": JOB, "leg": 1}], {}, None]),
    "a leg without an agent": with_body([[{"v": 2, "job": JOB, "leg": 1, "id": "x"}], {}, None]),
    "a leg with a handoff that is none": with_body([[{"v": 1, "job": JOB, "leg": 1, "handoff": {"v": 9}}], {}, None]),
}
ODD_BUT_GOOD: dict[str, str] = {
    "of the first form": with_body([[FIRST], {}, None]),
    "of a later version": with_body([[{"v": 99, "job": JOB, "leg": 1, "sash": "another form"}], {}, None]),
    "with what a later version added": changed("headers", "get", to={"shadows": "a method"}),
    "the same twice": json.dumps(good()),
    "the same, again": json.dumps(good()),
    "for another queue": changed("properties", "delivery_info", "routing_key", to="ekiden.agent.other"),
}
