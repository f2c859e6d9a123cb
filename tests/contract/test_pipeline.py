"""The connection that all short commands of an event loop share: whose answer is whose, and what is lost with it."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from redis import exceptions

from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.stores.pipeline import LONGEST, MOST_UNANSWERED, PipelinedConnection, packed
from ekiden.shared.stores.redis import Redis, as_any, connect, translated
from tests.integration.proxy import Proxy, Server, proxied_server
from tests.integration.scratch import free_port

ECHO = "return ARGV[1]"
DEADLINE_S = 60.0

Scenario = Callable[[Redis], Awaitable[None]]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Proxy]]:
    """A server of our own, and a line to it that can be cut."""
    with proxied_server(tmp_path_factory.mktemp("wire")) as made:
        yield made


def run(url: str, scenario: Scenario, *, retries: int = 3, timeout_s: float = 5.0) -> None:
    """Run ``scenario`` with a client of the server at ``url``."""

    async def whole() -> None:
        client = connect(url, retries=retries, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await scenario(client)
        finally:
            await client.aclose()

    asyncio.run(whole())


async def echo_of(client: Redis) -> Callable[[str], Awaitable[str]]:
    """Return what sends a text by a script, over the shared connection."""
    sha = await as_any(client.script_load(ECHO))
    return lambda text: as_any(client.evalsha(sha, 0, text))


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not happened():  # noqa: ASYNC110  # it happens on the server
            await asyncio.sleep(0.01)


async def writes(client: Redis, sha: str) -> list[Any]:
    """What becomes of a write over the shared connection, of one over another, and of two in a pipeline."""
    pipeline: Any = client.pipeline()
    pipeline.incr("pipelined").incr("pipelined")
    calls = client.evalsha(sha, 0), client.incr("borrowed"), pipeline.execute()

    @translated
    async def answer(call: Awaitable[Any]) -> Any:
        return await call

    return await asyncio.gather(*map(answer, map(as_any, calls)), return_exceptions=True)


def are_refused(found: list[Any]) -> bool:
    """Whether all were told, in our words, that their client is closed."""
    return all(isinstance(one, StoreUnavailable) and "closed by this program" in str(one) for one in found)


async def connections(client: Redis) -> int:
    return len(await as_any(client.client_list()))


def test_a_thousand_callers_share_a_connection_and_each_gets_its_own_answer(line: tuple[Server, Proxy]) -> None:
    async def scenario(client: Redis) -> None:
        echo, before = await echo_of(client), await connections(client)
        texts = [f"{number} é" for number in range(3 * MOST_UNANSWERED)]
        assert await asyncio.gather(*map(echo, texts)) == texts
        assert await connections(client) == before + 1

    run(line[0].url, scenario)


def test_an_answer_that_its_caller_waits_for_no_more_goes_to_nobody_else(line: tuple[Server, Proxy]) -> None:
    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        calls = [asyncio.ensure_future(echo(str(number))) for number in range(100)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.wait(calls)
        assert [call.result() for call in calls[1::2]] == [str(number) for number in range(1, 100, 2)]
        assert await echo("next") == "next"

    run(line[0].url, scenario)


def test_an_error_of_the_server_is_the_callers_alone(line: tuple[Server, Proxy]) -> None:
    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        calls = as_any(client.evalsha("0" * 40, 0)), echo("known")
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(found[0], exceptions.NoScriptError)
        assert found[1] == "known"

    run(line[0].url, scenario)


def test_all_who_wait_go_on_over_a_new_connection_when_theirs_breaks(line: tuple[Server, Proxy]) -> None:
    server, proxy = line

    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        proxy.be("hang")
        calls = [asyncio.ensure_future(echo(str(number))) for number in range(500)]
        await asyncio.sleep(0)
        proxy.be("pass")
        proxy.drop()
        assert await asyncio.gather(*calls) == [str(number) for number in range(500)]

    run(proxy.url, scenario)
    assert server.admin.ping()


def test_a_broken_connection_is_told_at_once_to_all_who_may_not_try_again(line: tuple[Server, Proxy]) -> None:
    _, proxy = line

    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        proxy.be("hang")
        calls = [asyncio.ensure_future(echo(str(number))) for number in range(500)]
        await asyncio.sleep(0)
        began = time.monotonic()
        proxy.drop()
        found = await asyncio.gather(*calls, return_exceptions=True)
        proxy.be("pass")
        assert {type(one) for one in found} == {exceptions.ConnectionError}
        assert time.monotonic() - began < DEADLINE_S / 4
        assert await echo("again") == "again"

    run(proxy.url, scenario, retries=0, timeout_s=DEADLINE_S)


def test_nobody_waits_for_a_silent_server_longer_than_the_deadline(line: tuple[Server, Proxy]) -> None:
    _, proxy = line

    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        proxy.be("hang")
        found = await asyncio.gather(*(echo(str(number)) for number in range(10)), return_exceptions=True)
        proxy.be("pass")
        assert {type(one) for one in found} == {exceptions.TimeoutError}
        assert await echo("again") == "again"

    run(proxy.url, scenario, retries=0, timeout_s=0.3)


def test_a_long_command_goes_another_way_and_keeps_nobody_waiting(line: tuple[Server, Proxy]) -> None:
    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        before, large = await connections(client), "x" * 5_000_000
        answers = await asyncio.gather(*(echo(large) for _ in range(3)), *(echo("short") for _ in range(50)))
        assert answers == [large] * 3 + ["short"] * 50
        assert await connections(client) > before, "they had connections of their own"

    assert packed(("EVALSHA", "x" * LONGEST)) is None
    run(line[0].url, scenario)


def test_no_more_commands_than_so_many_are_on_their_way(line: tuple[Server, Proxy]) -> None:
    async def scenario(client: Redis) -> None:
        wire = await PipelinedConnection.open(client.connection_pool, 5.0, lambda *_: None)
        ping = packed(("PING",))
        assert ping is not None
        calls = [asyncio.ensure_future(wire.call(ping)) for _ in range(MOST_UNANSWERED + 10)]
        await asyncio.sleep(0)
        assert len(wire._unanswered) == MOST_UNANSWERED
        assert set(await asyncio.gather(*calls)) == {"PONG"}
        wire.close(exceptions.ConnectionError())

    run(line[0].url, scenario)


def test_a_client_that_is_closed_leaves_no_connection(line: tuple[Server, Proxy]) -> None:
    server, _ = line
    before = len(server.admin.client_list())

    async def scenario(client: Redis) -> None:
        echo = await echo_of(client)
        await echo("opened")
        assert len(server.admin.client_list()) > before

    run(server.url, scenario)
    deadline = time.monotonic() + DEADLINE_S
    while len(server.admin.client_list()) > before:
        assert time.monotonic() < deadline, "a connection is left"


def test_a_connection_that_was_opened_for_a_caller_who_has_gone_is_closed_with_the_client(
    line: tuple[Server, Proxy],
) -> None:
    async def scenario() -> None:
        for turns in range(40):  # wherever on its way the opening is
            client = connect(line[0].url)
            call = asyncio.ensure_future(as_any(client.get("nothing")))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            await client.aclose()
        del client, call
        gc.collect()  # a connection that is left open says so

    asyncio.run(scenario())


def test_a_closed_client_sends_nothing_again_and_refuses_whatever_comes(line: tuple[Server, Proxy]) -> None:
    admin = line[0].admin
    before = len(admin.client_list())

    def at_work() -> int:
        return sum("b" in one["flags"] for one in admin.client_list())

    async def scenario() -> None:
        client = connect(line[0].url)
        sha = str(admin.script_load("return redis.call('INCR', 'shared')"))
        await as_any(client.evalsha(sha, 0))
        admin.client_pause(60_000, all=False)
        calls = asyncio.ensure_future(writes(client, sha))
        await until(lambda: at_work() == 3)
        await client.aclose()
        assert are_refused(await calls)
        assert are_refused(await writes(client, sha))
        as_any(client).listen("channel", lambda: None)
        with pytest.raises(exceptions.RedisError, match="closed by this program"):
            await as_any(client.get("channel"))
        await until(lambda: len(admin.client_list()) <= before)

    try:
        asyncio.run(scenario())
    finally:
        admin.client_unpause()
    assert admin.mget("shared", "borrowed", "pipelined") == ["1", None, None]


def test_callers_are_refused_and_not_cancelled_when_a_client_is_closed_that_is_just_connecting() -> None:
    async def scenario() -> None:
        came, gone = list[object](), list[object]()

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            came.append(writer)
            with suppress(OSError):
                while await reader.read(1000):
                    pass
            gone.append(writer)
            writer.close()

        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            client = connect(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            calls = asyncio.ensure_future(writes(client, "0" * 40))
            await until(lambda: len(came) == 3)
            await client.aclose()
            assert are_refused(await calls)
            await until(lambda: len(gone) == len(came))

    asyncio.run(scenario())


def test_who_waits_for_a_connection_that_cannot_be_had_gets_an_error_of_its_own() -> None:
    async def scenario() -> None:
        client = connect(f"redis://127.0.0.1:{free_port()}", retries=0)
        found = await asyncio.gather(*(as_any(client.get("x")) for _ in range(10)), return_exceptions=True)
        assert {type(one) for one in found} == {exceptions.ConnectionError}
        assert len(set(map(id, found))) == len(found)
        await client.aclose()

    asyncio.run(scenario())


def test_a_connection_that_cannot_be_had_and_that_nobody_waits_for_any_more_is_no_unheard_error() -> None:
    async def scenario() -> None:
        unheard = list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        client: Any = connect(f"redis://127.0.0.1:{free_port()}", retries=0)
        call = asyncio.ensure_future(client.get("x"))
        while client._opening is None:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0)
        assert not client._opening.done()
        call.cancel()
        await asyncio.wait([call, client._opening])
        del client, call
        gc.collect()
        assert not unheard

    asyncio.run(scenario())


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+one\r\n+more than was asked\r\n"])
def test_a_connection_whose_answers_make_no_sense_is_lost_and_not_misread(
    line: tuple[Server, Proxy], nonsense: bytes
) -> None:
    async def scenario(client: Redis) -> None:
        wire = await PipelinedConnection.open(client.connection_pool, 5.0, lambda *_: None)
        call = asyncio.ensure_future(wire.call(packed(("PING",)) or b""))
        await asyncio.sleep(0)
        wire.data_received(nonsense)
        assert wire.is_lost
        with pytest.raises(exceptions.ConnectionError):
            await wire.call(b"")
        await asyncio.wait([call])

    run(line[0].url, scenario)
