"""``ekiden approvals``: what it prints, what it answers, and what it ends with."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands import approvals as commands
from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import EkidenError, InvalidRequest, NotAnApprover
from tests.unit.cli.inbox import JOB, Inbox, Job, asked


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Two calls and a question of one job, and a call of a job below it."""
    below = f"{JOB}.1"
    question = asked(3, kind="question", tool="ask_user", text="Which?", choices=("main", "next"), args={})
    made = Inbox.of(asked(1), asked(2, tool="write_file", args={"path": "a"}), question, asked(1, job=below))
    made.jobs |= {below: Job(below), "bbbb.1": Job("bbbb.1")}

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Inbox]:
        yield made

    monkeypatch.setattr(commands, "connected", connected)
    return made


class Enough(Exception):
    """In the place of a Ctrl-C."""


def ekiden(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["approvals", *args], input=stdin)


def code_of(result: Result) -> int:
    return result.exception.exit_code if isinstance(result.exception, EkidenError) else result.exit_code


def test_all_that_waits_is_listed_also_of_one_job_and_those_below_it(inbox: Inbox) -> None:
    text = ekiden("list").stdout
    assert [line.split()[0] for line in text.splitlines()] == ["ID", *inbox.all]
    found = [json.loads(line) for line in ekiden("list", "--json", "--job", f"{JOB}.1").stdout.splitlines()]
    assert [one["id"] for one in found] == [f"{JOB}.1:1"]
    inbox.all.clear()
    assert ekiden("list").stdout == "Nothing waits for people\n"
    assert ekiden("list", "--json").stdout == ""


def test_what_was_decided_is_listed_for_one_job(inbox: Inbox) -> None:
    assert ekiden("approve", f"{JOB}:1").exit_code == 0
    assert f"{JOB}:1" not in ekiden("list").stdout.split()
    assert "approved by ada" in ekiden("list", "--all", "--job", JOB).stdout
    assert isinstance(ekiden("list", "--all").exception, InvalidRequest)


def test_one_is_shown_whole_by_its_id_a_beginning_or_its_job(inbox: Inbox) -> None:
    for typed in (f"{JOB}.1:1", f"{JOB}.1"):
        text = ekiden("show", typed).stdout
        assert "⚠️ Agent wants to execute bash (Risk: medium)\n" in text
        assert f"digest       {inbox.all[f'{JOB}.1:1'].digest}\n" in text
    assert json.loads(ekiden("show", f"{JOB}:2", "--json").stdout)["tool"] == "write_file"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["approve", "zzz:1"], 4, "no job id begins with 'zzz'"),
        (["approve", f"{JOB}:9"], 4, "there is no approval"),
        (["approve", "bbbb"], 4, "job 'bbbb.1' waits for nobody"),
        (["approve", JOB], 2, "asks several things"),
        (["approve", f"{JOB}:3"], 2, "is a question: `ekiden approvals answer"),
        (["answer", f"{JOB}:1", "main"], 2, "is no question: `ekiden approvals approve"),
        (["answer", f"{JOB}:3", "other"], 2, "has no such answer: main, next"),
        (["approve", f"{JOB}:1", f"{JOB}:2", "--edit", "{}"], 2, "give one ID"),
        (["approve", f"{JOB}:1", "--edit", "[1]"], 2, "no JSON object"),
        (["approve", f"{JOB}:1", "--edit", "{"], 2, "no JSON ("),
        (["approve", f"{JOB}:1", "--edit", "@nowhere.json"], 2, "cannot be read"),
        (["approve", f"{JOB}:1", "--edit", '{"a": "' + "x" * 1_000_001 + '"}'], 2, "larger than"),
    ],
)
def test_a_wrong_id_or_answer_is_refused_and_nothing_is_answered(
    inbox: Inbox, words: list[str], code: int, said: str
) -> None:
    result = ekiden(*words)
    assert code_of(result) == code
    assert said in result.stderr + str(result.exception)
    assert inbox.answers == []


def test_several_are_approved_at_once_each_bound_to_what_was_looked_at(inbox: Inbox) -> None:
    result = ekiden("approve", f"{JOB}:1", f"{JOB}:2", f"{JOB}:1", "--reason", "可以", "--always-for-job")
    assert result.exit_code == 0
    assert [line[:1] for line in result.stdout.splitlines()] == ["✅", "✅"]
    assert [one.digest for one in inbox.answers] == [inbox.all[f"{JOB}:{n}"].digest for n in (1, 2)]
    assert {(one.status, one.why, one.always_for_job) for one in inbox.answers} == {("approved", "可以", True)}
    assert "no worker runs here" in result.stderr


def test_the_second_of_two_people_is_told_who_was_first_and_the_rest_is_answered(inbox: Inbox) -> None:
    inbox.decide(f"{JOB}:1", "denied", by="bob")
    result = ekiden("approve", f"{JOB}:1", f"{JOB}:2")
    assert result.exit_code == 9
    assert "denied by bob" in result.stderr
    assert inbox.all[f"{JOB}:2"].status == "approved"


def test_whoever_may_not_approve_is_told_so(inbox: Inbox) -> None:
    inbox.refusal = NotAnApprover("only group:ops may answer")
    result = ekiden("deny", f"{JOB}:1")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (7, "ekiden: only group:ops may answer")


@pytest.mark.parametrize("way", ["text", "file", "stdin"])
def test_other_arguments_are_given_as_text_in_a_file_or_through_a_pipe(inbox: Inbox, tmp_path: Path, way: str) -> None:
    text = '{"command": "ls 你好"}'
    (tmp_path / "args.json").write_text(text)
    given = {"text": text, "file": f"@{tmp_path / 'args.json'}", "stdin": "@-"}[way]
    result = ekiden("approve", f"{JOB}:1", "--edit", given, "--json", stdin=text)
    assert result.exit_code == 0, result.output
    assert inbox.answers[0].edited == {"command": "ls 你好"}
    assert json.loads(result.stdout)["edited"] == {"command": "ls 你好"}


@pytest.mark.parametrize(("said", "answer"), [("next", "next"), ("1", "main")])
def test_a_question_is_answered_by_a_choice_or_its_number(inbox: Inbox, said: str, answer: str) -> None:
    assert ekiden("answer", f"{JOB}:3", said).exit_code == 0
    assert (inbox.answers[0].status, inbox.answers[0].answer) == ("answered", answer)


def test_what_comes_is_shown_as_it_comes_and_as_it_ends(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([lambda: None, lambda: inbox.decide(f"{JOB}:1", "denied", by="bob", why="too broad")])

    async def pause(_: float) -> None:
        step: Any = next(rounds, None)
        if step is None:
            raise Enough
        step()

    monkeypatch.setattr("asyncio.sleep", pause)
    result = ekiden("list", "--watch", "--job", JOB)
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*inbox.all, f"{JOB}:1"], "each once, and the end of one"
    assert lines[-1].startswith(f"{JOB}:1  bash  denied by bob at ")
    assert isinstance(result.exception, Enough)
