"""Servers that Ekiden cannot run on are told apart before anything is submitted."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import ConfigurationError, EkidenError, StoreUnavailable
from ekiden.shared.stores.opening import open_stores
from tests.doubles.impostors import old_redis, serving, tls_server, web_server
from tests.integration.scratch import Scratch, scratch_server


def check(url: str) -> list[str]:
    """Ask as a pool does when it starts."""

    async def whole() -> list[str]:
        stores = open_stores(url, retries=1)
        try:
            await stores.ping()
            return await stores.check()
        finally:
            await stores.close()

    return asyncio.run(whole())


def refused(url: str, error: type[EkidenError], text: str) -> None:
    with pytest.raises(error) as caught:
        check(url)
    assert type(caught.value) is error, caught.value
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def evicting(folder: Path, policy: str = "allkeys-lru", maxmemory: str = "100mb") -> AbstractContextManager[Scratch]:
    return scratch_server(folder, maxmemory=maxmemory, **{"maxmemory-policy": policy})


def test_a_server_that_answers_in_http_is_no_redis() -> None:
    with web_server() as port:
        refused(f"redis://127.0.0.1:{port}", StoreUnavailable, f"what answers at redis://127.0.0.1:{port} is no Redis")


def test_somebody_who_hangs_up_is_no_redis() -> None:
    with serving(lambda connection: None) as port:
        refused(f"redis://127.0.0.1:{port}", StoreUnavailable, "no Redis server answers")


def test_a_password_that_is_missing_is_asked_for(tmp_path: Path) -> None:
    with scratch_server(tmp_path, requirepass="secret") as server:
        refused(server.url, ConfigurationError, "the address has none: write redis://:PASSWORD@HOST:PORT")


def test_a_database_that_there_is_not_is_named(tmp_path: Path) -> None:
    with scratch_server(tmp_path) as server:
        refused(f"redis://127.0.0.1:{server.port}/99", ConfigurationError, "no such database")


def test_tls_to_a_server_without_it(tmp_path: Path) -> None:
    with scratch_server(tmp_path) as server:
        url = f"rediss://127.0.0.1:{server.port}"
        refused(url, ConfigurationError, "speaks no TLS: write redis:// in place of rediss://")


def test_no_tls_to_a_server_that_wants_it(tmp_path: Path) -> None:
    with tls_server(tmp_path) as port:
        url = f"redis://127.0.0.1:{port}"
        refused(url, ConfigurationError, "speaks TLS: write rediss:// in place of redis://")


def test_a_certificate_that_nobody_trusts(tmp_path: Path) -> None:
    with tls_server(tmp_path) as port:
        refused(f"rediss://127.0.0.1:{port}", ConfigurationError, "?ssl_ca_certs=FILE")


def test_a_server_older_than_7() -> None:
    with old_redis("6.2.14") as port:
        refused(f"redis://127.0.0.1:{port}", ConfigurationError, "has version 6.2.14: Ekiden needs Redis 7 or later")


def test_a_server_so_old_that_it_does_not_greet() -> None:
    with old_redis("5.0.3") as port:
        refused(f"redis://127.0.0.1:{port}", ConfigurationError, "older than version 6: Ekiden needs Redis 7 or later")


@pytest.mark.parametrize("version", ["7.0.0", "8.2.1", "unheard-of"])
def test_a_server_that_tells_little_but_is_new_enough(version: str) -> None:
    with old_redis(version) as port:
        assert check(f"redis://127.0.0.1:{port}") == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_evicts_is_refused_with_the_line_to_change(tmp_path: Path, policy: str) -> None:
    with evicting(tmp_path, policy) as server:
        refused(server.url, ConfigurationError, "CONFIG SET maxmemory-policy noeviction")
        command(server, lambda client: client.config_set("maxmemory-policy", "noeviction"))
        check(server.url)


def test_a_policy_that_never_comes_to_bear_is_harmless(tmp_path: Path) -> None:
    with evicting(tmp_path, maxmemory="0") as server:
        check(server.url)


@pytest.mark.parametrize(
    ("options", "warns"),
    [({"save": "", "appendonly": "no"}, True), ({"appendonly": "yes"}, False), ({"save": "3600 1"}, False)],
)
def test_a_server_that_keeps_nothing_is_warned_of(tmp_path: Path, options: dict[str, str], warns: bool) -> None:
    with scratch_server(tmp_path, **options) as server:
        advice = check(server.url)
        assert ["CONFIG SET appendonly yes" in line for line in advice] == [True] * warns


def test_what_a_managed_server_does_not_tell_is_taken_for_good(tmp_path: Path) -> None:
    with evicting(tmp_path) as server:
        login = {"enabled": True, "passwords": ["+p"], "keys": ["*"], "channels": ["*"]}
        command(server, lambda c: c.acl_setuser("some", categories=["+@all"], commands=["-config", "-info"], **login))
        assert check(f"redis://some:p@127.0.0.1:{server.port}") == []
        command(server, lambda c: c.acl_setuser("more", categories=["+@all"], commands=["-config"], **login))
        refused(f"redis://more:p@127.0.0.1:{server.port}", ConfigurationError, "throws jobs away")
        command(server, lambda client: client.config_set("maxmemory", "0"))
        assert check(f"redis://more:p@127.0.0.1:{server.port}") == [], "whether it saves is not known"


def test_a_client_asks_before_its_first_submit_and_only_then(tmp_path: Path) -> None:
    async def whole(server: Scratch) -> None:
        async with Client(server.url) as client:
            assert await client.jobs() == []
            with pytest.raises(ConfigurationError, match="throws jobs away"):
                await client.submit("x")
            assert await client.jobs() == []
            stores = open_stores(server.url)
            await stores.client.config_set("maxmemory", "0")
            await client.submit("x")
            await stores.client.config_set("maxmemory", "100mb")
            await client.submit("x")
            await stores.close()
            assert len(await client.jobs()) == 2

    with evicting(tmp_path) as server:
        asyncio.run(whole(server))


def test_a_server_in_health_has_no_ailment(tmp_path: Path) -> None:
    async def whole(server: Scratch) -> str | None:
        async with Client(server.url) as client:
            return await client.health_problem()

    with scratch_server(tmp_path, appendonly="yes") as server:
        assert asyncio.run(whole(server)) is None


def command(server: Scratch, work: Callable[[Any], Any]) -> None:
    """Do something to the server that its owner may."""

    async def whole() -> None:
        stores = open_stores(server.url)
        await work(stores.client)
        await stores.close()

    asyncio.run(whole())
