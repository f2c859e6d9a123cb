"""Which queues a worker consumes that was told no agents."""

from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.queue_selection import QueueSelection
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.contract.relay_world import claimed, moved, step_to, submitted
from tests.scenarios.relay import on_server


async def published(stores: Stores, *agents: str) -> None:
    manifest = dict.fromkeys(agents, "d")
    before = await stores.catalogs.current()
    await stores.catalogs.publish("-".join(agents), manifest, {"d": "{}"}, replaces=before)


def test_every_agent_in_force_is_served_also_those_that_come_later() -> None:
    async def scenario(stores: Stores) -> None:
        serving = QueueSelection()
        assert await serving.queues(stores, []) == []
        await published(stores, "a")
        assert await serving.queues(stores, ["ekiden.idle"]) == [queue_for("a")]
        await published(stores, "a", "b")
        assert await serving.queues(stores, [queue_for("a")]) == [queue_for("b")]

    on_server(scenario)


def test_agents_that_have_gone_are_served_while_jobs_wait_for_them() -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "a", "b")
        job = await submitted(stores)
        leg = await moved(stores, job, "a")
        await published(stores, "c")
        serving = QueueSelection()  # of a worker that starts now
        await stores.client.delete(queue_for("a"))  # its message was taken
        assert await serving.queues(stores, []) == [queue_for("c")], "nobody waits"
        await stores.jobs.transfer(leg.lease, "t", **step_to(leg, "b"))
        assert await serving.queues(stores, [queue_for("c")]) == [queue_for("b")]
        assert (await claimed(stores, job)).context.to_agent == "b"

    on_server(scenario)


def test_the_dispatchers_queue_is_no_agents() -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores)
        assert await stores.pools.pushed_to() == {DISPATCH_QUEUE}
        assert await QueueSelection().queues(stores, []) == []

    on_server(scenario)


def test_a_catalog_that_has_expired_keeps_nobody_from_being_served() -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "a")
        serving = QueueSelection()
        await serving.queues(stores, [])
        await as_any(stores.client.set(keys.CATALOG, "gone"))
        assert await serving.queues(stores, []) == [queue_for("a")]

    on_server(scenario)
