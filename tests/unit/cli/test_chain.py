"""The chain of a job: as a tree, as JSON and as a chart, with everything that a relay can do in it."""

import io
import json
import re
import sys
from dataclasses import fields
from typing import Any

import pytest
from rich.cells import cell_len

from ekiden.dispatcher.cli.views.chain import chain_json, show_chain
from ekiden.dispatcher.cli.views.mermaid import flowchart
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.shared.records import Ended, Entry
from tests.unit.cli.families import BEGIN_MS, DIGGER, ROOT, SCOUT, TESTER, Names, family

HOSTILE = [
    'q"uote] --> x[',
    "two\nlines\r\n",
    "end",
    "代码修复",
    "a|b;c%%{init: {}}%%",
    "<script>alert(1)</script>",
    "`*md*` 1. #quot; &amp;",
    "style: x#fff;",
    "\x1b]0;owned\x07",
    "",
]


def story(names: Names | None = None, upto: int | None = None) -> Story:
    journals = family(names)
    if upto is not None:
        journals = {
            job: [entry for entry in entries if entry.at_ms <= BEGIN_MS + upto] for job, entries in journals.items()
        }
    return job_tree_story(ROOT, {job: entries for job, entries in journals.items() if entries}, BEGIN_MS + (upto or 0))


def hostile(word: str) -> Story:
    return story(Names(**{field.name: word for field in fields(Names)}))


class Screen(io.StringIO):
    """A terminal that keeps what is written."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def drawn(told: Story, monkeypatch: pytest.MonkeyPatch, columns: int | None = None) -> list[str]:
    """The tree: on a terminal of so many columns, or off one."""
    stream = io.StringIO() if columns is None else Screen()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(columns or 0))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm")
    show_chain(told)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()


def test_the_tree_has_every_agent_refusal_return_and_child(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(story(), monkeypatch, 120) == [
        "user → lead → checker → lead → reviewer",
        f"job {ROOT} done (GOAL) · 7.0 s · 1040 tokens, $0.0115 · 3 child jobs",
        "├─ lead (4.1 s, 330 tokens, $0.0015): routed by rule",
        "│  ├─ ⛔ transfer_to_x refused (UNKNOWN_AGENT): Not executed.",
        f"│  ├─ 🧩 scout done (GOAL, 1.0 s, job {SCOUT}): found it",
        "│  │  ├─ scout (0.5 s, 110 tokens): look at the logs",
        "│  │  └─ 🔀 helper (0.5 s, 220 tokens): bug identified at line 42",
        f"│  │     └─ 🧩 digger done (GOAL, 0.2 s, job {DIGGER}): dug",
        "│  │        └─ digger (0.2 s, 110 tokens): dig",
        f"│  └─ 🧩 tester failed (TIMEOUT, 3.0 s, job {TESTER}): too slow",
        "│     └─ tester (3.0 s): run the tests",
        "├─ 🔀 checker (0.9 s, 160 tokens, $0.0100): bug identified at line 42",
        "├─ ↩ checker returned to lead (0.1 s): looks fine",
        "└─ 🔀 reviewer on completion (0.9 s, 110 tokens): after the fix",
    ]


def test_off_a_terminal_the_tree_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(story(), monkeypatch)
    assert "\n".join(lines).isascii()
    assert lines[0] == "user -> lead -> checker -> lead -> reviewer"
    assert f"|  |     `- & digger done (GOAL, 0.2 s, job {DIGGER}): dug" in lines
    assert "|- <- checker returned to lead (0.1 s): looks fine" in lines


def test_while_a_parent_waits_the_tree_shows_who_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(story(upto=2_150), monkeypatch)
    assert lines[0] == "user -> lead"
    assert lines[1] == f"job {ROOT} suspended | 2.1 s | 220 tokens, $0.0015 | 2 child jobs"
    assert lines[2] == "|- lead (still running, 220 tokens, $0.0015): routed by rule".replace("|-", "`-")
    assert f"   |- & scout running (0.1 s, job {SCOUT})" in lines
    assert "   |  `- scout (still running): look at the logs" in lines
    assert "      `- tester (waits for a worker): run the tests" in lines


def test_a_child_whose_journal_is_gone_is_still_named(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = job_tree_story(ROOT, {ROOT: family()[ROOT], SCOUT: []})
    lines = drawn(alone, monkeypatch)
    for agent, job in (("scout", SCOUT), ("tester", TESTER)):
        assert any(f"{agent} (job {job}, whose journal is gone)" in line for line in lines)
    [first, second] = chain_json(alone)["legs"][0]["children"]
    assert (first["id"], first["legs"], second["id"], second["legs"]) == (SCOUT, [], TESTER, [])
    assert flowchart(alone).count("==>") == 2


def test_the_chain_of_a_child_begins_with_its_parents_path(monkeypatch: pytest.MonkeyPatch) -> None:
    child = job_tree_story(SCOUT, {SCOUT: family()[SCOUT]})
    assert drawn(child, monkeypatch)[0] == "user -> lead -> scout -> helper"
    assert (chain_json(child)["parent"], chain_json(child)["chain"]) == (ROOT, ["user", "lead", "scout", "helper"])


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize("word", ["a long reason of many words " * 5, "代码修复" * 20])
def test_no_line_is_wider_than_the_terminal(word: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(hostile(word), monkeypatch, columns)
    assert max(map(cell_len, lines)) <= columns


def test_the_json_is_one_object_with_nested_children_and_run_paths() -> None:
    found = chain_json(story())
    assert (found["id"], found["parent"], found["status"], found["result"]) == (ROOT, None, "done", "All is well.")
    assert (found["input_tokens"], found["total_input_tokens"], found["total_output_tokens"]) == (550, 950, 90)
    legs = found["legs"]
    assert [(leg["agent"], leg["how"], leg["from_agent"], leg["duration_ms"]) for leg in legs] == [
        ("lead", "route", "user", 4_100),
        ("checker", "handoff", "lead", 900),
        ("lead", "return", "checker", 100),
        ("reviewer", "automatic", "lead", 900),
    ]
    assert [leg["run_path"] for leg in legs] == [
        ["user", "lead"],
        ["user", "lead", "checker"],
        ["user", "lead"],
        ["user", "lead", "reviewer"],
    ]
    refusal = {"name": "transfer_to_x", "code": "UNKNOWN_AGENT", "message": "Not executed.\nadvice"}
    assert legs[0]["refused"] == [refusal]
    scout, tester = legs[0]["children"]
    assert (scout["id"], scout["call_id"], scout["objective"]) == (SCOUT, "s1", "look at the logs")
    assert (tester["status"], tester["reason"], tester["result"]) == ("failed", "TIMEOUT", "too slow")
    [digger] = scout["legs"][1]["children"]
    assert digger["legs"][0]["run_path"] == ["user", "lead", "scout", "helper", "digger"]


def test_what_the_worker_recorded_of_a_cost_counts_and_the_prices_where_it_recorded_none() -> None:
    from ekiden.shared.prices import Prices

    journals = family()
    told = job_tree_story(ROOT, journals, prices=Prices({"scripted": (10_000.0, 0.0)}))
    first, second = [step for step in told.legs[1].steps if step.kind == "model"][:2]
    assert (first.cost_usd, second.cost_usd) == (0.0005, 0.001)
    assert told.children[SCOUT].legs[0].cost_usd == 1.0


def test_a_secret_in_a_reason_is_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "AIzaSyA-0123456789abcdefghijklmnopqrst"
    told = hostile(key)
    for text in (*drawn(told, monkeypatch), json.dumps(chain_json(told)), flowchart(told)):
        assert key not in text
    assert "[redacted]" in json.dumps(chain_json(told))


@pytest.mark.parametrize("word", HOSTILE)
def test_whatever_names_and_texts_are_the_tree_and_the_json_stay_whole(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = drawn(hostile(word), monkeypatch, 200)
    assert len(lines) == 14
    assert not set("".join(lines)) & set("\x00\x07\x1b\r\n")
    found: Any = json.loads(json.dumps(chain_json(hostile(word))))
    assert found["legs"][0]["children"][0]["legs"][1]["reason"] == word


LABEL = r'"(?:[^"#\n:;]|#\d{2,3};|<br/>)*"'
NODE = rf"n\d+(?:\[{LABEL}\]|\(\[{LABEL}\]\)|\({LABEL}\))"
EDGE = rf"n\d+ (?:-->|-\.->|-\.-x|==>)\|{LABEL}\| n\d+"
LINE = re.compile(rf"\s*(?:{NODE}|{EDGE}|subgraph c\d+\[{LABEL}\]|end)")
"""All that the chart is made of; Mermaid itself drew 34 such charts of hostile names, each label to the letter."""


@pytest.mark.parametrize("word", ["plain", *HOSTILE])
def test_the_chart_is_nothing_but_nodes_edges_and_boxes(word: str) -> None:
    first, *lines = flowchart(hostile(word)).split("\n")
    assert first == "flowchart TD"
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    depth = 0
    for line in lines:
        depth += ("subgraph" in line.split('"')[0]) - (line.strip() == "end")
        assert depth >= 0
    assert depth == 0


def test_the_chart_has_dotted_lines_for_returns_and_refusals_and_boxes_for_children() -> None:
    lines = [re.sub(r"#(\d+);", lambda mark: chr(int(mark[1])), line) for line in flowchart(story()).split("\n")]
    nodes = [re.fullmatch(r'\s*(n\d+)\W+"(.*?)(?:<br/>.*)?"\W+', line) for line in lines]
    named = {node[1]: node[2] for node in nodes if node is not None}
    edges = [match.groups() for line in lines if (match := re.search(r'(n\d+) (\S+)\|"(.*)"\| (n\d+)', line))]
    found = {(named[start], arrow, label, named[end]) for start, arrow, label, end in edges}
    assert found == {
        ("user", "-->", "routed by rule", "lead"),
        ("lead", "-.-x", "refused<br/>UNKNOWN_AGENT", "transfer_to_x"),
        ("lead", "==>", "look at the logs", "scout"),
        ("lead", "==>", "run the tests", "tester"),
        ("scout", "-->", "bug identified at line 42", "helper"),
        ("helper", "==>", "dig", "digger"),
        ("lead", "-->", "bug identified at line 42", "checker"),
        ("checker", "-.->", "returned<br/>looks fine", "lead"),
        ("lead", "-->", "on completion<br/>after the fix", "reviewer"),
    }
    assert sum("subgraph" in line for line in lines) == 3


def test_an_empty_journal_has_a_chain_of_the_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = job_tree_story(ROOT, {ROOT: []})
    assert drawn(nothing, monkeypatch)[0] == "user"
    assert flowchart(nothing).split("\n") == ["flowchart TD", '    n1(["user"])']


def test_a_failed_job_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = family()[ROOT][:6]
    end = Ended(leg=1, status="failed", reason="MAX_TURNS", error="too many turns\nreally")
    entries.append(Entry(seq=7, at_ms=BEGIN_MS + 9_000, record=end))
    lines = drawn(job_tree_story(ROOT, {ROOT: entries}), monkeypatch)
    assert lines[1] == f"job {ROOT} failed (MAX_TURNS) | 9.0 s | 110 tokens, $0.0005 | too many turns"


def test_a_result_that_was_given_in_a_last_turn_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = family()[ROOT][:6]
    end = Ended(leg=1, status="done", reason="MAX_TURNS", answer="a half", recovered=True)
    entries.append(Entry(seq=7, at_ms=BEGIN_MS + 9_000, record=end))
    story = job_tree_story(ROOT, {ROOT: entries})
    assert drawn(story, monkeypatch)[1].startswith(f"job {ROOT} done (MAX_TURNS, recovered) | ")
    assert (chain_json(story)["reason"], chain_json(story)["recovered"]) == ("MAX_TURNS", True)
