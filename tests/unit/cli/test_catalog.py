"""``ekiden catalog``, as users meet it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands.catalog import history
from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import AmbiguousId, CatalogReplaced, DefinitionError, EkidenError, InvalidRequest, NoCatalog
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any

OTHER = "0123456789ab"


@pytest.fixture(autouse=True)
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey_url: str) -> Path:
    """An empty project on an empty server; returns the folder of its agent files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EKIDEN_REDIS_URL", valkey_url)

    async def empty(stores: Stores) -> None:
        await as_any(stores.client.flushall())

    on(valkey_url, empty)
    folder = tmp_path / ".gemini" / "agents"
    folder.mkdir(parents=True)
    write(folder, "alpha")
    return folder


def on(url: str, change: Any) -> None:
    async def whole() -> None:
        stores = open_stores(url)
        try:
            await change(stores)
        finally:
            await stores.close()

    asyncio.run(whole())


def write(folder: Path, name: str, front: str = "") -> None:
    (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n{front}---\nWork.\n")


def invoked(*words: str) -> Result:
    return CliRunner().invoke(app, ["catalog", *words])


def shown(*words: str) -> str:
    done = invoked(*words)
    assert done.exit_code == 0, done.exception
    return done.stdout


def told(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(*words, "--json"))
    return found


def refusal(*words: str) -> EkidenError:
    done = invoked(*words)
    assert isinstance(done.exception, EkidenError), done.stdout
    assert done.stdout == ""
    return done.exception


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown("history", "--json").splitlines()]


def test_publishing_tells_what_comes_into_force(agents: Path) -> None:
    first = told("publish")
    assert (first["published"], first["replaced"], first["removed"], first["changed"]) == (True, None, [], [])
    assert {"alpha", "debugger"} <= set(first["added"])
    assert first["agents"] == len(first["added"])

    write(agents, "beta")
    text = shown("publish")
    assert f"{first['catalog'][:12]} → " in text
    assert ": added beta\n" in text
    assert f"is in force, {first['agents'] + 1} agents\n" in text


def test_publishing_and_rolling_back_name_who_loses_which_tools(agents: Path) -> None:
    write(agents, "alpha", "tools: [ls, grep]\n")
    write(agents, "beta", "tools: [ls]\n")
    first = told("publish")
    assert first["lost_tools"] == {}
    write(agents, "alpha", "tools: [ls, glob]\n")
    write(agents, "beta", "tools: [ls, glob]\n")
    text = shown("publish")
    assert "agent 'alpha' loses grep\n" in text
    assert "'beta'" not in text, "who may use more loses nothing"
    back = told("rollback", first["catalog"][:8])
    assert back["lost_tools"] == {"alpha": ["glob"], "beta": ["glob"]}
    (agents / "alpha.md").unlink()
    assert told("publish")["lost_tools"] == {}, "who is gone is told of as such"


def test_publishing_the_same_again_changes_nothing_and_says_so() -> None:
    first = told("publish")
    assert told("publish") == {**first, "published": False, "replaced": None, "added": []}
    assert "is in force already, " in shown("publish", "--expect", OTHER)
    assert len(lines()) == 1


def test_a_file_with_an_error_keeps_everything_from_being_published(agents: Path) -> None:
    write(agents, "beta", "handoffs: [{to: nobody}]\n")
    (agents / "gamma.md").write_text("---\nname: gamma\ndescription: x\ntriggers: {priority: high}\n---\nWork.\n")
    done = invoked("publish")
    assert isinstance(done.exception, DefinitionError)
    assert done.exception.exit_code == 2
    assert str(done.exception) == "2 error(s) in the agent files: nothing was published"
    assert f"{agents / 'beta.md'}:4: error: agent 'beta' hands over to 'nobody'" in done.stderr
    assert f"{agents / 'gamma.md'}:4: error: " in done.stderr
    assert lines() == []


def test_folders_on_the_command_line_are_published_too(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", "delta")
    assert "delta" in told("publish", "--agents-dir", str(tmp_path / "more"))["added"]
    refused = invoked("publish", "--agents-dir", str(tmp_path / "none"))
    assert isinstance(refused.exception, DefinitionError)
    assert "this folder of agent files does not exist" in refused.stderr


def test_what_is_expected_to_be_in_force_must_be(agents: Path) -> None:
    refused = refusal("publish", "--expect", OTHER)
    assert isinstance(refused, CatalogReplaced)
    assert refused.exit_code == 2
    assert f"no catalog is in force; catalog {OTHER} was to be replaced, so nothing was published" in str(refused)
    first = told("publish", "--expect", "none")
    write(agents, "beta")
    there = f"catalog {first['catalog'][:12]} is in force, published at 20"
    assert there in str(refusal("publish", "--expect", "none"))
    assert there in str(refusal("publish", "--expect", OTHER))
    assert told("publish", "--expect", first["catalog"][:8])["published"]


@pytest.mark.parametrize("words", [("publish", "--expect", "latest"), ("show", "abc"), ("rollback", "HEAD~1")])
def test_what_is_no_digest_is_refused_before_a_server_is_asked(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_REDIS_URL", "redis://127.0.0.1:1")
    assert isinstance(refusal(*words), InvalidRequest)


def test_shows_the_agents_in_force_and_those_of_another_catalog(agents: Path) -> None:
    first = told("publish")
    write(agents, "beta", "title: The Second\n")
    told("publish")
    seen = told("show")
    assert (seen["in_force"], seen["published"]["replaced"]) == (True, first["catalog"])
    assert next(one for one in seen["agents"] if one["name"] == "beta")["title"] == "The Second"
    text = shown("show")
    assert f"catalog {seen['catalog'][:12]}, {len(seen['agents'])} agents, in force, published at 20" in text
    assert "The Second" in text
    before = told("show", first["catalog"][:6])
    assert (before["catalog"], before["in_force"]) == (first["catalog"], False)
    assert "beta" not in {one["name"] for one in before["agents"]}
    assert isinstance(refusal("show", OTHER), NoCatalog)


def test_where_nothing_is_in_force_that_is_said() -> None:
    assert "no catalog is in force: `ekiden catalog publish`" in str(refusal("show"))
    assert "there is nothing to roll back" in str(refusal("rollback"))
    assert lines() == []


def test_rolls_back_to_the_one_before_and_to_any_that_is_kept(agents: Path) -> None:
    digests = [told("publish")["catalog"]]
    assert "has replaced none" in str(refusal("rollback"))
    for name in ("beta", "gamma"):
        write(agents, name)
        digests.append(told("publish")["catalog"])
    back = told("rollback")
    assert (back["catalog"], back["replaced"], back["removed"]) == (digests[1], digests[2], ["gamma"])
    assert told("rollback")["catalog"] == digests[2], "the one before is what was rolled back"
    assert told("rollback", digests[0][:10])["catalog"] == digests[0]
    assert not told("rollback", digests[0])["published"]
    order = [digests[index] for index in (0, 2, 1, 2, 1, 0)]
    assert [line["digest"] for line in lines()] == order
    assert [line["is_rollback"] for line in lines()] == [True] * 3 + [False] * 3
    assert shown("history", "--limit", "2").splitlines()[1].split()[-2:] == ["catalog", "rollback"]


def test_refuses_to_roll_back_to_what_is_not_kept_any_more(agents: Path, valkey_url: str) -> None:
    first = told("publish")["catalog"]
    write(agents, "beta")
    second = told("publish")["catalog"]

    async def expire(stores: Stores) -> None:
        await as_any(stores.client.delete(keys.catalog(first)))

    on(valkey_url, expire)
    for words in ((), (first,), (first[:8],)):
        refused = refusal("rollback", *words)
        assert isinstance(refused, NoCatalog)
        assert f"catalog {first[:12]!r} is not on this server (any more)" in str(refused)
    assert told("show")["catalog"] == second


def test_a_beginning_of_several_digests_is_refused(valkey_url: str) -> None:
    async def publish(stores: Stores) -> None:
        await stores.catalogs.publish("abcdef1", {}, {}, replaces=None)
        await stores.catalogs.publish("abcdef2", {}, {}, replaces="abcdef1")

    on(valkey_url, publish)
    assert isinstance(refusal("show", "abcdef"), AmbiguousId)


def test_history_lists_as_many_as_are_kept() -> None:
    assert isinstance(history.__defaults__, tuple)
    assert history.__defaults__[0] == keys.PUBLICATIONS_KEPT
    assert invoked("history", "--limit", str(keys.PUBLICATIONS_KEPT + 1)).exit_code == 2
