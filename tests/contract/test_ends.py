"""Waiting for the ends of jobs: told as they come, found where the telling was lost, on few connections."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import UnknownJob
from ekiden.shared.stores import job_ends
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.contract.relay_world import claimed, done, submitted
from tests.integration.proxy import Proxy, Server, proxied_server

NEVER_S = 1_000.0
SOON_S = 0.05
DEADLINE_S = 90.0

Scenario = Callable[[Stores, Client], Awaitable[None]]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Proxy]]:
    """A server of our own, and a line to it that can be cut."""
    with proxied_server(tmp_path_factory.mktemp("ends")) as made:
        yield made


def run(line: tuple[Server, Proxy], scenario: Scenario, url: str = "") -> None:
    """Run ``scenario``: its client is at the end of the line, its stores are next to the server."""
    server, proxy = line

    async def whole() -> None:
        stores = open_stores(server.url)
        try:
            await as_any(stores.client.flushall())
            async with asyncio.timeout(DEADLINE_S), Client(url or proxy.url) as client:
                await scenario(stores, client)
        finally:  # what is left open, another test is blamed for
            await stores.close()

    asyncio.run(whole())


async def finished(stores: Stores, job: str) -> None:
    """End a job as a worker does."""
    leg = await claimed(stores, job)
    assert (await stores.jobs.finish(leg.lease, "end", [done(leg=0)], []))[0] == "ok"


async def listeners(stores: Stores, count: int) -> None:
    """Wait until so many ends are listened to."""
    while len(await as_any(stores.client.pubsub_channels("ekiden:ended:*"))) != count:  # noqa: ASYNC110 - on the server
        await asyncio.sleep(0.01)


def test_who_waits_is_told_of_the_end_of_a_job_that_another_has_submitted(
    line: tuple[Server, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ends, "LOOK_S", NEVER_S)

    async def scenario(stores: Stores, client: Client) -> None:
        job = await submitted(stores)
        waiting = [asyncio.create_task(client.wait(job)) for _ in range(2)]
        await listeners(stores, 1)
        await finished(stores, job)
        assert [view.result for view in await asyncio.gather(*waiting)] == ["42", "42"]
        assert (await client.wait(job)).status == "done", "also where it is over already"

    run(line, scenario)


def test_an_end_while_the_connection_was_lost_is_seen_once_there_is_a_new_one(
    line: tuple[Server, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ends, "LOOK_S", NEVER_S)

    async def scenario(stores: Stores, client: Client) -> None:
        job = await submitted(stores)
        waiting = asyncio.create_task(client.wait(job))
        await listeners(stores, 1)
        line[1].be("refuse")
        await finished(stores, job)
        line[1].be("pass")
        await client.job(job)  # whoever asks for anything reconnects for all
        assert (await waiting).result == "42"

    run(line, scenario)


def test_an_end_that_nobody_has_told_is_found_by_looking(
    line: tuple[Server, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ends, "LOOK_S", SOON_S)
    as_any(line[0].admin).execute_command("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", "resetchannels")

    async def scenario(stores: Stores, client: Client) -> None:
        job = await submitted(stores)
        waiting = asyncio.create_task(client.wait(job))
        await client.job(job)
        await finished(stores, job)
        assert (await waiting).result == "42"

    run(line, scenario, f"redis://deaf:x@127.0.0.1:{line[0].port}/0")


def test_a_thousand_who_wait_hold_few_connections_and_leave_nothing_behind(line: tuple[Server, Proxy]) -> None:
    async def scenario(stores: Stores, client: Client) -> None:
        jobs = [await submitted(stores, request_id=f"r{number}") for number in range(1_000)]
        waiting = [asyncio.create_task(client.wait(job)) for job in jobs]
        await listeners(stores, len(jobs))
        assert line[1].connections <= 4
        for job in jobs:
            await finished(stores, job)
        assert {view.result for view in await asyncio.gather(*waiting)} == {"42"}
        await listeners(stores, 0)

    run(line, scenario)


def test_a_job_that_there_is_not_is_not_waited_for(line: tuple[Server, Proxy]) -> None:
    async def scenario(stores: Stores, client: Client) -> None:
        with pytest.raises(UnknownJob):
            await client.wait("abcdefghijklmnop.1")
        await listeners(stores, 0)

    run(line, scenario)
