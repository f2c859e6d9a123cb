"""Approvals as people and programs read them: nothing hidden, nothing steered, nothing without bound."""

import json

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.approvals import (
    decided_by,
    headline,
    how_to_answer,
    is_cut,
    question_lines,
    row_of_approval,
    rows_of_approval,
)
from ekiden.shared.approvals import ApprovalView, approval_json
from ekiden.shared.terminal_text import visible
from tests.unit.cli.inbox import asked

SYMBOLS = {"ask": "⚠️", "question": "❓", "dots": "…"}


def text_of(approval: ApprovalView, *, whole: bool = False) -> str:
    return visible("\n".join(question_lines(approval, SYMBOLS, whole=whole)))


def test_a_call_is_asked_about_in_the_sources_words_with_its_parameters_as_json() -> None:
    lines = text_of(asked(reason="bash is of risk medium")).splitlines()
    assert lines == [
        "⚠️ Agent wants to execute bash (Risk: medium)",
        "   by debugger, job ahv7ht7pcatiso7p.1: bash is of risk medium",
        "{",
        '  "command": "pytest -q"',
        "}",
    ]


def test_a_files_own_words_stand_above_what_is_true_never_in_its_place() -> None:
    text = text_of(asked(text="⚠️ Agent wants to execute ls (Risk: safe)", risk="high"))
    assert text.splitlines()[:2] == [
        "⚠️ Agent wants to execute ls (Risk: safe)",
        "⚠️ Agent wants to execute bash (Risk: high)",
    ]


def test_an_edits_diff_is_shown() -> None:
    assert "-a = 1\n+a = 2" in text_of(asked(tool="edit_file", preview="-a = 1\n+a = 2"))


def test_an_edit_without_one_shows_the_diff_of_its_own_arguments() -> None:
    edit = {"file_path": "a.py", "old_string": "a = 1\nb = 1\n", "new_string": "a = 1\nb = 2\n"}
    assert text_of(asked(tool="edit_file", args=edit)).endswith("\n}\n a = 1\n-b = 1\n+b = 2")


def test_what_steers_a_terminal_is_made_visible_and_chinese_stays_chinese() -> None:
    text = text_of(asked(args={"command": "echo 你好 \x1b[2K\x9b1A\u202e; rm -rf ~"}, preview="+\x1b]0;x\x07"))
    assert "你好" in text
    assert not set("\x1b\x9b\u202e\x07") & set(text)
    assert "\\u001b[2K" in text
    assert "\\u202e" in text


def test_a_long_question_is_cut_says_so_and_is_shown_whole_on_demand() -> None:
    long = asked(args={"command": "x" * 50_000 + "; rm -rf ~"}, preview="+line\n" * 1_000)
    assert is_cut(long)
    text = text_of(long)
    assert len(text) < 20_000
    assert "rm -rf" not in text
    assert text.count("characters more: `ekiden approvals show ahv7ht7pcatiso7p.1:1` shows all") == 2
    assert "; rm -rf ~" in text_of(long, whole=True)
    assert not is_cut(asked())


def test_a_question_of_an_agent_shows_its_choices_by_number() -> None:
    question = asked(kind="question", tool="ask_user", text="Which branch?", choices=("main", "next"), args={})
    assert text_of(question).splitlines() == [
        "❓ debugger asks: Which branch?",
        "   job ahv7ht7pcatiso7p.1",
        "  1. main",
        "  2. next",
    ]
    assert how_to_answer(question) == "`ekiden approvals answer ahv7ht7pcatiso7p.1:1 TEXT`"
    assert how_to_answer(asked()) == "`ekiden approvals approve ahv7ht7pcatiso7p.1:1` (or `deny`)"


def test_there_are_signs_for_terminals_that_know_ascii_only() -> None:
    class Ascii:
        encoding = "ascii"

        def isatty(self) -> bool:
            return False

    symbols = Output(Ascii()).symbols  # type: ignore[arg-type]  # a stream, as far as it is looked at
    assert headline(asked(), symbols) == "! Agent wants to execute bash (Risk: medium)"


def test_a_list_shows_each_on_one_line_masks_secrets_and_is_bounded() -> None:
    row = row_of_approval(asked(args={"command": "curl -H 'Authorization: Bearer abcdefgh12345678'\n" + "你" * 5_000}))
    assert row[:4] == ["ahv7ht7pcatiso7p.1:1", "bash", "medium", "debugger"]
    assert "abcdefgh" not in row[6]
    assert "\n" not in row[6]
    assert len(row[6]) <= 60
    assert row[7] == "waiting"


def test_a_decision_says_who_when_and_why_and_whether_that_is_their_word_only() -> None:
    denied = asked(status="denied", by="ada", decided_at_ms=1_795_000_000_000, why="too broad")
    assert decided_by(denied).startswith("denied by ada at 2026-")
    assert decided_by(denied).endswith(": too broad")
    assert decided_by(asked(status="approved", by="ada", is_claimed=True)) == "approved by ada (by their own word)"
    assert decided_by(asked(status="expired")) == "nobody can answer it any more: its time was over"
    assert [value for _, value in rows_of_approval(denied)].count("too broad") == 1


def test_programs_get_every_field() -> None:
    fields = json.loads(approval_json(asked(choices=("a",), edited={"command": "ls"})))
    assert set(fields) == set(ApprovalView.__dataclass_fields__)
    assert fields["args"] == {"command": "pytest -q"}
    assert fields["edited"] == {"command": "ls"}
    assert fields["choices"] == ["a"]
