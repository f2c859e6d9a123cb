"""Addresses, and what goes wrong with them: our errors, one line each."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kombu import Connection
from redis import Redis, exceptions

from ekiden.shared.errors import ConfigurationError, EkidenError, StoreNotReady, StoreUnavailable
from ekiden.shared.relay.transport import RejectHandler, transport_to
from ekiden.shared.stores import pipeline
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any, connect, translated
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, submitted
from tests.integration.scratch import Scratch, free_port, scratch_server

DEADLINE_S = 60.0


def ping(url: str) -> None:
    """Open the stores at ``url`` and ask whether the server answers."""

    async def whole() -> None:
        stores = open_stores(url, retries=1)
        try:
            await stores.ping()
        finally:
            await stores.close()

    asyncio.run(whole())


def broker(url: str) -> Connection:
    """What a pool's consumer connects with."""
    return Connection(transport=transport_to(url, RejectHandler(lambda *_: None, lambda: False)))


def refused(url: str, error: type[EkidenError]) -> str:
    """The text with which ``url`` is refused; it is one line."""
    began = time.monotonic()
    with pytest.raises(error) as caught:
        ping(url)
    assert time.monotonic() - began < DEADLINE_S
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    """A server that wants a password; its socket is in a folder with a space."""
    with scratch_server(tmp_path_factory.mktemp("pass word"), requirepass="p@ss/wörd") as server:
        yield server


@pytest.fixture
def no_redis() -> Iterator[int]:
    """The port of something that speaks HTTP."""

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>\n</html>")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE_S)


def test_a_closed_port_is_an_unavailable_store_and_the_text_says_what_to_do() -> None:
    port = free_port()
    text = refused(f"redis://127.0.0.1:{port}/0", StoreUnavailable)
    assert text.startswith(f"no Redis server answers at redis://127.0.0.1:{port}/0 (")
    assert text.endswith("start one, or set EKIDEN_REDIS_URL")


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_pool_that_stops_does_not_wait_for_a_message_that_never_comes(
    valkey_url: str, is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise exceptions.TimeoutError

    with broker(valkey_url) as connection, Redis.from_url(valkey_url) as client:
        channel = connection.channel()
        channel.brpop_timeout = 2 * DEADLINE_S
        channel.queue_declare("ekiden.agent.idle")
        channel.basic_consume("ekiden.agent.idle", no_ack=True, callback=print, consumer_tag="c")
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.01)
        ends = time.monotonic() + DEADLINE_S
        while not client.info("clients")["blocked_clients"]:
            assert time.monotonic() < ends
        if is_silent:
            monkeypatch.setattr(channel, "conn_or_acquire", refuse)
        channel.close()
        assert time.monotonic() < ends


def test_a_socket_that_does_not_exist_is_an_unavailable_store(tmp_path: Path) -> None:
    assert f"unix://{tmp_path}/none.sock" in refused(f"unix://{tmp_path}/none.sock?db=0", StoreUnavailable)


def test_a_host_that_does_not_exist_is_an_unavailable_store() -> None:
    refused("redis://no-such-host.invalid:6379/0", StoreUnavailable)


def test_something_that_is_no_redis_is_an_unavailable_store(no_redis: int) -> None:
    refused(f"redis://127.0.0.1:{no_redis}/0", StoreUnavailable)


def test_tls_to_something_without_it_is_an_unavailable_store(no_redis: int) -> None:
    refused(f"rediss://127.0.0.1:{no_redis}/0", StoreUnavailable)


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:wrong@"])
def test_a_wrong_password_is_an_error_of_configuration_and_is_not_shown(locked: Scratch, login: str) -> None:
    text = refused(f"redis://{login}127.0.0.1:{locked.port}/0", ConfigurationError)
    assert "user name or password" in text
    assert ":wrong@" not in text


def test_the_right_password_lets_in_by_tcp_and_by_socket(locked: Scratch) -> None:
    password = quote("p@ss/wörd", safe="")
    for url in (
        f"redis://:{password}@127.0.0.1:{locked.port}/0",
        f"redis://127.0.0.1:{locked.port}/0?password={password}&username=default",
        f"unix://:{password}@{quote(str(locked.path))}?db=3",
    ):
        ping(url)
        with broker(url) as connection:
            connection.ensure_connection(max_retries=1, timeout=60)
            connection.default_channel.client.ping()


def test_what_is_no_address_is_refused_before_anything_connects() -> None:
    for reader in (connect, broker):
        with pytest.raises(ConfigurationError, match="no Redis address"):
            reader("sentinel://127.0.0.1:26379/0")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host:1/2", {"host": "host", "port": 1, "db": 2}),
        ("redis://host:1?db=2", {"host": "host", "port": 1, "db": 2}),
        ("redis://host", {"host": "host", "port": 6379, "db": 0}),
        ("redis://host/1?socket_timeout=3", {"host": "host", "db": 1, "socket_timeout": 3.0}),
        ("redis://[::1]:7/0", {"host": "::1", "port": 7}),
        ("redis://me:p%40ss@host/0", {"username": "me", "password": "p@ss"}),
        ("redis://host/0?username=me&password=p%40ss", {"username": "me", "password": "p@ss"}),
        ("unix:///tmp/a%20b/s.sock?db=2", {"path": "/tmp/a b/s.sock", "db": 2}),
        ("unix:///tmp/s.sock", {"path": "/tmp/s.sock", "db": 0}),
        ("unix://me:p%40ss@/tmp/s.sock?db=1", {"path": "/tmp/s.sock", "db": 1, "username": "me", "password": "p@ss"}),
        ("rediss://host:1/2", {"host": "host", "port": 1, "db": 2}),
        ("rediss://host/0?ssl_cert_reqs=none", {"ssl_cert_reqs": "none"}),
        ("rediss://host/0?ssl_ca_certs=/dev/null&ssl_check_hostname=no", {"ssl_check_hostname": False}),
    ],
)
def test_the_broker_gets_the_same_place_as_the_store(url: str, expected: dict[str, object]) -> None:
    store = {"host": "127.0.0.1", "port": 6379, "db": 0, **connect(url).connection_pool.connection_kwargs}
    assert {name: parameters_of(broker(url)).get(name) for name in expected} == expected
    assert {name: store.get(name) for name in expected} == expected


def parameters_of(connection: Connection) -> dict[str, Any]:
    """What kombu's channel would connect with; it does not yet."""

    class Unconnected(connection.transport.Channel):
        def __init__(self) -> None:
            self.connection = connection.transport

        def __del__(self) -> None:
            """There is nothing to close."""

    parameters: dict[str, Any] = Unconnected()._connparams()
    return parameters


def test_tls_checks_certificates_on_both_connections_unless_told_otherwise() -> None:
    for url, checks in (("rediss://host/0", ssl.CERT_REQUIRED), ("rediss://host/0?ssl_cert_reqs=none", ssl.CERT_NONE)):
        parameters = parameters_of(broker(url))
        theirs = parameters.pop("connection_class")(**_tls(parameters))
        assert theirs.cert_reqs == checks
        assert connect(url).connection_pool.make_connection().cert_reqs == checks  # type: ignore[no-untyped-call]


def _tls(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name.startswith("ssl_")}


def test_a_lost_broker_is_named_without_its_password() -> None:
    for url, shown in (
        ("redis://me:secret@host:1/2", "redis://host:1/2"),
        ("unix://me:secret@/tmp/s.sock?db=1", "unix:///tmp/s.sock"),
    ):
        assert broker(url).as_uri() == shown


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (exceptions.BusyLoadingError("loading"), StoreNotReady),
        (exceptions.ReadOnlyError("read-only replica"), StoreNotReady),
        (exceptions.OutOfMemoryError("used memory > maxmemory"), StoreNotReady),
        (exceptions.ResponseError("MISCONF cannot write to disk"), StoreNotReady),
        (exceptions.ResponseError("MASTERDOWN link with master is down"), StoreNotReady),
        (exceptions.ResponseError("WRONGTYPE"), EkidenError),
        (exceptions.ConnectionError("refused"), StoreUnavailable),
        (exceptions.TimeoutError(), StoreUnavailable),
        (exceptions.AuthenticationError("invalid"), ConfigurationError),
        (OSError("no route"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
    ],
)
def test_the_clients_errors_leave_as_ours(theirs: Exception, ours: type[EkidenError]) -> None:
    @translated
    async def fail() -> None:
        raise theirs

    with pytest.raises(EkidenError) as caught:
        asyncio.run(fail())
    assert type(caught.value) is ours
    assert str(caught.value)


def test_connections_are_lent_in_the_order_in_which_they_were_asked_for(valkey_url: str) -> None:
    async def scenario() -> list[int]:
        stores, served = open_stores(valkey_url, connections=2), list[int]()

        async def ask() -> None:
            for turn in range(3):  # who was served asks again at once, and must not pass those that still wait
                await stores.now_ms()
                served.append(turn)

        await asyncio.gather(*(ask() for _ in range(50)))
        await stores.close()
        return served

    turns = asyncio.run(scenario())
    for place, turn in enumerate(turns):
        overtaken = sum(later < turn for later in turns[place:])
        assert overtaken <= 4, "what is on its way over two connections, or answered and not yet told, not all who wait"


def test_who_stops_waiting_for_a_connection_or_gets_none_takes_no_turn_away(valkey_url: str) -> None:
    async def scenario(url: str) -> None:
        stores = open_stores(url, retries=0, connections=1)
        waiting = [asyncio.create_task(stores.now_ms()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        async with asyncio.timeout(DEADLINE_S):
            with contextlib.suppress(StoreUnavailable):
                await stores.now_ms()
        await stores.close()

    for url in (valkey_url, f"redis://127.0.0.1:{free_port()}/0"):
        asyncio.run(scenario(url))


def test_a_lease_counts_from_when_its_claim_was_sent_not_from_when_it_waited_for_its_turn(
    valkey: Backend, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MOST_UNANSWERED", 1)

    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        busy = open_stores(valkey_url)
        claim = await claim_of(stores, job)
        await as_any(busy.client.get("nothing"))  # the shared connection is open
        await stores.client.client_pause(300)
        before = asyncio.create_task(as_any(busy.client.get("nothing")))
        claiming = asyncio.create_task(busy.jobs.claim(claim, 30))
        await before
        freed_at = time.monotonic()
        claimed = await claiming
        assert isinstance(claimed, Claimed)
        assert freed_at - 0.1 < claimed.sent_at < time.monotonic()
        await busy.close()

    valkey.run(scenario)


def test_a_server_that_lost_the_scripts_and_the_connection_is_used_again(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await submitted(stores, request_id="1")
        await stores.client.script_flush()
        await submitted(stores, request_id="2")
        await stores.client.client_kill_filter(_type="normal", skipme=False)
        await submitted(stores, request_id="3")
        assert len(await stores.jobs.jobs()) == 3

    valkey.run(scenario)


def test_a_cancellation_that_the_driver_loses_still_ends_what_was_cancelled() -> None:
    @translated
    async def loses_it() -> str:
        with contextlib.suppress(asyncio.CancelledError):  # as wait_for does with what is sent just then
            await asyncio.Event().wait()
        return "sent"

    async def scenario() -> None:
        async with asyncio.timeout(0.001):
            await loses_it()
            raise AssertionError("it went on")

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())
