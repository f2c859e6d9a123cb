"""``ekiden route learn``, through the real command line."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import AmbiguousId, EkidenError, InvalidRequest
from ekiden.shared.lessons import Lesson, taken_in
from ekiden.shared.stores.opening import Stores, open_stores
from tests.contract.test_lessons import answer, ask

LESSONS = [
    Lesson(text="Where is my invoice?", agent="billing", evidence="chosen", user="ann", job="j.1", at_ms=1),
    Lesson(text="发票在哪里,请告诉我", agent="billing", evidence="passed_on", user="bob", job="j.2", at_ms=2),
    Lesson(text="I want my money back", agent="refunds", evidence="named", user="ann", job="j.3", at_ms=3),
]
INVOICE, CHINESE, REFUND = (lesson.id for lesson in LESSONS)


@pytest.fixture
def server(valkey_url: str) -> str:
    """A server with three lessons."""

    async def teach(stores: Stores) -> None:
        await stores.client.flushall()
        await stores.lessons.change(lambda known: taken_in(known, LESSONS))

    on(valkey_url, teach)
    return valkey_url


def on(url: str, scenario: Callable[[Stores], Awaitable[object]]) -> None:
    async def whole() -> None:
        stores = open_stores(url)
        await scenario(stores)
        await stores.close()

    asyncio.run(whole())


def learn(server: str, *args: str) -> Result:
    """Run ``ekiden route learn``; errors of ours come out as they are."""
    result = CliRunner().invoke(app, ["route", "learn", *args, "--redis", server])
    if isinstance(result.exception, EkidenError):
        raise result.exception
    return result


def states(server: str) -> dict[str, str]:
    rows = map(json.loads, learn(server, "--json").stdout.splitlines())
    return {row["id"]: row["state"] for row in rows}


def test_shows_what_was_learned_with_its_reason_what_counts_for_more_in_front(server: str) -> None:
    lines = learn(server).stdout.splitlines()

    assert [line.split()[0] for line in lines[:4]] == ["ID", INVOICE, REFUND, CHINESE]
    assert "billing  Where is my invoice?  nobody was found, and the user named it" in lines[1]
    assert "发票在哪里,请告诉我" in lines[3]
    assert lines[-1].startswith("They count once they are accepted: `ekiden route learn --accept ID`")
    first = json.loads(learn(server, "--json").stdout.splitlines()[0])
    assert first["id"] == INVOICE
    assert (first["agent"], first["evidence"], first["user"], first["job"]) == ("billing", "chosen", "ann", "j.1")


def test_lessons_are_accepted_refused_and_forgotten(server: str) -> None:
    assert "accepted by" in learn(server, "--accept", INVOICE[:6]).stdout
    learn(server, "--refuse", CHINESE)
    assert states(server) == {INVOICE: "accepted", CHINESE: "refused", REFUND: "new"}

    assert REFUND in learn(server, "--accept", "all").stdout
    assert states(server) == {INVOICE: "accepted", CHINESE: "refused", REFUND: "accepted"}

    assert learn(server, "--forget", CHINESE).stdout.splitlines()[-1] == "1 forgotten"
    assert learn(server, "--forget-user", "ann").stdout.splitlines()[-1] == "2 forgotten"
    assert learn(server).stdout == "Nothing to show so far\n"
    assert learn(server, "--forget-user", "ann").stdout == "0 forgotten\n"


def test_an_id_that_is_none_or_several_changes_nothing(server: str) -> None:
    with pytest.raises(InvalidRequest, match="begins with 'zz': `ekiden route learn` lists"):
        learn(server, "--accept", INVOICE, "--accept", "zz")
    with pytest.raises(InvalidRequest, match="exclude each other"):
        learn(server, "--accept", INVOICE, "--forget-user", "ann")

    async def crowd(stores: Stores) -> None:
        many = [LESSONS[0].model_copy(update={"text": f"Where is invoice {n}?"}) for n in range(17)]
        await stores.lessons.change(lambda known: taken_in(known, many))

    on(server, crowd)
    letters = [one[0] for one in states(server)]
    twice = next(letter for letter in letters if letters.count(letter) > 1)
    with pytest.raises(AmbiguousId, match="type more of it"):
        learn(server, "--refuse", twice)
    assert set(states(server).values()) == {"new"}


def test_looks_at_jobs_that_ended_unless_learning_is_off(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hand_on(stores: Stores) -> None:
        await answer(stores, await ask(stores, "My parcel has not come", "r1"), "desk", "parcels", stage="rule")

    on(server, hand_on)
    monkeypatch.setenv("EKIDEN_ROUTING_LEARN", "off")
    assert "None of them counts, and nothing is learned" in learn(server).stdout
    assert "parcels" not in learn(server).stdout

    monkeypatch.setenv("EKIDEN_ROUTING_LEARN", "on")
    shown = learn(server).stdout
    assert "parcels  My parcel has not come" in shown
    assert "They count at once" in shown


def team(folder: Path) -> Path:
    """Agents that have only descriptions, whose words the lessons do not have."""
    for name, about in (("billing", "Sends bills."), ("refunds", "Pays people back."), ("cook", "Prepares meals.")):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: {about}\n---\nWork.\n")
    return folder


def route(server: str, *args: object) -> Result:
    return CliRunner().invoke(app, ["route", *map(str, args), "--redis", server])


@pytest.fixture
def taught(server: str) -> str:
    """A server that has learned something that no file says."""

    async def teach(stores: Stores) -> None:
        lesson = Lesson(text="What makes the evening sky so red?", agent="cook", evidence="named", at_ms=1)
        await stores.lessons.change(lambda _: {lesson.id: lesson})

    on(server, teach)
    return server


def test_a_request_is_shown_as_it_is_routed_with_what_was_learned(taught: str, tmp_path: Path) -> None:
    asked = ("what makes the evening sky so red", "--agents", team(tmp_path), "--json", "--learned")
    assert json.loads(route(taught, *asked).stdout)["agent"] is None

    learn(taught, "--accept", "all")
    assert json.loads(route(taught, *asked).stdout)["agent"] == "cook"
    assert json.loads(route(taught, *asked[:-1]).stdout)["agent"] is None


def test_an_evaluation_tells_what_the_lessons_would_change(taught: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "what makes the evening sky so red", "label": "cook"}')
    asked = ("eval", file, "--agents", team(tmp_path), "--learned")

    before, after = map(json.loads, route(taught, *asked, "--json").stdout.splitlines())
    assert [(one["learned"], one["in_scope_accuracy"]) for one in (before, after)] == [(0, 0.0), (1, 1.0)]

    shown = route(taught, *asked).stdout
    assert "files alone" in shown
    assert "with 1 learned" in shown


def test_bad_lines_of_a_labelled_file_are_all_named_with_the_file(server: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "x", "label": "biling"}\n{\n')

    error = str(route(server, "eval", file, "--agents", team(tmp_path)).exception)

    assert error.startswith(f"{str(file)!r}: line 1: the label 'biling' is no agent of the catalog, nor 'oos': did you")
    assert "\nline 2: no valid JSON" in error
