"""Which session a request belongs to."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dispatcher.cli.submission import Asked, Conversation
from dispatcher.client import Client
from shared.errors import InvalidRequest, SessionBusy, UnknownJob
from shared.ids import session_of
from shared.stores.opening import open_stores
from shared.stores.redis import as_any


def run(url: str, scenario: Callable[[Client, list[str]], Awaitable[None]]) -> None:
    async def whole() -> None:
        stores = open_stores(url)
        await as_any(stores.client.flushall())
        await stores.close()
        async with Client(url) as client:
            await scenario(client, [])

    asyncio.run(whole())


async def ask(client: Client, notes: list[str], conversation: Conversation, agent: str | None = None) -> str:
    return session_of(await Asked("x", conversation, agent).submit(client, notes.append))


def test_the_newest_session_of_the_user_and_of_the_agent_is_continued(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        mine = Conversation("ada", is_continued=True)
        routed = await ask(client, notes, Conversation("ada"))
        named = await ask(client, notes, Conversation("ada"), "debugger")
        await ask(client, notes, Conversation("grace"))
        assert await ask(client, notes, mine) == routed, "an agent's own session does not count"
        assert await ask(client, notes, mine, "debugger") == named
        assert notes == []
        new = await ask(client, notes, mine, "reviewer")
        assert new not in (routed, named)
        assert notes == ["there is no session of 'ada' with agent 'reviewer' yet: a new one begins"]

    run(valkey_url, scenario)


def test_a_session_is_named_by_the_beginning_of_its_id(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        session = await ask(client, notes, Conversation("ada"))
        assert await ask(client, notes, Conversation("ada", session[:5])) == session
        with pytest.raises(UnknownJob):
            await ask(client, notes, Conversation("ada", "000"))

    run(valkey_url, scenario)


def test_a_busy_session_is_refused_or_freed_on_request(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        here = Conversation("ada", await ask(client, notes, Conversation("ada")))
        with pytest.raises(SessionBusy):
            await Asked("x", here, on_busy="reject").submit(client, notes.append)
        job = await Asked("x", here, on_busy="interrupt").submit(client, notes.append)
        assert (await client.job(f"{here.session}.1")).status == "cancelled"
        assert (await client.job(job)).status == "queued"

    run(valkey_url, scenario)


def test_both_ways_to_name_a_session_at_once_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="exclude each other"):
        Conversation("ada", "abc", is_continued=True)
