"""What stands in a queue and is no message is kept aside with the reason, and the same worker goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from shared.handoff import first_context
from shared.relay.message import DISPATCH_QUEUE, outbox, queue_for
from tests.e2e.program import ANSWER_SCRIPT, Program, Running, wait_until
from tests.e2e.test_pools import wait_for_pools

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
HANDOFF = json.loads(good()["body"])[0][0]["handoff"]
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
    "a leg without a job": with_body([[{"v": 1, "leg": 1, "handoff": HANDOFF}], {}, None]),
    "a leg that is a text": with_body([[{"v": 1, "job": JOB, "leg": "one", "handoff": HANDOFF}], {}, None]),
    "a leg without a handoff": with_body([[{"v": 1, "job": JOB, "leg": 1}], {}, None]),
    "a leg with a handoff that is none": with_body([[{"v": 1, "job": JOB, "leg": 1, "handoff": {"v": 9}}], {}, None]),
}
ODD_BUT_GOOD: dict[str, str] = {
    "of a later version": with_body([[{"v": 99, "job": JOB, "leg": 1, "sash": "another form"}], {}, None]),
    "with what a later version added": changed("headers", "get", to={"shadows": "a method"}),
    "the same twice": json.dumps(good()),
    "the same, again": json.dumps(good()),
    "for another queue": changed("properties", "delivery_info", "routing_key", to="ekiden.agent.other"),
}


@pytest.fixture
def server(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def answers(ekiden: Program) -> None:
    done = ekiden.run("submit", "it fails with an error", "--wait")
    assert (done.stdout, done.returncode) == ("forty-two, says debugger\n", 0), done.stderr


def start_pools(ekiden: Program) -> list[Running]:
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    pools = [
        ekiden.start("dispatcher"),
        ekiden.start("worker", "--agents", "debugger", "--concurrency", "2", "--workspace-root", "."),
    ]
    wait_for_pools(ekiden, 2)
    return pools


def test_what_is_no_message_is_a_dead_letter_with_its_reason_and_the_worker_goes_on(
    ekiden: Program, redis_url: str, server: Redis
) -> None:
    pools = start_pools(ekiden)
    for item in (*BAD.values(), *ODD_BUT_GOOD.values()):
        server.lpush(QUEUE, item)
    answers(ekiden)  # behind all of it, through a worker with room for two legs
    found = json.loads(ekiden.run("status", "--json").stdout)["dead_letters"]
    letters = [json.loads(line) for line in ekiden.run("status", "--dead-letters", "--json").stdout.splitlines()]
    assert found["count"] == len(letters) == len(BAD)
    assert {letter["queue"] for letter in letters} == {QUEUE}
    assert found["newest"]["reason"] == letters[-1]["reason"]
    reasons = dict(zip(BAD, (letter["reason"] for letter in letters), strict=True))
    assert reasons["deep JSON"] == "it cannot be read as JSON (RecursionError)"
    assert reasons["binary"] == "it cannot be read as JSON (UnicodeDecodeError)"
    assert reasons["an unknown task"] == "it is no message of ours: headers.task: Input should be 'ekiden.leg'"
    assert reasons["no properties"] == "it is no message of ours: properties: Field required"
    worker = pools[1].output
    assert [line.count('"dead_letter"') for line in worker.splitlines()].count(1) == len(BAD)
    assert "hunter2" not in worker + json.dumps(list(reasons.values()))
    assert "Traceback" not in worker
    assert [pool.process.poll() for pool in pools] == [None, None]

    assert "the newest in ekiden.agent.debugger: it is no message of ours" in ekiden.run("status").stdout
    assert "! dead letters: " in ekiden.run("doctor").stdout
    shown = ekiden.run("status", "--dead-letters", "--clear").stdout
    assert "\nhello" not in shown
    assert shown.splitlines()[-1] == f"{len(BAD)} forgotten"
    assert ekiden.run("status", "--dead-letters").stdout == "No dead letters\n"
    assert json.loads(ekiden.run("status", "--json").stdout)["dead_letters"] == {"count": 0, "newest": None}


def test_a_key_of_another_type_is_put_aside_and_stalls_nobody(ekiden: Program, redis_url: str, server: Redis) -> None:
    server.set(DISPATCH_QUEUE, "there before the pools")
    pools = start_pools(ekiden)
    wait_until(lambda: server.get(f"ekiden:misplaced:{DISPATCH_QUEUE}") == b"there before the pools", 30, "aside")
    answers(ekiden)
    server.hset(QUEUE, "a", "hash")
    wait_until(lambda: not server.exists(QUEUE), 30, "what is no list is put aside")
    assert server.hgetall(f"ekiden:misplaced:{QUEUE}") == {b"a": b"hash"}
    answers(ekiden)
    assert [pool.process.poll() for pool in pools] == [None, None]
    letters = [json.loads(line) for line in ekiden.run("status", "--dead-letters", "--json").stdout.splitlines()]
    assert [letter["queue"] for letter in letters] == [DISPATCH_QUEUE, QUEUE]
    assert letters[1]["reason"].startswith("a hash stood where the list of messages should be: it was put aside as")


def test_options_that_do_nothing_are_refused(ekiden: Program, redis_url: str) -> None:
    for options in (["--clear"], ["--dead-letters", "--watch"]):
        refused = ekiden.run("status", *options)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
