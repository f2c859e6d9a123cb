"""The contract of publishing: compare-and-set, what is remembered of it, how long catalogs live."""

import asyncio

import pytest

from ekiden.shared.errors import CatalogReplaced, NoCatalog, UnreadableDefinition
from ekiden.shared.stores import keys
from ekiden.shared.stores.catalogs import InForce
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend


async def published(stores: Stores, digest: str, replaces: str | None, **about: str) -> bool:
    definition = f"d-{digest}"
    return await stores.catalogs.publish(digest, {"a": definition}, {definition: "{}"}, replaces=replaces, **about)


async def digests(stores: Stores) -> list[str]:
    return [one.digest for one in await stores.catalogs.history()]


def test_refuses_to_replace_another_catalog_than_the_one_that_was_meant(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        await published(stores, "c2", "c1", by="ada@host", source="catalog publish in /srv")
        with pytest.raises(
            CatalogReplaced, match=r"catalog c2 is in force, published at 20.* by ada@host \(catalog pub"
        ):
            await published(stores, "c3", "c1")
        assert await stores.catalogs.in_force() == InForce("c2", {"a": "d-c2"})
        assert await digests(stores) == ["c2", "c1"]
        assert not await as_any(stores.client.exists(keys.catalog("c3"))), "nothing of it was stored"

    backend.run(scenario)


def test_refuses_to_replace_nothing_where_something_is_in_force(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        with pytest.raises(CatalogReplaced, match="there was to be none yet"):
            await published(stores, "c2", None)
        assert await stores.catalogs.current() == "c1"

    backend.run(scenario)


def test_refuses_to_replace_a_catalog_where_nothing_is_in_force(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        with pytest.raises(CatalogReplaced, match="no catalog is in force; catalog c0 was to be replaced"):
            await published(stores, "c1", "c0")
        assert await stores.catalogs.current() is None

    backend.run(scenario)


def test_of_many_that_publish_at_once_one_succeeds(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c0", None)
        names = [f"c{number}" for number in range(1, 9)]
        results = await asyncio.gather(*(published(stores, name, "c0") for name in names), return_exceptions=True)
        assert sorted(map(type, results), key=str) == sorted([bool, *[CatalogReplaced] * 7], key=str)
        assert await stores.catalogs.current() == names[results.index(True)]

    backend.run(scenario)


def test_what_is_in_force_already_is_not_published_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await published(stores, "c1", None)
        assert not await published(stores, "c1", None)
        assert not await published(stores, "c1", "c0"), "whatever it was to replace"
        assert await digests(stores) == ["c1"]

    backend.run(scenario)


def test_what_has_expired_is_not_in_force(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        await stores.client.delete(keys.catalog("c1"))  # what its TTL does
        assert await stores.catalogs.in_force() is None
        with pytest.raises(CatalogReplaced, match="no catalog is in force"):
            await published(stores, "c2", "c1")
        assert await published(stores, "c1", None)
        assert await stores.catalogs.in_force() == InForce("c1", {"a": "d-c1"})

    backend.run(scenario)


def test_a_publication_is_remembered_with_when_how_and_by_whom(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        before = await stores.now_ms()
        await published(stores, "c1", None)
        await published(stores, "c2", "c1", by="ada@host", source="dispatcher in /srv")
        newest, oldest = await stores.catalogs.history()
        assert (newest.digest, newest.replaced, newest.agents) == ("c2", "c1", 1)
        assert (newest.by, newest.source, newest.is_rollback) == ("ada@host", "dispatcher in /srv", False)
        assert oldest.replaced == ""
        assert before <= oldest.at_ms <= newest.at_ms <= await stores.now_ms()
        assert await stores.catalogs.history(1) == [newest]

    backend.run(scenario)


def test_the_last_twenty_publications_are_remembered(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        names = [f"c{number}" for number in range(25)]
        for before, name in zip([None, *names], names, strict=False):
            assert await published(stores, name, before)
        assert await digests(stores) == names[:4:-1]

    backend.run(scenario)


def test_rolls_back_to_a_catalog_that_is_stored(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        await published(stores, "c2", "c1")
        assert await stores.catalogs.roll_back("c1", replaces="c2", by="ada@host", source="catalog rollback")
        assert await stores.catalogs.in_force() == InForce("c1", {"a": "d-c1"})
        assert await stores.catalogs.definition("c1", "d-c1") == "{}"
        newest = (await stores.catalogs.history(1))[0]
        assert (newest.digest, newest.replaced, newest.agents, newest.is_rollback) == ("c1", "c2", 1, True)

    backend.run(scenario)


def test_refuses_to_roll_back_over_another_catalog_than_the_one_that_was_meant(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for name, before in (("c1", None), ("c2", "c1"), ("c3", "c2")):
            await published(stores, name, before)
        with pytest.raises(CatalogReplaced, match="catalog c3 is in force"):
            await stores.catalogs.roll_back("c1", replaces="c2")
        assert await stores.catalogs.current() == "c3"

    backend.run(scenario)


def test_refuses_to_roll_back_to_what_is_gone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        await published(stores, "c2", "c1")
        await stores.client.delete(keys.catalog("c1"))
        with pytest.raises(NoCatalog, match="catalog 'c1' is not on this server"):
            await stores.catalogs.roll_back("c1", replaces="c2")
        assert await stores.catalogs.current() == "c2"
        assert not await as_any(stores.client.exists(keys.catalog("c1")))

    backend.run(scenario)


def test_the_catalogs_of_the_last_publications_are_kept_and_no_ttl_is_shortened(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        names = [f"c{number}" for number in range(keys.PUBLICATIONS_KEPT + 1)]
        for before, name in zip([None, *names], names, strict=False):
            await published(stores, name, before)
        for name in names[:-1]:
            await stores.client.expire(keys.catalog(name), 100)
        pinned = 10 * keys.CATALOG_TTL_S
        await stores.client.expire(keys.catalog(names[-1]), pinned)
        await stores.catalogs.keep()
        oldest, *kept = [await as_any(stores.client.ttl(keys.catalog(name))) for name in names]
        assert oldest <= 100, "its publication is forgotten"
        assert all(keys.CATALOG_TTL_S - 60 < ttl <= keys.CATALOG_TTL_S for ttl in kept[:-1])
        assert kept[-1] > pinned - 60, "a job needs it for longer"

    backend.run(scenario)


def test_keeping_where_nothing_was_published_does_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.catalogs.keep()
        assert await as_any(stores.client.keys()) == []

    backend.run(scenario)


def test_a_catalog_is_read_whole(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.catalogs.publish("c1", {"a": "d1", "b": "d2"}, {"d1": "{}", "d2": "[]"}, replaces=None)
        assert await stores.catalogs.definitions("c1") == ({"a": "d1", "b": "d2"}, {"d1": "{}", "d2": "[]"})
        with pytest.raises(NoCatalog, match="'c2'"):
            await stores.catalogs.definitions("c2")

    backend.run(scenario)


@pytest.mark.parametrize("text", ["no JSON", "[]", "null", '{"a": 1}', '{"a": "gone"}'])
def test_a_catalog_that_another_program_has_spoilt_is_named_and_can_be_replaced(backend: Backend, text: str) -> None:
    async def scenario(stores: Stores) -> None:
        await published(stores, "c1", None)
        await as_any(stores.client.hset(keys.catalog("c1"), "manifest", text))
        with pytest.raises(UnreadableDefinition, match=r"'c1' cannot be read: .* `ekiden catalog publish`"):
            await stores.catalogs.definitions("c1")
        before = await stores.catalogs.to_replace()
        assert before is not None
        assert before.digest == "c1"
        assert not await published(stores, "c1", "c1"), "it is in force already"
        assert await stores.catalogs.definitions("c1") == ({"a": "d-c1"}, {"d-c1": "{}"})
        await as_any(stores.client.hset(keys.catalog("c1"), "manifest", text))
        assert await published(stores, "c2", "c1")
        assert await stores.catalogs.in_force() == InForce("c2", {"a": "d-c2"})

    backend.run(scenario)
