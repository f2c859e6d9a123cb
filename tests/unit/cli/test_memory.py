"""``ekiden memory`` and ``ekiden users``: notes as people see and change them, and people who are forgotten."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.commands import memory
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import EkidenError, InvalidRequest
from ekiden.shared.ids import session_of
from ekiden.shared.lessons import Lesson, taken_in
from ekiden.shared.memory.base import Namespace, Origin
from ekiden.shared.memory.memories import Memories
from ekiden.shared.messages import Usage
from ekiden.shared.stores import keys
from ekiden.shared.stores.model_limits import ModelLimit
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any, connect
from tests.contract.relay_world import submission
from tests.doubles.letters import Letters
from tests.scenarios.relay import Relay, team
from tests.unit.cli.test_jobs import ekiden, there
from tests.unit.workers.test_memory import SHOP
from tests.unit.workers.world import Replies, said

OF_SHOP = ("--shared", "shop")


@pytest.fixture
def shop(valkey_url: str) -> str:
    """A server with two notes that agents share, one of them marked."""

    async def scenario(stores: Stores, _: Client) -> None:
        mine = Memories(stores.memories, Letters())
        origin = Origin(agent="orders", job="abcdefghijklmnop.1", user="ann")
        await mine.save(SHOP, "Parcels leave at noon. 包裹中午发出。", key="noon", origin=origin)
        read = origin.model_copy(update={"untrusted": "what web_fetch returns"})
        await mine.save(SHOP, "Refunds take a week.", tags=["money"], origin=read)

    there(valkey_url, scenario)
    return valkey_url


async def _nothing(_: Stores, __: Client) -> None:
    pass


def refused(url: str, *args: str) -> str:
    with pytest.raises(EkidenError) as caught:
        CliRunner().invoke(app, [*args, "--redis", url], catch_exceptions=False)
    return str(caught.value)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_notes_are_listed_shown_and_found(shop: str) -> None:
    assert "shared shop" in ekiden(shop, "memory", "list")
    assert "Refunds take a week." in ekiden(shop, "memory", "list", *OF_SHOP)
    shown = ekiden(shop, "memory", "show", "noon", *OF_SHOP)
    assert "by agent orders in job abcdefghijklmnop.1" in shown
    assert "包裹中午发出。" in shown
    (marked,) = [one for one in lines(ekiden(shop, "memory", "list", *OF_SHOP, "--json")) if one.get("tags")]
    assert "which nobody vouches for" in ekiden(shop, "memory", "show", marked["id"], *OF_SHOP)
    found = lines(ekiden(shop, "memory", "search", "money", *OF_SHOP, "--words", "--json"))
    assert [one["content"] for one in found] == ["Refunds take a week."]
    assert "there is no note 'x'" in refused(shop, "memory", "show", "x", *OF_SHOP)


def test_an_agents_own_notes_are_those_about_whoever_asks(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_USER", "zoe")
    there(valkey_url, _nothing)
    ekiden(valkey_url, "memory", "add", "likes tea", "--agent", "orders")
    ekiden(valkey_url, "memory", "add", "likes coffee", "--agent", "orders", "--user", "bob")
    ekiden(valkey_url, "memory", "add", "likes water", "--user", "bob")
    assert "likes tea" in ekiden(valkey_url, "memory", "list", "--agent", "orders")
    assert "likes coffee" in ekiden(valkey_url, "memory", "list", "--agent", "orders", "--user", "bob")
    assert "likes water" in ekiden(valkey_url, "memory", "list", "--user", "bob")
    listed = ekiden(valkey_url, "memory", "list")
    assert "agent orders's about zoe" in listed
    assert "--agent orders --user bob" in listed


def test_notes_in_files_are_looked_at_changed_and_forgotten_like_others(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_DATA_DIR", str(tmp_path / "data"))
    in_files = (*OF_SHOP, "--files")
    ekiden(shop, "memory", "add", "鲍勃付款很晚", "--key", "bob", *in_files)
    ekiden(shop, "memory", "add", "about zoe", "--user", "zoe-7", "--files")
    assert "shared shop in files" in ekiden(shop, "memory", "list")
    assert "--user zoe-7 --files" in ekiden(shop, "memory", "list")
    of_all, of_files = (ekiden(shop, "memory", "list", *also).splitlines()[1:] for also in ([], ["--files"]))
    assert (len(of_all), len(of_files)) == (3, 2)
    assert all("in files" in line for line in of_files)
    assert len(ekiden(shop, "memory", "export", "--files").splitlines()) == 2
    assert "鲍勃付款很晚" in ekiden(shop, "memory", "show", "bob", *in_files)
    assert "there is no note 'bob'" in refused(shop, "memory", "show", "bob", *OF_SHOP)
    ekiden(shop, "memory", "export", "-o", str(tmp_path / "all.jsonl"))
    ekiden(shop, "users", "forget", "zoe-7", "--yes")
    assert "zoe-7" not in "".join(one.read_text() for one in (tmp_path / "data" / "memory").glob("*.jsonl"))
    ekiden(shop, "memory", "forget", "bob", *in_files)
    assert "in files" not in ekiden(shop, "memory", "list")
    ekiden(shop, "memory", "import", str(tmp_path / "all.jsonl"))
    assert "鲍勃付款很晚" in ekiden(shop, "memory", "list", *in_files)


def test_a_search_whose_model_cannot_be_used_goes_by_words_and_says_why(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_MEMORY_EMBEDDING_MODEL", "text-embedding-3-small")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = CliRunner().invoke(app, ["memory", "search", "refunds", *OF_SHOP, "--redis", shop])
    assert "Refunds take a week." in done.stdout
    assert "found by words: text-embedding-3-small makes no vectors" in done.stderr
    assert "no key: set OPENAI_API_KEY" in done.stderr


def test_a_person_adds_and_takes_away(shop: str) -> None:
    ekiden(shop, "memory", "add", "Closed on Sunday", "--key", "sunday", *OF_SHOP)
    (added,) = lines(ekiden(shop, "memory", "show", "sunday", *OF_SHOP, "--json"))
    assert added["origin"]["by"] == "person"
    assert "1 note(s) of shared shop forgotten" in ekiden(shop, "memory", "forget", "sunday", *OF_SHOP)
    assert "there is no note 'sunday'" in refused(shop, "memory", "forget", "sunday", *OF_SHOP)
    assert "name the notes to forget, or say --all" in refused(shop, "memory", "forget", *OF_SHOP)
    assert "2 note(s)" in ekiden(shop, "memory", "forget", "--all", *OF_SHOP)
    assert ekiden(shop, "memory", "list", "--json") == ""


def test_what_is_exported_is_imported_as_it_was(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    ekiden(shop, "memory", "add", "one\u2028two\x85three\rfour", *OF_SHOP)
    ekiden(shop, "memory", "export", "-o", str(file))
    before = sorted(ekiden(shop, "memory", "export").split("\n"))
    ekiden(shop, "memory", "forget", "--all", *OF_SHOP)
    assert "3 note(s) in 1 namespace(s)" in ekiden(shop, "memory", "import", str(file))
    ekiden(shop, "memory", "import", str(file))  # once more changes nothing
    assert sorted(ekiden(shop, "memory", "export").split("\n")) == before


def test_a_file_that_would_fill_a_namespace_is_not_imported_at_all(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_NOTES", 2)
    file = tmp_path / "notes.jsonl"
    file.write_text(json.dumps({"namespace": "team::", "id": "0123456789abcdef", "content": "x"}))
    with file.open("a") as more:
        more.write("\n" + json.dumps({"namespace": SHOP.id, "id": "123456789abcdef0", "content": "one too many"}))
    assert "shared shop would have more than 2 notes. Nothing was kept" in refused(shop, "memory", "import", str(file))
    assert "the team's" not in ekiden(shop, "memory", "list")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"namespace": "team::", "id": "0123456789abcdef", "content": "x"}\nno JSON', "line 2: "),
        ('{"id": "0123456789abcdef", "content": "x"}', "line 1: it is no note"),
        ('{"namespace": "moon::", "id": "0123456789abcdef", "content": "x"}', "'moon::' is no namespace"),
        ('{"namespace": "team::", "id": "0123456789abcdef"}', "line 1: 'content'"),
        ('{"namespace": "team::", "id": "sum", "content": "x"}', "line 1: 'id'"),
        ('{"namespace": "team::", "id": "version", "content": "x"}', "line 1: 'id'"),
        ('{"namespace": "team::", "id": "0123456789abcdef", "content": " "}', "must have 1 to 4,000 characters"),
        ("[1]", "line 1: it is no note"),
    ],
)
def test_a_file_with_a_line_that_is_no_note_is_not_imported_at_all(
    shop: str, tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text(text)
    message = refused(shop, "memory", "import", str(file))
    assert problem in message
    assert "Nothing was kept" in message
    assert "the team's" not in ekiden(shop, "memory", "list")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["memory", "add", "x"], "whose notes"),
        (["memory", "list", "--team", "--shared", "a"], "choose one of --team and --shared"),
        (["memory", "list", "--team", "--user", "a"], "choose one of --team and --user"),
        (["memory", "show", "x", "--files"], "whose notes in files"),
        (["memory", "add", "x", "--shared", "two words"], "no blanks"),
        (["memory", "add", "x", "--user", "a\nb"], "that can be shown"),
        (["memory", "add", " ", "--team"], "a note has a text"),
        (["memory", "import", "nosuch.jsonl"], "cannot be read: No such file"),
        (["users", "forget", "ann"], "say --yes"),
        (["users", "forget", "", "--yes"], "name the user"),
    ],
)
def test_bad_input_is_told(valkey_url: str, args: list[str], problem: str) -> None:
    assert problem in refused(valkey_url, *args)


async def everything(url: str) -> str:
    """All keys of a server and what they hold."""
    client, found = as_any(connect(url)), []
    async for key in client.scan_iter():
        read = {
            "string": client.get,
            "hash": client.hgetall,
            "list": lambda key: client.lrange(key, 0, -1),
            "set": client.smembers,
            "zset": lambda key: client.zrange(key, 0, -1),
            "stream": client.xrange,
        }[await client.type(key)]
        found.append(f"{key} {await read(key)}")
    await client.aclose()
    return "\n".join(found)


def test_of_a_user_who_is_forgotten_a_scan_of_the_server_finds_nothing(valkey_url: str) -> None:
    jobs: dict[str, str] = {}

    async def used(stores: Stores, client: Client) -> None:
        for user in ("zoe-7", "bob-7"):
            answer = said(f"{user}'s answer").model_copy(update={"usage": Usage(input_tokens=50, output_tokens=10)})
            relay = Relay(stores, team({"name": "lead"}), Replies({"lead": [answer]}))
            jobs[user] = await relay.submit(f"{user} asks", agent="lead")
            await as_any(stores.client.hset(keys.session(session_of(jobs[user])), "user", user))
            await relay.drain()
            for limit in (ModelLimit(user[:3], "test", rpm=1), ModelLimit("ours", "test", rpm=1)):
                for number in (7, 8):
                    await stores.model_limits.take(limit, f"{session_of(jobs[user])}.{number}", 1, queues=True)
            mine = Memories(stores.memories, Letters())
            await mine.save(Namespace("agent", "lead", user), "likes tea", origin=Origin(user=user))
            await mine.save(SHOP, f"{user} pays late", origin=Origin(user=user))
            lesson = Lesson(text=f"{user}: where is it?", agent="lead", evidence="named", user=user)
            await stores.lessons.change(lambda known, one=lesson: taken_in(known, [one]))  # type: ignore[misc]

    there(valkey_url, used)
    assert asyncio.run(everything(valkey_url)).count("zoe-7") > 8
    told = ekiden(valkey_url, "users", "forget", "zoe-7", "--yes")
    assert "zoe-7: 1 session(s), 1 job(s), 2 note(s), 1 lesson(s) forgotten" in told

    found = asyncio.run(everything(valkey_url))
    assert "zoe-7" not in found
    assert session_of(jobs["zoe-7"]) not in found
    assert found.count("bob-7") >= 8
    assert "is kept of 'zoe-7'" in refused(valkey_url, "users", "forget", "zoe-7", "--yes")


def test_a_user_whose_job_has_not_ended_is_not_forgotten_in_half(valkey_url: str) -> None:
    async def used(stores: Stores, client: Client) -> None:
        job = await stores.jobs.reserve(None, "r1")
        await stores.jobs.submit(submission(job))
        await as_any(stores.client.hset(keys.session(session_of(job)), "user", "zoe-7"))
        with pytest.raises(InvalidRequest, match="have not ended, such as"):
            await client.forget_user("zoe-7")
        assert (await client.session(session_of(job))).user == "zoe-7"

    there(valkey_url, used)
