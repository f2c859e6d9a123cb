"""What replicas must have before it counts: submissions that wait for them, and what follows where they do not come."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.dispatcher.cli.doctor.server_checks import examine_server
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import NotConfirmed, SessionBusy, StoreNotReady
from ekiden.shared.ids import session_of
from ekiden.shared.records import Ended, ToolStarted
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.replication import AGAIN_S, AWAY_S, WAIT_S, ReplicaWait, ReportReplicas, RequireReplicas
from tests.contract.relay_world import claimed, done, moved, reply, submitted
from tests.integration.replicas import Pair, paired_servers

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with paired_servers(tmp_path_factory.mktemp("pair")) as servers:
        yield servers


def with_client(pair: Pair, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Client(pair.url, wait_replicas=1) as client:
            await scenario(client)

    asyncio.run(whole())


def with_stores(pair: Pair, confirming: ReplicaWait, scenario: Callable[[Stores, Stores], Awaitable[None]]) -> None:
    """Run ``scenario`` with stores that wait for replicas, and with others that do not."""

    async def whole() -> None:
        waiting, plain = open_stores(pair.url, confirming=confirming), open_stores(pair.url)
        try:
            await scenario(waiting, plain)
        finally:
            await waiting.close()
            await plain.close()

    asyncio.run(whole())


def is_known(pair: Pair, job: str) -> bool:
    """Whether the replica has the job."""
    with pair.admin(pair.replica) as replica:
        return bool(replica.exists(keys.job(job)))


def test_what_is_confirmed_is_on_the_replica(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        for _ in range(20):
            assert is_known(pair, await client.submit("x"))

    with_client(pair, scenario)


def test_an_unconfirmed_submit_names_its_job_and_is_confirmed_by_the_same_request_id(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        with pair.held_up():
            with pytest.raises(NotConfirmed, match="It may yet run") as caught:
                await client.submit("x")
            job, request_id = caught.value.job, caught.value.request_id
            assert f"`ekiden job follow {job}`" in str(caught.value)
            assert repr(request_id) in str(caught.value)
            assert (await client.job(job)).status == "queued"
        assert await client.submit("x", request_id=request_id) == job
        assert is_known(pair, job)

    with_client(pair, scenario)


def test_a_repeated_submit_is_not_confirmed_for_having_nothing_to_write(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        with pair.held_up():
            for _ in range(2):
                with pytest.raises(NotConfirmed):
                    await client.submit("x", request_id="once")
            async with Client(pair.url, wait_replicas=1) as other:  # whose connections have written nothing
                with pytest.raises(NotConfirmed):
                    await other.submit("x", request_id="once")

    with_client(pair, scenario)


def test_nobody_else_waits_behind_who_waits_for_replicas(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        job = await client.submit("x")
        with pair.held_up():
            waiting = asyncio.create_task(client.submit("x"))
            for _ in range(50):
                await client.job(job)
            assert not waiting.done()
            with pytest.raises(NotConfirmed):
                await waiting

    with_client(pair, scenario)


def test_a_cancellation_and_a_retry_wait_as_well(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        cancelled, failed = await client.submit("x"), await client.submit("x")
        stores = open_stores(pair.url)
        leg = await claimed(stores, failed)
        await stores.jobs.finish(leg.lease, "end", [Ended(status="failed", reason="ERROR", error="no")], [])
        await stores.close()
        with pair.held_up():
            with pytest.raises(NotConfirmed, match=cancelled):
                await client.cancel(cancelled)
            with pytest.raises(NotConfirmed, match=failed):
                await client.retry(failed)
            assert (await client.job(cancelled)).status == "cancelled"
            assert (await client.job(failed)).status == "queued"

    with_client(pair, scenario)


def test_what_is_refused_is_refused_for_its_own_reason(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        session = session_of(await client.submit("x"))
        with pair.held_up(), pytest.raises(SessionBusy):
            await client.submit("x", session=session, on_busy="reject")

    with_client(pair, scenario)


def test_a_server_that_lost_the_scripts_gets_them_again(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        await client.submit("x")
        with pair.admin(pair.primary) as primary:
            primary.script_flush()
        assert is_known(pair, await client.submit("x"))

    with_client(pair, scenario)


def test_a_lost_connection_repeats_the_script_and_the_waiting(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        before = len(await client.jobs(1_000))
        with pair.held_up(), pair.admin(pair.primary) as primary:
            waiting = asyncio.create_task(client.submit("x"))
            async with asyncio.timeout(DEADLINE_S):
                while not (blocked := [one["id"] for one in primary.client_list() if "b" in one["flags"]]):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            primary.client_kill_filter(_id=blocked[0])
            with pytest.raises(NotConfirmed):
                await waiting
        assert len(await client.jobs(1_000)) == before + 1

    with_client(pair, scenario)


def test_a_server_that_lets_nobody_wait_leaves_everything_unconfirmed_and_says_why(pair: Pair) -> None:
    async def scenario() -> None:
        async with Client(f"redis://some:p@127.0.0.1:{pair.primary.port}/0", wait_replicas=1) as client:
            with pytest.raises(NotConfirmed, match="no permissions to run the 'wait' command"):
                await client.submit("x")

    with pair.admin(pair.primary) as primary:
        login: dict[str, Any] = {"enabled": True, "passwords": ["+p"], "keys": ["*"], "channels": ["*"]}
        primary.acl_setuser("some", categories=["+@all"], commands=["-wait"], **login)
        asyncio.run(scenario())
        primary.acl_deluser("some")


def test_the_record_that_a_tool_begins_waits_and_others_do_not(pair: Pair) -> None:
    async def scenario(waiting: Stores, plain: Stores) -> None:
        leg = await moved(plain, await submitted(plain, request_id="tool"), "debugger")

        async def append(token: str, *records: Any) -> None:
            await waiting.jobs.append(leg.lease, token, records, used_ms=0, is_progress=True)

        with pair.held_up():
            await append("1", reply())
            with pytest.raises(NotConfirmed):
                await append("2", ToolStarted(leg=1, call_id="c1", name="pay"))

    with_stores(pair, RequireReplicas(1), scenario)


def test_a_pools_commits_go_on_without_replicas_and_say_so_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(waiting: Stores, plain: Stores) -> None:
        async def commit(name: str) -> None:
            leg: Claimed = await moved(plain, await submitted(plain, request_id=name), "debugger")
            assert (await waiting.jobs.finish(leg.lease, "end", [done()], []))[0] == "ok"

        with capture_logs() as logs:
            await commit("before")
            assert noting.wait_s == WAIT_S
            with pair.held_up():
                for name in "abc":
                    await commit(name)
                    assert noting.wait_s == AWAY_S
            later = time.monotonic() + AGAIN_S
            monkeypatch.setattr(time, "monotonic", lambda: later)
            assert noting.wait_s == WAIT_S
            await commit("after")
            assert noting.wait_s == WAIT_S
        assert [one["event"] for one in logs] == ["not_confirmed", "confirmed_again"]

    noting = ReportReplicas(1)
    with_stores(pair, noting, scenario)


def test_a_server_that_wants_more_replicas_than_it_has_is_waited_for(pair: Pair) -> None:
    async def scenario(client: Client) -> None:
        with pair.admin(pair.primary) as primary:
            primary.config_set("min-replicas-to-write", 2)
            try:
                with pytest.raises(StoreNotReady, match="too few of its replicas are well"):
                    await client.submit("x")
            finally:
                primary.config_set("min-replicas-to-write", 0)
        await client.submit("x")

    with_client(pair, scenario)


def test_a_server_tells_how_it_keeps_what_it_acknowledged(pair: Pair) -> None:
    async def scenario(_: Stores, plain: Stores) -> None:
        kept = await plain.durability()
        assert (kept.appendonly, kept.fsync, kept.syncs_in_rewrites, kept.snapshots) == (True, "everysec", True, "")
        assert (kept.replicas, kept.min_replicas, kept.max_lag_s, kept.lacks_replicas) == (1, 0, 10, False)
        assert kept.behind_bytes is not None
        await plain.client.config_set("min-replicas-to-write", 2)
        assert (await plain.durability()).lacks_replicas
        assert "too few of its replicas are well" in str(await plain.health_problem())
        await plain.client.config_set("min-replicas-to-write", 0)
        assert await plain.health_problem() is None

    with_stores(pair, RequireReplicas(), scenario)


def test_a_pool_that_is_to_wait_for_more_replicas_than_there_are_says_so_at_its_start(pair: Pair) -> None:
    async def scenario(_: Stores, plain: Stores) -> None:
        assert await plain.check(1) == []
        [advice] = await plain.check(2)
        assert "has 1 replicas, and commits are to wait for 2" in advice

    with_stores(pair, RequireReplicas(), scenario)


def test_the_doctor_goes_on_where_a_server_tells_nothing(pair: Pair) -> None:
    with pair.admin(pair.primary) as primary:
        login: dict[str, Any] = {"enabled": True, "passwords": ["+p"], "keys": ["*"], "channels": ["*"]}
        primary.acl_setuser("mute", categories=["+@all"], commands=["-config", "-info"], **login)
        found = asyncio.run(examine_server(f"redis://mute:p@127.0.0.1:{pair.primary.port}/0", None))
        primary.acl_deluser("mute")
    checks = {one.check: one for one in found}
    assert {one.check for one in found if one.status == "error"} <= {"queues"}, "which other tests have filled"
    assert {name for name, one in checks.items() if "unknown" in one.text} >= {"crash", "failover"}
    assert {"clock", "catalog", "pools", "versions"} <= set(checks), "the rest is examined all the same"
