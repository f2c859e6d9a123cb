"""What a dispatcher does with its own agent files, and how catalogs differ."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.dispatcher.publishing import Difference, difference, publish_own, published_ago, whoami
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.stores.catalogs import InForce, Publication, RedisCatalogStore
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import on_server
from tests.unit.test_dispatch import catalog_of

A, AB, B = catalog_of("a"), catalog_of("a", "b"), catalog_of("b")


def test_a_difference_names_what_is_added_removed_and_changed() -> None:
    found = difference({"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "e": "1", "d": "1"})
    assert found == Difference(added=["d", "e"], removed=["a"], changed=["b"])
    assert str(found) == "added d, e; removed a; changed b"


def test_a_long_difference_is_cut() -> None:
    assert str(difference({}, {f"a{n:02}": "1" for n in range(12)})).endswith(", a09 and 2 others")


def test_equal_catalogs_do_not_differ() -> None:
    found = difference({"a": "1"}, {"a": "1"})
    assert not found
    assert str(found) == "the same agents"


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "0 min ago"), (59, "59 min ago"), (120, "2 h ago"), (60 * 24 * 3, "3 days ago")]
)
def test_the_age_of_a_publication_is_told_in_fitting_units(minutes: int, text: str) -> None:
    newest = Publication("c1", "", 1, "", "", False, 1_000)
    assert published_ago("c1", [newest], 1_000 + minutes * 60_000) == f", published {text}"


def test_nothing_is_said_of_a_publication_that_nobody_noted() -> None:
    newest = Publication("c1", "", 1, "", "", False, 1_000)
    assert published_ago("c2", [newest], 2_000) == ""
    assert published_ago("c2", [], 2_000) == ""


async def started(stores: Stores, own: Catalog, *, is_wanted: bool = False) -> list[dict[str, Any]]:
    """Do what a dispatcher does; return what it has to say beyond the ordinary."""
    with capture_logs() as logs:
        await publish_own(stores.catalogs, own, is_wanted=is_wanted)
    return [dict(line) for line in logs if line["log_level"] != "info"]


def test_the_first_dispatcher_of_a_store_publishes_its_files() -> None:
    async def scenario(stores: Stores) -> None:
        assert await started(stores, A) == []
        assert await stores.catalogs.current() == A.digest
        assert await started(stores, A) == [], "the next one has the same"
        newest = (await stores.catalogs.history())[0]
        assert newest.source.startswith("dispatcher in /")
        assert "@" in newest.by

    on_server(scenario)


def test_a_later_one_with_other_files_says_how_they_differ_and_publishes_nothing() -> None:
    async def scenario(stores: Stores) -> None:
        await started(stores, A)
        [said] = await started(stores, B)
        assert (said["event"], said["files"]) == ("catalog_differs", "added b; removed a")
        assert said["in_force"] == A.digest[:12]
        assert "`ekiden catalog publish`" in said["hint"]
        assert await stores.catalogs.current() == A.digest

    on_server(scenario)


def test_one_that_is_told_to_publish_does() -> None:
    async def scenario(stores: Stores) -> None:
        await started(stores, A)
        assert await started(stores, AB, is_wanted=True) == []
        assert await stores.catalogs.current() == AB.digest

    on_server(scenario)


def test_a_restart_undoes_no_rollback_but_new_files_are_published() -> None:
    async def scenario(stores: Stores) -> None:
        await started(stores, A)
        await started(stores, AB, is_wanted=True)
        await stores.catalogs.roll_back(A.digest, replaces=AB.digest, by="ada@host", source="catalog rollback")
        [said] = await started(stores, AB, is_wanted=True)
        assert said["event"] == "catalog_differs"
        assert said["hint"].startswith("rolled back at 20")
        assert "by ada@host" in said["hint"]
        assert await stores.catalogs.current() == A.digest
        assert await started(stores, B, is_wanted=True) == []
        assert await stores.catalogs.current() == B.digest

    on_server(scenario)


def test_where_somebody_else_was_faster_nothing_is_published_and_that_is_said() -> None:
    async def scenario(stores: Stores) -> None:
        await started(stores, A)

        class Late(RedisCatalogStore):
            async def in_force(self) -> InForce | None:
                before = await super().in_force()
                await self.publish(*B.to_store(), replaces=before and before.digest, by="eve@elsewhere")
                return before

        with capture_logs() as logs:
            await publish_own(Late(stores.client), AB, is_wanted=True)
        assert logs[-1]["event"] == "catalog_not_published"
        assert "by eve@elsewhere" in logs[-1]["error"]
        assert await stores.catalogs.current() == B.digest

    on_server(scenario)


def test_whoever_publishes_has_a_name_even_where_the_system_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert whoami().startswith("?@")
