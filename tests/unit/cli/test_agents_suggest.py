"""``ekiden agents suggest``, on a project of its own."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.agents.group import app
from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.lessons import Lesson, taken_in
from ekiden.shared.stores.opening import open_stores
from tests.doubles.gemini.server import GeminiServer

BILLING = """\
---
name: billing
description: Answers questions about invoices and refunds, sends receipts, and explains charges.
# of the money team
---
You are the billing desk. Look at the invoice before you answer. Refund only what was paid twice.
"""
CHINESE = "---\nname: fapiao\ndescription: 处理发票和退款问题，开具发票。\n---\n你负责发票。退款之前先检查发票。\n"


@pytest.fixture(autouse=True)
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agents' folder of a project, which is the current folder."""
    folder = tmp_path / "project" / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "billing.md").write_text(BILLING)
    (folder / "fapiao.md").write_text(CHINESE, "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    """A usable model."""
    with GeminiServer() as server:
        monkeypatch.setenv("GEMINI_API_KEY", "k")
        monkeypatch.setenv("EKIDEN_GEMINI_BASE_URL", server.url)
        yield server


def suggest(*args: object) -> Result:
    result = CliRunner().invoke(app, ["suggest", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit | InvalidRequest | UnknownAgent)
    return result


def found(*args: object) -> dict[str, object]:
    fields: dict[str, object] = json.loads(suggest(*args, "--json").stdout)
    return fields


def test_without_a_model_the_words_that_the_file_has_alone_are_suggested_as_yaml_to_paste() -> None:
    shown = suggest("billing").stdout

    assert shown.startswith("# for billing, by the file's own words\ntriggers:\n  keywords:\n    - ")
    fields = found("billing")
    assert fields["keywords"] == ["billing", "invoice", "refund"]
    assert {"send receipts", "explain charges"} <= set(fields["examples"])  # type: ignore[call-overload]  # a list
    assert fields["written"] is None
    assert suggest("billing", "--no-model").stdout == shown


def test_in_scripts_without_spaces_a_word_is_what_comes_again() -> None:
    fields = found("fapiao")

    assert fields["keywords"] == ["发票", "fapiao", "退款"]
    assert "处理发票" in fields["examples"]  # type: ignore[operator]  # a list


def test_what_is_written_is_in_the_file_with_all_that_was_there_and_is_not_suggested_again(team: Path) -> None:
    assert "added, by the file's own words" in suggest("billing", "--write").stdout

    text = (team / "billing.md").read_text()
    assert text.replace(text[text.index("triggers:") : text.index("---\nYou")], "") == BILLING
    assert '  keywords:\n    - "billing"\n    - "invoice"\n    - "refund"\n  examples:\n' in text
    assert suggest("billing", "--write").stdout == "Nothing new for 'billing' (by the file's own words)\n"


def test_line_ends_stay_as_they_are(team: Path) -> None:
    (team / "billing.md").write_bytes(BILLING.replace("\n", "\r\n").encode())

    suggest("billing", "--write")

    data = (team / "billing.md").read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > BILLING.count("\n")


def test_a_shipped_agent_becomes_one_of_the_project(team: Path) -> None:
    assert found("debugger", "--write")["written"] == str(team / "debugger.md")

    assert '    - "find out why something fails"\n' in (team / "debugger.md").read_text()


def test_a_file_in_another_form_is_left_to_its_author(team: Path) -> None:
    text = BILLING.replace("# of the money team", "triggers: [{intent: pay, keywords: [money]}]")
    (team / "billing.md").write_text(text)

    error = suggest("billing", "--write").exception
    assert "put in what is suggested yourself" in str(error)
    assert (team / "billing.md").read_text() == text


def test_an_unknown_agent_is_told_with_near_names() -> None:
    assert "Did you mean 'billing'?" in str(suggest("biling").exception)


def test_a_model_is_asked_where_one_is_usable_and_what_it_says_is_only_texts(server: GeminiServer, team: Path) -> None:
    said = {
        "keywords": ["overcharged", "overcharged", "x", "发票 ", "word " * 20, "debug"],
        "examples": ["I paid twice", "line\nbreak", "bell\x07", 7],
    }
    server.add({"reply": {"calls": [{"name": "suggest", "args": said}]}})

    fields = found("billing", "--write")

    assert (fields["keywords"], fields["examples"]) == (["overcharged", "发票"], ["I paid twice", "line break"])
    assert str(fields["by"]).startswith("gemini")
    assert '    - "I paid twice"\n' in (team / "billing.md").read_text()
    asked = json.dumps(server.requests[-1].body, ensure_ascii=False)
    assert "处理发票" in asked  # what the others do
    assert "paid twice" in asked


def test_a_model_that_fails_or_says_nothing_leaves_it_to_the_words(server: GeminiServer) -> None:
    server.add({"reply": {"text": "I would rather not"}}, {"reply": {"text": "still not"}})

    result = suggest("billing")

    assert "by the file's own words" in result.stdout
    assert "no model is asked: gemini" in result.stderr
    before = len(server.requests)
    assert "by the file's own words" in suggest("billing", "--no-model").stdout
    assert len(server.requests) == before


def test_what_was_learned_from_requests_goes_into_the_file(valkey_url: str, team: Path) -> None:
    lessons = [
        Lesson(text="I was charged twice", agent="billing", evidence="named", at_ms=1),
        Lesson(text="Nobody wants this one", agent="billing", evidence="named", at_ms=2, state="refused"),
        Lesson(text="Where is my parcel?", agent="parcels", evidence="named", at_ms=3),
    ]

    async def teach() -> None:
        stores = open_stores(valkey_url)
        await stores.client.flushall()
        await stores.lessons.change(lambda known: taken_in(known, lessons))
        await stores.close()

    asyncio.run(teach())
    fields = found("billing", "--learned", "--write", "--redis", valkey_url)

    assert (fields["keywords"], fields["examples"]) == ([], ["I was charged twice"])
    assert 'triggers:\n  examples:\n    - "I was charged twice"\n---\n' in (team / "billing.md").read_text()
