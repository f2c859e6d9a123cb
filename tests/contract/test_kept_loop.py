"""Scenarios share a loop and a client: none of them meets what another one has left."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from redis.exceptions import RedisError

from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import Redis
from tests.conftest import Backend
from tests.doubles.clocks import Passing


async def client_of(stores: Stores) -> Redis:
    return stores.client


def test_the_next_scenario_has_the_same_client(valkey: Backend) -> None:
    assert valkey.run(client_of) is valkey.run(client_of)


def test_what_runs_on_is_ended_even_behind_a_failure(valkey: Backend) -> None:
    ended: list[str] = []
    may_go_on = threading.Event()

    async def task() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")
            may_go_on.set()

    def thread(begin: Callable[[], object]) -> None:
        begin()
        may_go_on.wait()
        ended.append("thread")

    async def leaving(_: Stores) -> None:
        has_begun = asyncio.Event()
        begin = partial(asyncio.get_running_loop().call_soon_threadsafe, has_begun.set)
        left = [asyncio.create_task(task()), asyncio.create_task(asyncio.to_thread(thread, begin))]
        await has_begun.wait()  # else it is called off before a thread has taken it
        raise ValueError(f"left {len(left)}")

    with pytest.raises(ValueError, match="left 2"):
        valkey.run(leaving)
    assert ended == ["task", "thread"]


def test_a_client_that_listens_or_is_closed_is_nobody_elses(valkey: Backend) -> None:
    async def listening(stores: Stores) -> Redis:
        stores.client.listen("channel", lambda: None)  # type: ignore[attr-defined]  # ours
        return stores.client

    async def closing(stores: Stores) -> None:
        await stores.close()

    clients = [valkey.run(listening), valkey.run(client_of)]
    with pytest.raises(RedisError, match="closed by this program"):
        valkey.run(closing)
    assert len({id(one) for one in (*clients, valkey.run(client_of))}) == 3


def test_who_sets_the_clock_has_a_loop_of_its_own(valkey: Backend) -> None:
    async def loop_and_time(_: Stores) -> tuple[asyncio.AbstractEventLoop, float]:
        loop = asyncio.get_running_loop()
        return loop, loop.time() - time.perf_counter()

    async def setting_it(stores: Stores) -> tuple[asyncio.AbstractEventLoop, float]:
        Passing(patched).pass_(600.0)
        return await loop_and_time(stores)

    before, real = valkey.run(loop_and_time)
    with pytest.MonkeyPatch.context() as patched:
        set_within, ahead = valkey.run(setting_it)
        set_before, still_ahead = valkey.run(loop_and_time)
    behind, real_again = valkey.run(loop_and_time)
    assert before is set_within
    assert len({id(one) for one in (before, set_before, behind)}) == 3
    assert ahead - real > 500 < still_ahead - real
    assert abs(real_again - real) < 100
