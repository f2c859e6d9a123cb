"""What stands in a queue and is no message is kept aside with the reason, and the same worker goes on."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from redis import Redis

from dispatcher.client import Client
from shared.relay.message import DISPATCH_QUEUE
from shared.stores.dead_letters import DeadLetter
from tests.e2e.program import ANSWER_SCRIPT, Program, Running, wait_until
from tests.e2e.test_pools import wait_for_pools
from tests.unit.relay.foreign import BAD, ODD_BUT_GOOD, QUEUE


@pytest.fixture
def server(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def answers(url: str) -> None:
    """A job is done by the pools that run."""

    async def ask() -> str | None:
        async with Client(url) as client:
            return (await client.wait(await client.submit("it fails with an error"))).result

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == "forty-two, says debugger"


def letters_at(url: str) -> list[DeadLetter]:
    async def ask() -> list[DeadLetter]:
        async with Client(url) as client:
            return await client.dead_letters()

    return asyncio.run(ask())


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
    answers(redis_url)  # behind all of it, through a worker with room for two legs
    letters = letters_at(redis_url)
    assert {letter.queue for letter in letters} == {QUEUE}
    reasons = dict(zip(BAD, (letter.reason for letter in letters), strict=True))
    assert reasons["deep JSON"] == "it cannot be read as JSON (RecursionError)"
    assert reasons["an unknown task"] == "it is no message of ours: headers.task: Input should be 'ekiden.leg'"
    assert letters[0].raw == b"hello"
    worker = pools[1].output
    assert [line.count('"dead_letter"') for line in worker.splitlines()].count(1) == len(BAD)
    assert "hunter2" not in worker
    assert "Traceback" not in worker
    assert [pool.process.poll() for pool in pools] == [None, None]

    assert f"Dead letters: {len(BAD)}, the newest in ekiden.agent.debugger: it is" in ekiden.run("status").stdout
    assert ekiden.run("status", "--dead-letters", "--clear").stdout.splitlines()[-1] == f"{len(BAD)} forgotten"
    assert letters_at(redis_url) == []


def test_a_key_of_another_type_is_put_aside_and_stalls_nobody(ekiden: Program, redis_url: str, server: Redis) -> None:
    server.set(DISPATCH_QUEUE, "there before the pools")
    pools = start_pools(ekiden)
    wait_until(lambda: server.get(f"ekiden:misplaced:{DISPATCH_QUEUE}") == b"there before the pools", 30, "aside")
    answers(redis_url)
    server.hset(QUEUE, "a", "hash")
    wait_until(lambda: not server.exists(QUEUE), 30, "what is no list is put aside")
    assert server.hgetall(f"ekiden:misplaced:{QUEUE}") == {b"a": b"hash"}
    answers(redis_url)
    assert [pool.process.poll() for pool in pools] == [None, None]
    letters = [json.loads(line) for line in ekiden.run("status", "--dead-letters", "--json").stdout.splitlines()]
    assert [letter["queue"] for letter in letters] == [DISPATCH_QUEUE, QUEUE]
    assert letters[1]["reason"].startswith("a hash stood where the list of messages should be: it was put aside as")
