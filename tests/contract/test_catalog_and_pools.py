"""The contract of the catalog and pool stores, on fakeredis and on a real server."""

import json

import pytest

from ekiden.shared.errors import NoCatalog
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import PoolView, ToolView
from tests.conftest import Backend
from tests.contract.relay_world import claimed, moved, submitted

POOL = PoolView(
    id="host.7.abc",
    kind="worker",
    queues=(queue_for("debugger"), queue_for("代码修复")),
    tools=(ToolView("bash", "d1", "ekiden", "1"), ToolView("grep", read_only=True)),
    strategies=("rule",),
    problems=("tools: x",),
    capacity=50,
    in_flight=3,
    workspace_root="/srv",
    version="1",
    host="host",
    pid=7,
)


def test_nobody_has_published_a_catalog_yet(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await stores.catalogs.current() is None
        with pytest.raises(NoCatalog, match="ekiden dispatcher"):
            await stores.catalogs.manifest("f" * 64)
        with pytest.raises(NoCatalog, match="ekiden dispatcher"):
            await stores.catalogs.definition("f" * 64, "d1")

    backend.run(scenario)


def test_a_published_catalog_is_in_force_and_read_by_digest(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.catalogs.publish("c1", {"代码修复": "d1"}, {"d1": '{"name": "代码修复"}'}, replaces=None)
        assert await stores.catalogs.current() == "c1"
        assert await stores.catalogs.manifest("c1") == {"代码修复": "d1"}
        assert await stores.catalogs.definition("c1", "d1") == '{"name": "代码修复"}'

    backend.run(scenario)


def test_a_deploy_leaves_the_older_catalog_readable(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.catalogs.publish("c1", {"a": "d1"}, {"d1": "{}"}, replaces=None)
        await stores.catalogs.publish("c2", {"a": "d2"}, {"d2": "{}"}, replaces="c1")
        assert await stores.catalogs.current() == "c2"
        assert await stores.catalogs.manifest("c1") == {"a": "d1"}
        assert await stores.catalogs.definition("c1", "d1") == "{}"
        assert await stores.client.ttl(keys.catalog("c1")) > keys.SESSION_TTL_S  # outlives every job that pins it

    backend.run(scenario)


def test_an_empty_catalog_can_be_published(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.catalogs.publish("c0", {}, {}, replaces=None)
        assert await stores.catalogs.manifest("c0") == {}

    backend.run(scenario)


def test_an_announced_pool_is_there_as_it_described_itself_until_it_leaves(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await stores.pools.pools() == []
        await stores.pools.announce(POOL)
        await stores.pools.announce(POOL)
        assert await stores.pools.pools() == [POOL]
        await stores.pools.leave(POOL.id)
        await stores.pools.leave(POOL.id)
        assert await stores.pools.pools() == []
        assert await stores.client.zcard(keys.POOLS) == 0

    backend.run(scenario)


def test_a_pool_that_says_nothing_any_more_is_gone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.pools.announce(POOL)
        assert 0 < await stores.client.ttl(keys.pool(POOL.id)) <= keys.POOL_TTL_S
        await stores.client.delete(keys.pool(POOL.id))  # what its TTL does
        assert await stores.pools.pools() == []
        assert [queue.pools for queue in await stores.pools.queues()] == []

    backend.run(scenario)


def test_pools_that_are_long_gone_leave_the_list_when_another_announces_itself(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.client.zadd(keys.POOLS, {"old": 1000})
        await stores.pools.announce(POOL)
        assert await stores.client.zrange(keys.POOLS, 0, -1) == [POOL.id]

    backend.run(scenario)


def test_what_a_later_version_says_of_itself_is_ignored(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.pools.announce(POOL)
        text = await stores.client.get(keys.pool(POOL.id))
        assert isinstance(text, str)
        await stores.client.set(keys.pool(POOL.id), text.replace("{", '{"gpus": 8, ', 1), ex=9)
        assert await stores.pools.pools() == [POOL]

    backend.run(scenario)


def test_queues_are_those_that_somebody_serves_and_those_that_hold_something(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await stores.pools.queues() == []
        await stores.pools.announce(POOL)
        leg = await claimed(stores, await submitted(stores, request_id="1"))
        assert leg.attempt == 1
        await submitted(stores, request_id="2")
        assert await stores.pools.queues() == [
            QueueView(queue_for("debugger"), 0, (POOL.id,)),
            QueueView(queue_for("代码修复"), 0, (POOL.id,)),
            QueueView(DISPATCH_QUEUE, 2, ()),  # nobody took the first one's message out of the list
        ]

    backend.run(scenario)


def test_a_queue_without_a_consumer_is_known_as_soon_as_a_job_is_sent_there(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await moved(stores, await submitted(stores), "reviewer")
        [queue] = [queue for queue in await stores.pools.queues() if queue.name == queue_for("reviewer")]
        assert (queue.waiting, queue.pools) == (1, ())

    backend.run(scenario)


def test_pools_of_an_earlier_version_announce_their_tools_by_name_alone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        old = {"id": "h.1", "kind": "worker", "queues": [], "tools": ["bash"], "from_the_future": 1}
        await as_any(stores.client.set(keys.pool("h.1"), json.dumps(old), ex=60))
        await as_any(stores.client.zadd(keys.POOLS, {"h.1": 1}))
        (pool,) = await stores.pools.pools()
        assert pool.tools == (ToolView("bash"),)
        assert (pool.strategies, pool.problems) == ((), ())

    backend.run(scenario)
