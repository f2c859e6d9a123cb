"""Jobs that an earlier command left: nothing runs on before somebody has said so, whatever the data say of them."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pytest

from ekiden.dispatcher.local.locks import RunningCommands
from ekiden.dispatcher.local.unfinished import settle_unfinished
from ekiden.shared.embedded import Attachment
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.ids import parent_of
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.stores import keys
from ekiden.shared.stores.job_reader import Unfinished
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import PoolView
from tests.contract.test_unfinished import forget_all_lists, one_of_each

T = TypeVar("T")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[RunningCommands]:
    """The only command in a data folder."""
    with RunningCommands(tmp_path) as running_commands:
        yield running_commands


@dataclass
class World:
    """A server with unfinished jobs, seen by commands that are not coroutines."""

    url: str

    def do(self, scenario: Callable[[Stores], Awaitable[T]]) -> T:
        """Run ``scenario`` with the server's stores."""

        async def whole() -> T:
            stores = open_stores(self.url)
            try:
                return await scenario(stores)
            finally:
                await stores.close()

        return asyncio.run(whole())

    def attachment(self, *, started: bool) -> Attachment:
        """The server as somebody has it who started it, or found it running."""
        return Attachment(Path(unquote(urlsplit(self.url).path)), started, None)

    def unfinished(self) -> list[Unfinished]:
        """The jobs that have not ended."""
        return self.do(lambda stores: stores.jobs.unfinished())


@pytest.fixture
def world(valkey_url: str) -> World:
    """A server on which a command was killed, and whose lists are gone."""
    made = World(valkey_url)

    async def prepare(stores: Stores) -> None:
        await as_any(stores.client.flushall())
        await one_of_each(stores)
        await forget_all_lists(stores)

    made.do(prepare)
    return made


def test_a_command_asks_about_jobs_that_no_list_names(world: World, alone: RunningCommands) -> None:
    with pytest.raises(InvalidRequest, match=r"left 5 unfinished job\(s\) here") as refused:
        settle_unfinished(world.attachment(started=True), alone, None)
    assert "--unfinished resume" in str(refused.value)
    assert all(job.id in str(refused.value) for job in world.unfinished() if not parent_of(job.id))
    assert not any(f"{job.id} " in str(refused.value) for job in world.unfinished() if parent_of(job.id))


def test_those_to_be_resumed_are_the_ones_that_nobody_delegated(world: World, alone: RunningCommands) -> None:
    resumed = settle_unfinished(world.attachment(started=True), alone, "resume")
    assert resumed == [job.id for job in world.unfinished() if not parent_of(job.id)]


def test_those_to_be_cancelled_end_with_their_children_or_are_told_to(world: World, alone: RunningCommands) -> None:
    assert settle_unfinished(world.attachment(started=True), alone, "cancel") == []
    assert all(job.is_stopped for job in world.unfinished())


@pytest.mark.parametrize("whose", ["ours", "init's"])
def test_data_that_tell_of_pools_which_never_were_keep_nobody_from_asking(
    world: World, alone: RunningCommands, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setattr("ekiden.dispatcher.local.unfinished._DYING_S", 0.3)

    async def announce(stores: Stores) -> None:
        await stores.pools.announce(
            PoolView("vm.1", "worker", (DISPATCH_QUEUE,), pid=os.getpid() if whose == "ours" else 1)
        )
        await as_any(stores.client.zadd(keys.POOLS, {"vm.1": (time.time() + 3_600) * 1_000}))

    world.do(announce)
    for started in (True, False):
        with pytest.raises(InvalidRequest, match="unfinished"):
            settle_unfinished(world.attachment(started=started), alone, None)


def test_pools_that_go_on_announcing_themselves_serve_the_jobs(
    world: World, alone: RunningCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those that somebody has started by hand beside an `ekiden up` that was killed."""
    monkeypatch.setattr("ekiden.dispatcher.local.unfinished._DYING_S", 2.5)
    pool = PoolView("vm.1", "worker", (DISPATCH_QUEUE,), pid=os.getpid())

    async def both(stores: Stores) -> list[str]:
        async def announce() -> None:
            while True:
                await stores.pools.announce(pool)
                await asyncio.sleep(0.2)

        await stores.pools.announce(pool)  # it is there before anybody looks
        beating = asyncio.create_task(announce())
        try:
            return await asyncio.to_thread(settle_unfinished, world.attachment(started=False), alone, None)
        finally:
            beating.cancel()

    assert world.do(both) == []


def test_others_wait_until_it_is_settled_and_the_next_settles_what_the_first_did_not(
    world: World, tmp_path: Path
) -> None:
    def come() -> bool:
        with RunningCommands(tmp_path) as running_commands:
            return running_commands.is_alone

    with ThreadPoolExecutor(1) as threads:
        with RunningCommands(tmp_path) as first:
            with pytest.raises(InvalidRequest):
                settle_unfinished(world.attachment(started=True), first, None)
            second = threads.submit(come)
            with pytest.raises(TimeoutError):
                second.result(0.3)
        assert second.result(60), "it is the first now"
        with RunningCommands(tmp_path) as first:
            settle_unfinished(world.attachment(started=True), first, "resume")
            third = threads.submit(come)
            first.join()
            assert not third.result(60)
