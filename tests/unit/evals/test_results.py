"""What a case's job is held against, what is kept of it, and how the results are told."""

import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ekiden.dispatcher.evals.expectations import unmet
from ekiden.dispatcher.evals.junit import write_junit
from ekiden.dispatcher.evals.recording_files import (
    Verdict,
    as_played,
    cleaned,
    read_case_recording,
    recorded,
    write_case_recording,
)
from ekiden.dispatcher.evals.running import CaseResult, strictly
from ekiden.dispatcher.evals.suite import Case, Expectations, Turn
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.messages import Message, ToolCall
from ekiden.shared.records import (
    Ended,
    Entry,
    GuardJudged,
    Hooked,
    LoopJudged,
    ModelReplied,
    Record,
    Repairing,
    Served,
    ServedTool,
    ServedTools,
    Summarised,
    ToolFinished,
    ToolStarted,
)
from ekiden.workers.playback.recorded import Beside
from tests.unit.cli.graph_jobs import ran
from tests.unit.cli.journals import JOB, stored_journal

JOURNALS = {JOB: stored_journal()}
ENTRIES = JOURNALS[JOB]
CHAIN = ["debugger", "code-fixer", "reviewer"]


def faults(**expected: Any) -> list[str]:
    return faults_in(JOURNALS, **expected)


def faults_in(journals: Mapping[str, Sequence[Entry]], **expected: Any) -> list[str]:
    return unmet(Expectations.model_validate(expected), journals)


def test_a_job_that_is_as_expected_has_no_faults() -> None:
    assert faults(chain=CHAIN, route="debugger", agent="reviewer", tools=["grep", "edit_file"], no_tools=["rm"]) == []
    assert faults(pattern="(?i)price", status="done") == []


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ({"route": "reviewer"}, "route: expected reviewer, was debugger"),
        ({"agent": "debugger"}, "agent: expected debugger, was reviewer"),
        ({"chain": CHAIN[:2]}, "chain: expected debugger → code-fixer, was debugger → code-fixer → reviewer"),
        ({"tools": ["edit_file", "grep"]}, "tools: expected edit_file, grep, grep is missing; called: "),
        ({"no_tools": ["edit_file"]}, "no_tools: edit_file was called"),
        ({"status": "failed"}, "status: expected failed, was done (GOAL: "),
        ({"answer": "yes"}, "answer: expected 'yes', was "),
        ({"pattern": "^no$"}, "pattern: '^no$' is not in "),
        ({"schema": {"type": "object"}}, "schema: the answer is no JSON: "),
    ],
)
def test_each_expectation_says_what_was_there_instead(expected: dict[str, Any], told: str) -> None:
    [fault] = faults(**expected)
    assert fault.startswith(told)


def test_calls_of_the_jobs_below_count_in_the_order_of_time_and_have_no_part_in_the_chain() -> None:
    journals = ran()[1][-1]
    who = ["flow", "writer", "flow", "writer", "editor", "writer", "flow", "writer", "editor"]
    assert faults_in(journals, tools=["measure", "measure"], chain=who) == []
    assert faults_in(journals, no_tools=["measure"]) == ["no_tools: measure was called"]

    called = {"1": [(10, "first"), (40, "last")], "1.1": [(20, "delegated")], "1.2": [(30, "item")]}
    made = {job: [one for at, name in calls for one in called_at(at, name)] for job, calls in called.items()}
    [fault] = faults_in(made, tools=["nothing"], status="failed")[:1]
    assert fault.endswith("called: first, delegated, item, last")


def called_at(at_ms: int, name: str) -> list[Entry]:
    asked = ModelReplied(turn=1, message=Message(role="model", parts=(ToolCall(id=name, name=name),)))
    records: list[Record] = [asked, ToolStarted(call_id=name, name=name)]
    return [Entry(seq=at_ms + n, at_ms=at_ms, record=one) for n, one in enumerate(records)]


def test_a_recording_is_written_to_be_read_without_secrets_and_paths_of_the_machine(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a" * 40
    entries = list(ENTRIES)
    place = next(n for n, one in enumerate(entries) if isinstance(one.record, ToolFinished))
    result = entries[place].record.result.model_copy(update={"content": f"{tmp_path}/a.py\n密钥 {key}"})  # type: ignore[union-attr]
    entries[place] = entries[place]._replace(record=entries[place].record.model_copy(update={"result": result}))
    first = cleaned(recorded({JOB: entries}), tmp_path)
    path = tmp_path / "suite.recordings" / "case.yaml"
    write_case_recording(path, as_played(first, JOURNALS, [Verdict(question="q", answer="a", passed=True)]), "A case")
    text = path.read_text("utf-8")
    assert key not in text
    assert str(tmp_path) not in text
    assert "${workspace}/a.py" in text
    assert "密钥" in text
    read = read_case_recording(path)
    [job] = read.jobs.values()
    assert [one.message for one in job if isinstance(one, ModelReplied)] == [
        one.record.message for one in ENTRIES if isinstance(one.record, ModelReplied)
    ]
    assert read.judged[0].passed
    assert not [one for one in job if isinstance(one, Ended)], "an end that is no failure is decided anew"


def test_all_that_models_are_asked_beside_the_turns_is_kept() -> None:
    """A suite with a guardrail that a model judges would else never hold when it is played."""
    kinds = typing.get_args(Beside)
    looks: list[Record] = [
        LoopJudged(turn=30, confidence=0.5, text="no"),
        Summarised(text="short"),
        Repairing(at="output", rail="form", text="{}"),
        GuardJudged(at="output", rail="kind", digest="d", confidence=0.1),
    ]
    assert {type(one) for one in looks} == set(kinds)
    journal = {JOB: [Entry(seq=n, at_ms=0, record=one) for n, one in enumerate(looks, 1)]}
    assert recorded(journal).jobs["1"] == looks


def test_what_servers_offered_and_hooks_said_is_in_the_file(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"ort": {"type": "string", "default": None}}}
    about = {"full_name": "mcp.map.find", "package": "MCP server map", "risk": "high"}
    tool = ServedTool.model_validate({"name": "find", "description": "找", "parameters": schema, **about})
    words: list[Record] = [
        Served(leg=1, agent="a", digest="d", tools=ServedTools(tools=(tool,), readers={"map": tool})),
        Hooked(leg=1, turn=1, at="BeforeTool", by=("guard",), call_id="c", changed=("args",), value={"x": None}),
    ]
    journal = {JOB: [Entry(seq=n, at_ms=0, record=one) for n, one in enumerate(words, 1)]}
    path = tmp_path / "case.yaml"
    write_case_recording(path, cleaned(recorded(journal), tmp_path), "A case")
    assert read_case_recording(path).jobs["1"] == words


@pytest.mark.parametrize(
    "text",
    [
        "jobs: [",
        "jobs: {'1': [{type: nothing}]}",
        "joobs: {}",
        "jobs: &a {}\njudged: *a",
        "jobs: 2001-99-99",
        f"jobs: {'9' * 5_000}",
        f"jobs: {'[' * 5_000}{']' * 5_000}",
    ],
    ids=["no YAML", "no record", "no field", "alias", "no date", "long number", "deep"],
)
def test_a_recording_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=r"case\.yaml:.*`--record` makes it anew"):
        read_case_recording(path)


def test_other_prompts_are_a_failure_where_that_is_wanted() -> None:
    case = Case(name="a", turns=[Turn(request="x", expect=Expectations(status="done"))])
    fresh, stale = (CaseResult(case, (), ("a",), "", 3, number, 0.5) for number in (0, 2))
    assert strictly(fresh) == fresh
    assert strictly(stale).faults == ("2 of 3 prompts are others than the recorded ones: `--record` asks models again",)


def test_junit_counts_failures_and_takes_any_text(tmp_path: Path) -> None:
    def result(name: str, *faults: str) -> CaseResult:
        case = Case(name=name, turns=[Turn(request="x", expect=Expectations(status="done"))])
        return CaseResult(case, faults, ("a",), "", 1, 0, 0.5)

    path = tmp_path / "out.xml"
    write_junit(path, {"support": [result("好"), result("bad", "answer: <\x00&>", "more")]})
    suite = ElementTree.parse(path).getroot()[0]  # ours
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["time"]) == ("2", "1", "1.000")
    assert [case.attrib["name"] for case in suite] == ["好", "bad"]
    assert suite[1][0].text == "answer: <\ufffd&>\nmore"
