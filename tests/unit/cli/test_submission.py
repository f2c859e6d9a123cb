"""Which session a request belongs to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import InvalidRequest, SessionBusy, UnknownJob
from ekiden.shared.ids import session_of
from ekiden.shared.records import JobRequested
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import PoolView


def run(url: str, scenario: Callable[[Client, list[str]], Awaitable[None]]) -> None:
    async def whole() -> None:
        stores = open_stores(url)
        await as_any(stores.client.flushall())
        await stores.close()
        async with Client(url) as client:
            await scenario(client, [])

    asyncio.run(whole())


async def ask(client: Client, notes: list[str], session_choice: SessionChoice, agent: str | None = None) -> str:
    return session_of(await CliRequest("x", session_choice, agent).submit(client, notes.append))


def test_the_newest_session_of_the_user_and_of_the_agent_is_continued(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        mine = SessionChoice("ada", is_continued=True)
        routed = await ask(client, notes, SessionChoice("ada"))
        named = await ask(client, notes, SessionChoice("ada"), "debugger")
        await ask(client, notes, SessionChoice("grace"))
        assert await ask(client, notes, mine) == routed, "an agent's own session does not count"
        assert await ask(client, notes, mine, "debugger") == named
        assert notes == []
        new = await ask(client, notes, mine, "reviewer")
        assert new not in (routed, named)
        assert notes == ["there is no session of 'ada' with agent 'reviewer' yet: a new one begins"]

    run(valkey_url, scenario)


def test_a_session_is_named_by_the_beginning_of_its_id(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        session = await ask(client, notes, SessionChoice("ada"))
        assert await ask(client, notes, SessionChoice("ada", session[:5])) == session
        with pytest.raises(UnknownJob):
            await ask(client, notes, SessionChoice("ada", "000"))

    run(valkey_url, scenario)


def test_a_folder_that_is_missing_where_all_workers_are_is_refused_at_once(valkey_url: str, tmp_path: Path) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        here = PoolView("a", "worker", (), workspace_root=str(tmp_path), host=socket.gethostname())
        asked = CliRequest("x", SessionChoice("ada"), cwd=tmp_path / "nosuch")
        stores = open_stores(valkey_url)
        await stores.pools.announce(here)
        with pytest.raises(InvalidRequest, match="is no folder"):
            await asked.submit(client, notes.append)
        await stores.pools.announce(replace(here, id="b", host="elsewhere"))
        await stores.close()
        assert await asked.submit(client, notes.append)

    run(valkey_url, scenario)


def test_pools_of_our_own_serve_a_folder_whatever_a_killed_commands_pools_had(valkey_url: str, tmp_path: Path) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        stores = open_stores(valkey_url)
        await stores.pools.announce(PoolView("vm.1", "worker", (), workspace_root=str(tmp_path / "theirs")))
        await stores.close()
        asked = CliRequest("x", SessionChoice("ada"), cwd=tmp_path / "ours")
        with pytest.raises(InvalidRequest, match="lies outside of what the running workers may touch"):
            await asked.submit(client, notes.append)
        job = await asked.submit(client, notes.append, is_served=True)
        assert (await client.job(job)).cwd == str(tmp_path / "ours")

    run(valkey_url, scenario)


def test_a_busy_session_is_refused_or_freed_on_request(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        here = SessionChoice("ada", await ask(client, notes, SessionChoice("ada")))
        with pytest.raises(SessionBusy):
            await CliRequest("x", here, on_busy="reject").submit(client, notes.append)
        job = await CliRequest("x", here, on_busy="interrupt").submit(client, notes.append)
        assert (await client.job(f"{here.session}.1")).status == "cancelled"
        assert (await client.job(job)).status == "queued"

    run(valkey_url, scenario)


def test_both_ways_to_name_a_session_at_once_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="exclude each other"):
        SessionChoice("ada", "abc", is_continued=True)


def test_a_policy_is_of_new_sessions_alone() -> None:
    with pytest.raises(InvalidRequest, match="`ekiden sessions policy abc sticky`"):
        SessionChoice("ada", "abc", policy="sticky")


def test_a_new_session_begins_with_its_policy_and_one_that_is_continued_keeps_its_own(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        session = await ask(client, notes, SessionChoice("ada", policy="sticky"))
        assert (await client.session(session)).policy == "sticky"
        assert await ask(client, notes, SessionChoice("ada", is_continued=True, policy="entry")) == session
        assert notes == [f"session {session} keeps its policy sticky: `ekiden sessions policy` changes it"]
        await client.set_policy(session, "entry")
        assert (await client.session(session)).policy == "entry"
        with pytest.raises(UnknownJob):
            await client.set_policy("0" * 16, "entry")

    run(valkey_url, scenario)


@pytest.mark.parametrize(
    ("prompt", "agent", "strategy"),
    [
        ("help", "reviewer", None),
        ("@debugger help", "debugger", None),
        ("@auto help", None, "auto"),
        ("@auto --strategy=rule help", None, "rule"),
    ],
)
def test_what_a_message_says_of_its_routing_comes_before_whom_one_talks_to(
    prompt: str, agent: str | None, strategy: str | None
) -> None:
    asked = CliRequest(prompt, SessionChoice("ada")).overridden(None).by_default("reviewer")

    assert (asked.prompt, asked.agent, asked.strategy) == ("help", agent, strategy)


def test_a_strategy_is_one_that_a_dispatcher_has_announced_and_where_none_has_any_is_left_to_it(
    valkey_url: str,
) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        asked = CliRequest("@auto --strategy=nearest x", SessionChoice("ada")).overridden(None)
        assert await asked.submit(client, notes.append)
        stores = open_stores(valkey_url)
        await stores.pools.announce(PoolView("vm.1", "dispatcher", (), strategies=("rule", "nearest-desk")))
        await stores.close()
        with pytest.raises(InvalidRequest, match="no strategy 'nearest': give one of nearest-desk, rule; did you mean"):
            await asked.submit(client, notes.append)
        there = CliRequest("@auto --strategy=nearest-desk x", SessionChoice("ada")).overridden(None)
        assert await there.submit(client, notes.append)

    run(valkey_url, scenario)


def test_an_agent_named_in_the_message_does_not_choose_the_session(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        session = await ask(client, notes, SessionChoice("ada"))
        named = CliRequest("@debugger x", SessionChoice("ada", is_continued=True)).overridden(None)
        assert session_of(await named.submit(client, notes.append)) == session

    run(valkey_url, scenario)


def test_a_refused_request_goes_to_whom_the_user_names_in_the_same_session() -> None:
    asked = CliRequest("x", SessionChoice("ada", policy="entry"), strategy="rule", request_id="r")

    instead = asked.instead("debugger", "s")

    assert (instead.agent, instead.strategy, instead.request_id) == ("debugger", None, None), "a request of its own"
    assert instead.session_choice == SessionChoice("ada", "s")


def test_a_request_is_storable_whatever_a_terminal_hands_over(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        job = await client.submit("half \ud800 \ud83d\ude00", agent="n\udce9", user="u\udce9", state={"x": ["\udce9"]})
        request = (await client.entries(job))[0].record
        assert isinstance(request, JobRequested)
        assert (request.prompt, request.agent, request.state) == ("half \ufffd 😀", "n\ufffd", {"x": ["\ufffd"]})

    run(valkey_url, scenario)


def test_a_folder_whose_name_nobody_could_keep_is_refused(valkey_url: str) -> None:
    async def scenario(client: Client, notes: list[str]) -> None:
        with pytest.raises(InvalidRequest, match=r"'/tmp/caf\\udce9' is no UTF-8"):
            await client.submit("x", cwd=Path("/tmp/caf\udce9"))
        assert await client.jobs() == []

    run(valkey_url, scenario)
