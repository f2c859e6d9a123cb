"""What stands in a queue and is no message is kept aside with the reason, and the same worker goes on."""

import asyncio
import json
import sys
from collections.abc import Iterator

import pytest
from redis import Redis

from ekiden.dispatcher.client import Client
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.stores import keys
from ekiden.shared.stores.dead_letters import DeadLetter
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

    assert asyncio.run(asyncio.wait_for(ask(), 90)) == "forty-two, says debugger"


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
    assert reasons["deep JSON"].startswith("it cannot be read as JSON (recursion limit exceeded")
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
    wait_until(lambda: server.get(f"ekiden:misplaced:{DISPATCH_QUEUE}") == b"there before the pools", what="aside")
    answers(redis_url)
    server.hset(QUEUE, "a", "hash")
    wait_until(lambda: not server.exists(QUEUE), what="what is no list is put aside")
    assert server.hgetall(f"ekiden:misplaced:{QUEUE}") == {b"a": b"hash"}
    answers(redis_url)
    assert [pool.process.poll() for pool in pools] == [None, None]
    letters = [json.loads(line) for line in ekiden.run("status", "--dead-letters", "--json").stdout.splitlines()]
    assert [letter["queue"] for letter in letters] == [DISPATCH_QUEUE, QUEUE]
    assert letters[1]["reason"].startswith("a hash stood where the list of messages should be: it was put aside as")


def test_pools_put_aside_what_is_written_over_indexes_and_who_finds_it_without_them_is_told_the_remedy(
    ekiden: Program, redis_url: str, server: Redis
) -> None:
    pools = start_pools(ekiden)
    for index in keys.KINDS.keys() - {keys.CATALOG, keys.DEAD_LETTERS}:
        server.delete(index)
        server.lpush(index, "of another program")
    answers(redis_url)
    wait_until(lambda: server.type(keys.POOLS) == b"zset", what="pools announce themselves again")
    assert [pool.process.poll() for pool in pools] == [None, None]
    assert "Traceback" not in pools[0].output + pools[1].output
    assert "of another program" in str(server.lrange(f"{keys.MISPLACED}{keys.DEADLINES}", 0, -1))
    assert keys.DEADLINES in ekiden.run("status", "--dead-letters").stdout
    for pool in pools:
        pool.process.terminate()
        pool.ends()
    server.delete(keys.JOBS)
    server.set(keys.JOBS, "of another program")
    told = ekiden.run("jobs")
    assert told.returncode == 3
    assert "holds a string as 'ekiden:jobs', where Ekiden keeps a sorted set" in told.stderr
    assert "RENAME ekiden:jobs ekiden:misplaced:ekiden:jobs" in told.stderr


def test_a_catalog_that_was_overwritten_says_what_to_do_and_that_helps(
    ekiden: Program, redis_url: str, server: Redis
) -> None:
    start_pools(ekiden)
    answers(redis_url)
    [catalog] = server.scan_iter(keys.catalog("*"))
    server.hset(catalog, "manifest", "no JSON")
    told = ekiden.run("submit", "--agent", "debugger", "go", "--wait")
    assert told.returncode == 2
    assert "cannot be read: another program has written there. Publish the agents again" in told.stderr
    ekiden.run("catalog", "publish")
    answers(redis_url)


NOBODY = "redis://:hunter2@127.0.0.1:1/0"
FOREIGN = {
    "CELERY_BROKER_URL": NOBODY,
    "CELERY_BROKER_READ_URL": NOBODY,
    "CELERY_BROKER_WRITE_URL": NOBODY,
    "CELERY_RESULT_BACKEND": "nosuch://127.0.0.1:1/0",
    "CELERY_CONFIG_MODULE": "no_such_module",
    "CELERY_LOADER": "no_such_module:Loader",
    "CELERY_CUSTOM_WORKER_POOL": "no_such_module:Pool",
    "CELERY_TRACE_APP": "1",
    "C_STRICT_APP": "1",
    "DJANGO_SETTINGS_MODULE": "no_such_module",
    "FORKED_BY_MULTIPROCESSING": "1",
    "KOMBU_LOG_DEBUG": "1",
    "KOMBU_DISABLE_LIMIT_PROTECTION": "1",
}


def test_another_apps_variables_turn_a_pool_nowhere_else(ekiden: Program, redis_url: str) -> None:
    ekiden.env |= FOREIGN
    ekiden.env["EKIDEN_WORKSPACE_ROOT"] = str(ekiden.folder)
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    dispatcher = ekiden.start("dispatcher")
    worker = ekiden.start("-Q", QUEUE, program=[sys.executable, "-m", "celery", "-A", "ekiden.workers.app", "worker"])
    wait_for_pools(ekiden, 2)
    answers(redis_url)
    for pool in (dispatcher, worker):
        [line] = [line for line in pool.output.splitlines() if "celery_variables_not_used" in line]
        assert all(name in line for name in FOREIGN if "BROKER" in name or name == "CELERY_RESULT_BACKEND")
        assert "hunter2" not in pool.output


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        ([], {"CELERY_BENCH": "1"}, "CELERY_BENCH keeps Celery from working"),
        ([], {"CELERY_WORKER_REVOKES_MAX": "many"}, "CELERY_WORKER_REVOKES_MAX keeps Celery from working"),
        (["-m", "celery", "-A", "ekiden.workers.app", "-b", NOBODY, "worker"], {}, "--broker does nothing here"),
        (["-m", "celery", "-A", "ekiden.workers.app", "worker"], {"CELERY_WORKER_POOL": "solo"}, "CELERY_WORKER_POOL"),
        (
            ["-m", "celery", "-A", "ekiden.workers.app", "worker"],
            {"CELERY_BENCH": "1"},
            "CELERY_BENCH keeps Celery from",
        ),
    ],
)
def test_what_would_break_a_pool_or_do_nothing_is_refused_by_name(
    ekiden: Program, redis_url: str, args: list[str], env: dict[str, str], said: str
) -> None:
    refused = ekiden.start(program=[sys.executable, *(args or ["-m", "ekiden.dispatcher", "worker"])], env=env)
    assert refused.ends() != 0
    assert len([line for line in refused.output.splitlines() if said in line]) == 1
    assert "Traceback" not in refused.output
    assert "hunter2" not in refused.output


def test_celerys_own_report_holds_no_password(ekiden: Program) -> None:
    url = {"EKIDEN_REDIS_URL": "unix://me:hunter2@/tmp/none.sock"}
    report = ekiden.start(program=[sys.executable, "-m", "celery", "-A", "ekiden.workers.app", "report"], env=url)
    assert report.ends() == 0, report.output
    assert "results:disabled" in report.output
    assert "hunter2" not in report.output
