"""The queue message is what Celery itself would send: a stock worker consumes it."""

import asyncio
import json
import queue
from base64 import b64decode
from typing import Any

import pytest
from celery import Celery
from kombu.utils.json import loads
from redis import Redis as SyncRedis

from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.shared.relay.message import DISPATCH_QUEUE, TASK, LegMessage, agent_of, outbox, queue_for
from ekiden.shared.relay.message_validation import validated
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.submissions import Submission
from tests.conftest import Backend
from tests.contract.relay_world import claimed, step_to, submission, submitted
from tests.integration.celery_worker import DEADLINE_S, kombu_url, working

JOB = "a" * 16 + ".1"
NASTY = 'say "hi" \\ \\n \\u0001 \\1 %1 \x00\x01\x02\x7f\u2028 好 🐛 {"ekiden_ms": 5}'


def stock_app(valkey_url: str) -> Celery:
    """A Celery app as anybody would write it."""
    return Celery("stock", broker=kombu_url(valkey_url), set_as_current=False)


@pytest.fixture
def server(valkey_url: str) -> SyncRedis:
    client = SyncRedis.from_url(valkey_url, decode_responses=True)
    client.flushall()
    return client


def context_with(text: str) -> HandoffContext:
    """A handoff whose every field is ``text``."""
    return first_context(JOB).advance("fixer", text, context=text, summary=text, payload={"text": text})


def woken(job: str, leg: int, context: HandoffContext) -> LegMessage:
    """The message that wakes a leg."""
    return LegMessage(job=job, leg=leg, id=context.metadata.handoff_id, agent=context.to_agent)


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_stock_worker_consumes_what_submit_pushed(valkey_url: str, server: SyncRedis, pool: str) -> None:
    app, got = stock_app(valkey_url), queue.Queue[tuple[Any, ...]]()

    @app.task(name=TASK, bind=True, shared=False)
    def leg(self: Any, message: dict[str, Any]) -> None:
        request = self.request
        got.put((message, request.id, request.delivery_info, request.correlation_id, request.ignore_result))

    async def submit() -> Submission:
        stores = open_stores(valkey_url)
        made = submission(await stores.jobs.reserve(None, "r"), NASTY)
        assert await stores.jobs.submit(made)
        await stores.close()
        return made

    made = asyncio.run(submit())
    with working(app, DISPATCH_QUEUE, pool, concurrency=1):
        message, task_id, delivery, correlation_id, ignores_result = got.get(timeout=DEADLINE_S)
    assert LegMessage.model_validate(message) == woken(made.job, 0, made.context)
    assert task_id == correlation_id == f"{made.job}:0:1"
    assert delivery["routing_key"] == DISPATCH_QUEUE
    assert ignores_result is True


def test_our_headers_are_of_those_that_celery_makes(valkey_url: str) -> None:
    theirs = stock_app(valkey_url).amqp.as_task_v2("id", TASK, args=(), kwargs={}).headers
    ours = json.loads(pushed(outbox(JOB, 1, queue_for("x"), first_context(JOB)).message))["headers"]
    assert set(ours) - {"ekiden_ms"} <= set(theirs)
    assert ours["task"] == theirs["task"]


def test_our_envelope_is_of_that_which_kombu_makes(valkey_url: str, server: SyncRedis) -> None:
    app = stock_app(valkey_url)
    app.send_task(TASK, args=[{}], queue=DISPATCH_QUEUE, ignore_result=True)
    app.close()
    theirs = json.loads(server.rpop(DISPATCH_QUEUE))  # type: ignore[arg-type]  # redis-py's sync and async in one type
    ours = json.loads(pushed(outbox(JOB, 0, DISPATCH_QUEUE, first_context(JOB)).message))
    assert set(ours) == set(theirs)
    assert set(ours["properties"]) <= set(theirs["properties"])
    for name in ("content-type", "content-encoding"):
        assert ours[name] == theirs[name]
    assert ours["properties"]["delivery_info"] == theirs["properties"]["delivery_info"]


def test_what_celery_itself_would_send_is_read_as_well(valkey_url: str, server: SyncRedis) -> None:
    app, message = stock_app(valkey_url), woken(JOB, 1, first_context(JOB)).model_dump(mode="json")
    app.send_task(TASK, args=[message], queue=DISPATCH_QUEUE)
    app.close()
    item = server.rpop(DISPATCH_QUEUE)
    assert isinstance(item, str)
    passed = validated(item.encode(), DISPATCH_QUEUE, loads)
    assert loads(b64decode(passed["body"]).decode())[0] == [message]


def pushed(message: str) -> str:
    """The message as the pushing script completes it."""
    return message.replace("\x01", "3").replace("\x02", "1700000000000")


def test_a_message_is_small_and_carries_no_text_whatever_is_handed_over() -> None:
    message = outbox(JOB, 1, queue_for("fixer"), context_with(NASTY * 1_000)).message
    assert len(message.encode()) < 512
    assert "say" not in message


@pytest.mark.parametrize(
    "agent", ["code-fixer", "代码修复", "Billing Agent", 'a"b', "a\\b", "\\u0001", ":\\u0001", "\\u0002"]
)
def test_any_name_of_an_agent_can_stand_in_a_message(backend: Backend, agent: str) -> None:
    async def scenario(stores: Stores) -> None:
        leg = await claimed(stores, await submitted(stores))
        assert await stores.jobs.transfer(leg.lease, "c", **step_to(leg, agent)) == ("ok", "")
        [text] = await stores.client.lrange(queue_for(agent), 0, -1)
        message = json.loads(text)
        assert message["properties"]["delivery_info"]["routing_key"] == f"ekiden.agent.{agent}"
        assert message["headers"]["id"] == f"{leg.lease.job}:1:2"
        assert isinstance(message["headers"]["ekiden_ms"], int)

    backend.run(scenario)


def test_every_push_has_a_delivery_tag_of_its_own(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        await stores.client.zadd(keys.queued(DISPATCH_QUEUE), {job: 1})
        await stores.client.delete(DISPATCH_QUEUE)
        assert await stores.jobs.requeue(job, 0, 5) == "ok"
        [text] = await stores.client.lrange(DISPATCH_QUEUE, 0, -1)
        assert json.loads(text)["properties"]["delivery_tag"] == f"{job}:0:2"

    backend.run(scenario)


def test_queues_are_named_after_agents() -> None:
    assert agent_of(queue_for("code-fixer")) == "code-fixer"
    assert agent_of(DISPATCH_QUEUE) is None
