"""What a followed job asks: put to the person at the terminal, answered as was said before, or left and told of."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.cli.running import questions as module
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.questions import LeftWaiting, Questions, Reply, reply_to
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted
from ekiden.shared.errors import InvalidRequest, NotAnApprover
from ekiden.shared.trust.store import ApprovedCall, forget, remember, remembered
from tests.unit.cli.inbox import JOB, Inbox, Job, asked

Typed = str | BaseException | Callable[[], None]


class Desk:
    """A terminal at which the test types; what is written is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.typed: list[Typed] = []
        self.notes: list[str] = []
        self.prompts: list[str] = []
        monkeypatch.setattr(module, "typed_unless", self._type)
        monkeypatch.setattr(module, "_LOOK_S", 0.001)

    async def _type(self, prompt: str, gone: asyncio.Future[Any]) -> str | None:
        self.prompts.append(prompt)
        match self.typed.pop(0):
            case str() as text:
                return text
            case BaseException() as error:
                raise error
            case act:
                act()
                await asyncio.wait({gone})
                return None

    def ask(self, inbox: Inbox, *typed: Typed, may_ask: bool = True, **how: Any) -> Questions:
        """Let the person say ``typed`` to all that waits."""
        self.typed = [*typed]
        made = Questions(inbox, JOB, self.notes.append, may_ask=may_ask, **how)  # type: ignore[arg-type]  # as far as asked
        try:
            asyncio.run(made.settle())
        finally:
            assert not self.typed, "it was asked less often than that"
        return made

    @property
    def text(self) -> str:
        return self._capsys.readouterr().out


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(monkeypatch, capsys)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that jobs work in, beside an empty home."""
    (tmp_path / "home").mkdir()
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "shop"


@pytest.mark.parametrize("typed", ["yes\n", "y", "是\n", " YES ", "Y", "ｙｅｓ"])
def test_yes_in_any_case_and_in_chinese_approves_what_was_shown(desk: Desk, typed: str) -> None:
    inbox = Inbox.of(asked())
    desk.ask(inbox, typed)
    assert [(one.status, one.digest) for one in inbox.answers] == [("approved", asked().digest)]
    assert "⚠️ Agent wants to execute bash (Risk: medium)\n" in desk.text
    assert desk.prompts == ["Approve? (yes/no): "]


@pytest.mark.parametrize("typed", ["no\n", "N", "否", "NO"])
def test_no_denies_and_says_so_to_the_person(desk: Desk, typed: str) -> None:
    inbox = Inbox.of(asked())
    desk.ask(inbox, typed)
    assert inbox.answers[0].status == "denied"
    assert "is told so, and the job goes on without this call\n" in desk.text
    assert "cancelled by user" not in desk.text


@pytest.mark.parametrize("typed", ["\n", "maybe\n", "yes please\n", "1\n", "ok\n"])
def test_anything_else_is_neither_and_asked_again(desk: Desk, typed: str) -> None:
    inbox = Inbox.of(asked())
    desk.ask(inbox, typed, "no\n")
    assert [one.status for one in inbox.answers] == ["denied"]
    assert "neither yes nor no" in desk.text


def test_several_are_asked_one_after_the_other_and_only_the_first_explains_itself(desk: Desk) -> None:
    inbox = Inbox.of(asked(1), asked(2, tool="edit_file", preview="-a = 1\n+a = 2"), asked(1, job=f"{JOB}.1"))
    desk.ask(inbox, "y\n", "n\n", "y\n")
    assert [one.status for one in inbox.answers] == ["approved", "denied", "approved"]
    text = desk.text
    assert text.count("yes, job: yes for this job, no\n") == 1
    assert "-a = 1\n+a = 2\n" in text


def test_yes_for_the_job_holds_for_what_was_asked_with_it_but_for_nothing_riskier(desk: Desk) -> None:
    inbox = Inbox.of(asked(1), asked(2), asked(3, risk="high"), asked(4, tool="git_commit"))
    desk.ask(inbox, "job\n", "n\n", "n\n")
    assert [(one.status, one.always_for_job) for one in inbox.answers] == [
        ("approved", True),
        ("approved", False),
        ("denied", False),
        ("denied", False),
    ]


def test_a_long_call_is_shown_whole_before_it_is_answered(desk: Desk) -> None:
    inbox = Inbox.of(asked(args={"command": "x" * 20_000 + "; rm -rf ~"}))
    desk.ask(inbox, "show\n", "no\n")
    assert "show: all of it" in (text := desk.text)
    assert text.count("; rm -rf ~") == 1


def test_yes_for_the_folder_is_remembered_for_tool_and_risk_until_it_is_taken_back(desk: Desk, project: Path) -> None:
    jobs = {JOB: Job(JOB, cwd=str(project))}
    inbox = Inbox(Inbox.of(asked()).all, jobs)
    desk.ask(inbox, "folder\n", is_local=True)
    assert f"folder: yes for this folder ({project})" in desk.text
    assert remembered(project).approved == {("bash", "medium")}
    later = Inbox(Inbox.of(asked(1), asked(2, risk="high"), asked(3, tool="git_commit")).all, jobs)
    desk.ask(later, "no\n", "no\n", is_local=True)
    assert [(one.status, one.why) for one in later.answers] == [
        ("approved", f"approved for the folder {project}"),
        ("denied", ""),
        ("denied", ""),
    ]
    forget(project)
    again = Inbox(Inbox.of(asked()).all, jobs)
    desk.ask(again, "no\n", is_local=True)
    assert again.answers[0].status == "denied"


def test_a_folder_of_another_machine_is_not_this_one(desk: Desk, project: Path) -> None:
    remember(project, approved=[ApprovedCall("bash", "medium")])
    inbox = Inbox(Inbox.of(asked()).all, {JOB: Job(JOB, cwd=str(project))})
    desk.ask(inbox, "folder\n")
    assert inbox.answers[0].always_for_job is False
    text = desk.text
    assert "yes for this folder" not in text
    assert "it cannot be said for its folder" in text


def test_what_is_critical_is_remembered_for_no_folder(desk: Desk, project: Path) -> None:
    remember(project, approved=[ApprovedCall("bash", "critical")])
    inbox = Inbox(Inbox.of(asked(risk="critical")).all, {JOB: Job(JOB, cwd=str(project))})
    desk.ask(inbox, "no\n", is_local=True)
    assert "folder:" not in desk.text


def test_what_the_folder_approves_needs_nobody_at_a_terminal(desk: Desk, project: Path) -> None:
    remember(project, approved=[ApprovedCall("bash", "medium")])
    inbox = Inbox(Inbox.of(asked()).all, {JOB: Job(JOB, cwd=str(project))})
    desk.ask(inbox, may_ask=False, leaves=True, is_local=True)
    assert inbox.answers[0].status == "approved"
    assert desk.notes == []


def test_an_agents_question_takes_text_or_a_number(desk: Desk) -> None:
    free = asked(1, kind="question", tool="ask_user", text="What is it called?", args={})
    choice = asked(2, kind="question", tool="ask_user", text="Which?", choices=("main", "next"), args={})
    inbox = Inbox.of(free, choice)
    desk.ask(inbox, "\n", "  小店 \n", "3\n", "other\n", "2\n")
    assert [(one.status, one.answer) for one in inbox.answers] == [("answered", "小店"), ("answered", "next")]
    assert desk.prompts == ["Answer: ", "Answer: ", "Answer (1-2): ", "Answer (1-2): ", "Answer (1-2): "]


def test_a_number_is_a_text_where_there_are_no_choices() -> None:
    assert reply_to(asked(kind="question", text="How many?"), "2\n") == Reply("yes", "2")


def test_where_somebody_else_answers_meanwhile_the_question_goes_away_and_says_who(desk: Desk) -> None:
    inbox = Inbox.of(asked())
    desk.ask(inbox, lambda: inbox.decide(f"{JOB}:1", "denied", by="bob"))
    assert inbox.answers == []
    assert "bash: denied by bob at " in desk.text


def test_whose_answer_does_not_count_is_told_why_and_not_asked_again(desk: Desk) -> None:
    inbox = Inbox.of(asked())
    inbox.refusal = NotAnApprover("only group:ops may answer")
    desk.ask(inbox, "yes\n")
    assert desk.notes == ["bash: only group:ops may answer"]


def test_ctrl_c_leaves_the_job_waiting_and_names_the_commands_that_answer(desk: Desk) -> None:
    inbox = Inbox.of(asked(1), asked(2))
    with pytest.raises(LeftWaiting) as left:
        desk.ask(inbox, Interrupted(by_user=True))
    assert left.value.code == 130
    assert inbox.answers == []
    assert [note.partition(": ")[0] for note in desk.notes] == [
        f"`ekiden approvals approve {JOB}:{n}` (or `deny`)" for n in (1, 2)
    ]


def test_a_closed_input_is_nobody_to_ask_from_then_on(desk: Desk) -> None:
    inbox = Inbox.of(asked(1), asked(2))
    with pytest.raises(LeftWaiting) as left:
        desk.ask(inbox, "", leaves=True)
    assert left.value.code == 8
    assert len(desk.notes) == 2


def test_whoever_only_watches_is_told_once_and_goes_on(desk: Desk) -> None:
    inbox = Inbox.of(asked(1))
    made = desk.ask(inbox, may_ask=False)
    asyncio.run(made.settle())
    how = f"`ekiden approvals approve {JOB}:1` (or `deny`)"
    assert desk.notes == [f"{how}: job {JOB} waits for somebody to approve bash"]


def test_it_is_left_only_when_nothing_else_of_it_goes_on(desk: Desk) -> None:
    inbox = Inbox.of(asked(1, job=f"{JOB}.1"))
    inbox.jobs |= {f"{JOB}.1": Job(f"{JOB}.1"), f"{JOB}.2": Job(f"{JOB}.2", "running")}
    made = desk.ask(inbox, may_ask=False, leaves=True)
    inbox.jobs[f"{JOB}.2"] = Job(f"{JOB}.2", "done")
    with pytest.raises(LeftWaiting):
        asyncio.run(made.settle())


@pytest.mark.parametrize(
    ("approve", "risks"),
    [
        (None, ()),
        ("medium", ("medium",)),
        ("medium, low,safe", ("safe", "low", "medium")),
        ("all", ("safe", "low", "medium", "high")),
        ("all,critical", ("safe", "low", "medium", "high", "critical")),
    ],
)
def test_what_is_approved_in_advance_is_named_and_all_is_not_critical(
    approve: str | None, risks: tuple[str, ...]
) -> None:
    assert Preapproval.of(approve, None) == Preapproval(risks, "park")  # type: ignore[arg-type]  # risks, as tested


@pytest.mark.parametrize("approve", ["", "medum", "low;medium", ","])
def test_a_risk_that_there_is_not_is_an_error(approve: str) -> None:
    with pytest.raises(InvalidRequest, match="--approve"):
        Preapproval.of(approve, "deny")
