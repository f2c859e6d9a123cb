"""The trace commands: options, files and forms, on a stored journal."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands import trace
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.views.trace_view import TracedView
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story, story_of
from ekiden.dispatcher.journal.tree import in_order
from ekiden.dispatcher.journal.view import View
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.records import Entry
from tests.unit.cli.families import ROOT, family
from tests.unit.cli.journals import JOB, stored_journal
from tests.unit.cli.test_trace_replay import Watching


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command read the stored journal."""

    async def read(*_: object) -> list[tuple[Story, dict[str, list[Entry]]]]:
        return [(story_of(JOB, stored_journal()), {JOB: stored_journal()})]

    monkeypatch.setattr(trace, "_read_one", read)


def invoked(*args: str) -> Result:
    return CliRunner().invoke(app, ["trace", *args])


@pytest.mark.parametrize(
    "command", [["trace"], *(["trace", name] for name in ("show", "export", "replay")), ["doctor"]]
)
def test_every_command_explains_itself(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="ekiden")
    assert done.exit_code == 0
    assert " ".join(["Usage:", "ekiden", *command]) in done.stdout


def test_off_a_terminal_the_waterfall_is_as_wide_as_asked() -> None:
    text = invoked("show", JOB, "--width", "70").stdout
    assert "user → debugger → code-fixer → reviewer · 10721 tokens" in text
    assert max(map(len, text.splitlines())) <= 70


def test_json_is_one_object() -> None:
    found = json.loads(invoked("show", JOB, "--json").stdout)
    assert (found["id"], found["status"], len(found["legs"])) == (JOB, "done", 4)


@pytest.mark.parametrize(
    ("form", "of"),
    [
        ("json", lambda found: found[0]["event_type"]),
        ("otlp", lambda found: found["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"]),
        ("openai", lambda found: found["data"][0]["object"]),
    ],
)
def test_each_form_is_written_to_standard_output(form: str, of: Any) -> None:
    expected = {"json": "route", "otlp": "ekiden", "openai": "trace"}
    assert of(json.loads(invoked("export", JOB, "--format", form).stdout)) == expected[form]


def test_an_export_goes_into_a_file_with_content_only_when_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    assert invoked("export", JOB, "-o", str(file)).stdout == ""
    assert "TypeError" not in file.read_text("utf-8")
    invoked("export", JOB, "--content", "--output", str(file))
    assert "TypeError" in file.read_text("utf-8")


def test_a_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    done = invoked("export", JOB, "-o", str(tmp_path / "none" / "trace.json"))
    assert isinstance(done.exception, InvalidRequest)
    assert "none/trace.json" in str(done.exception)


def test_an_unknown_form_is_a_usage_error() -> None:
    assert invoked("export", JOB, "--format", "xml").exit_code == 2


def test_a_replay_looks_like_following_and_ends_with_totals() -> None:
    text = invoked("replay", JOB, "--max-pause", "0").stdout
    assert "code-fixer" in text
    assert "refused" in text
    assert text.splitlines()[0].endswith(f" Replaying job {JOB}")
    assert text.endswith("\nTotal: 3 agents, 9 tools, 2 handoffs, 1 refused handoff\nDuration: 23.9s\n")


def test_a_session_is_replayed_job_by_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object) -> list[tuple[Story, dict[str, list[Entry]]]]:
        return [(story_of(JOB, stored_journal()), {JOB: stored_journal()})] * 2

    monkeypatch.setattr(trace, "_read_session", read)
    for command in (["trace"], ["agents", "graph"]):
        done = CliRunner().invoke(app, [*command, "replay", "--session", "abc", "--max-pause", "0"])
        assert done.stdout.splitlines()[0].endswith(f" Replaying session {JOB.partition('.')[0]}")
        assert done.stdout.endswith("18 tools, 4 handoffs, 2 refused handoffs\nDuration: 47.8s\n")
    both = invoked("replay", JOB, "--session", "abc")
    assert "exclude each other" in str(both.exception)


def test_a_replay_as_json_is_nothing_but_events() -> None:
    lines = invoked("replay", JOB, "--max-pause", "0", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [entry.seq for entry in stored_journal()]


def test_a_traced_view_shows_as_before_and_draws_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    inner = Watching()
    view: View = TracedView(JOB, inner)
    *rest, last = stored_journal()
    view.learn(rest[0])
    for entry in rest[1:]:
        view.show(entry)
    view.tick()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["[Trace] route (router → debugger) - 0.0s", "  By: rule"]
    told = [line for line in lines if line.startswith("[Trace] ")]
    assert "[Trace] llm (debugger) - 1.5s" in told
    assert "  Tokens: 675 → 68" in lines
    assert "[Trace] handoff (debugger → code-fixer) - " in "\n".join(told)
    assert any(line.startswith("  Reason: cart.py:23") for line in lines)
    assert sum(line.startswith("[Trace] llm") for line in told) == 8
    view.show(last)
    assert len(inner.shown) == len(rest)
    assert inner.ticks == 1
    assert f"job {JOB} done" in capsys.readouterr().out


def test_a_traced_view_draws_the_children_with_their_parent(capsys: pytest.CaptureFixture[str]) -> None:
    show_job_tree(ROOT, in_order(family()), TracedView(ROOT, Watching()), None)
    text = capsys.readouterr().out
    assert text.count(f"job {ROOT} done") == 1
    assert "        digger (waited 100 ms)" in text


def test_a_replay_plays_the_children_below_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object) -> list[tuple[Story, dict[str, list[Entry]]]]:
        return [(job_tree_story(ROOT, family()), family())]

    monkeypatch.setattr(trace, "_read_one", read)
    lines = invoked("replay", ROOT, "--max-pause", "0").stdout.splitlines()
    assert any(line.endswith("digger: dug") and line.startswith("    ") for line in lines)
    assert lines[-2] == "Total: 7 agents, 1 tool, 3 handoffs, 1 return, 1 refused handoff, 3 child jobs"
    events = [json.loads(line) for line in invoked("replay", ROOT, "--max-pause", "0", "--json").stdout.splitlines()]
    assert sum(event["event"] == "record" for event in events) == sum(map(len, family().values()))
    assert {event["type"] for event in events if event["event"] == "activity"} >= {"TOOL_CALL_START", "TOOL_CALL_END"}
