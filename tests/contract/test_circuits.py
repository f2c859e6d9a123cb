"""The circuits of models, as all workers of a server count them."""

import pytest

from ekiden.shared.stores import keys
from ekiden.shared.stores.circuits import RedisCircuitStore
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend

MOST = 3


async def failed(store: RedisCircuitStore, circuit: str = "c", *, is_over: bool = False, open_s: float = 60) -> str:
    state, _ = await store.failed(circuit, MOST, 60, open_s, is_over=is_over, model="模型", why="it is\naway")
    return state


def test_so_many_failures_in_a_row_open_it_and_an_answer_closes_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        store = stores.circuits
        assert [await failed(store) for _ in range(2)] == ["closed"] * 2
        await store.worked("c")
        assert [await failed(store) for _ in range(3)] == ["closed", "closed", "open"]
        (view,) = await store.all()
        assert (view.id, view.model, view.why, view.failures, view.has_opened) == ("c", "模型", "it is\naway", 3, True)
        assert 50 < view.open_s <= 60
        assert await store.may_ask("other", MOST, 5) == ("closed", 0.0)
        assert 0 < await stores.client.ttl(keys.CIRCUITS) <= keys.CIRCUITS_TTL_S
        await store.worked("c")
        assert await store.all() == []

    backend.run(scenario)


def test_failures_that_are_far_apart_are_no_row(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.client.hset(keys.CIRCUITS, "c", "2 1 0 0\nm\nfailed\nlong ago")
        assert await failed(stores.circuits) == "closed"

    backend.run(scenario)


def test_a_quota_that_is_used_up_opens_it_at_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await failed(stores.circuits, is_over=True) == "open"
        (view,) = await stores.circuits.all()
        assert (view.is_over, view.model) == (True, "模型")

    backend.run(scenario)


def test_one_alone_tries_again_and_another_one_where_nothing_became_of_that(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        store = stores.circuits
        for _ in range(MOST):
            await failed(store)
        state, left_s = await store.may_ask("c", MOST, 5)
        assert (state, 50 < left_s <= 60) == ("open", True)
        await stores.client.hset(keys.CIRCUITS, "c", "3 1 2 0\nm\nfailed\nwhy")  # its time is over
        assert await store.may_ask("c", MOST, 60) == ("trial", 0.0)
        state, left_s = await store.may_ask("c", MOST, 60)
        assert (state, 50 < left_s <= 60) == ("open", True)
        await stores.client.hset(keys.CIRCUITS, "c", "3 1 2 3\nm\nfailed\nwhy")  # who tried has died
        assert await store.may_ask("c", MOST, 5) == ("trial", 0.0)
        assert await failed(store) == "open"

    backend.run(scenario)


@pytest.mark.parametrize("odd", ["", "no numbers", "3 1 2", "-3 1 2 0", f"{'9' * 5_000} 1 1 1", "3 1 2 0 7\nm"])
def test_an_entry_that_is_none_is_left_out_and_the_others_are_told(backend: Backend, odd: str) -> None:
    async def scenario(stores: Stores) -> None:
        await failed(stores.circuits)
        await as_any(stores.client.hset(keys.CIRCUITS, "odd", odd))
        assert [view.id for view in await stores.circuits.all()] == ["c"]
        assert await failed(stores.circuits, "odd") in ("closed", "open"), "and whose it is goes on"

    backend.run(scenario)


def test_an_entry_that_is_open_for_longer_than_any_circuit_may_be_tried(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        store = stores.circuits
        await as_any(stores.client.hset(keys.CIRCUITS, "c", "3 1 999999999999999 0\nm\nfailed\nwhy"))
        (view,) = await store.all()
        assert (view.open_s, view.has_opened) == (0.0, True)
        assert await store.may_ask("c", MOST, 5) == ("trial", 0.0)
        assert await failed(store, open_s=10**9) == "open"
        (view,) = await store.all()
        assert keys.CIRCUIT_LONGEST_S - 10 < view.open_s <= keys.CIRCUIT_LONGEST_S

    backend.run(scenario)
