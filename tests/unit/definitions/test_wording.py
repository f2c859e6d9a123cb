"""What YAML 1.1 would make of words, and what their authors meant."""

from pathlib import Path

import pytest

from ekiden.shared.definitions.frontmatter import read_front_matter
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.problems import Problem


def load(folder: Path, front: str) -> tuple[AgentDefinition | None, list[Problem]]:
    file = folder / "x.md"
    file.write_text(f"---\n{front}\n---\nYou work.\n", "utf-8")
    return load_file(file, "project")


def loaded(folder: Path, front: str) -> AgentDefinition:
    agent, problems = load(folder, front)
    assert agent is not None, problems
    return agent


def test_keywords_are_the_words_that_the_file_shows(tmp_path: Path) -> None:
    words = "[12:30, 007, 1_000, 3.10, 0x1f, 404, on, No, 2026-01-02, 1e3, 'null']"
    agent = loaded(tmp_path, f"name: a\ndescription: d\ntriggers: {{keywords: {words}, priority: 70}}")

    assert agent.triggers.keywords == (
        "12:30",
        "007",
        "1_000",
        "3.10",
        "0x1f",
        "404",
        "on",
        "No",
        "2026-01-02",
        "1e3",
        "null",
    )
    assert agent.triggers.priority == 70


def test_so_are_names_versions_and_targets(tmp_path: Path) -> None:
    front = "name: 007\ndescription: 12:30\nversion: 1.10\nmodel: 4.10\nhandoffs: [on, {to: 1_0}]\nsubagents: 42"
    agent = loaded(tmp_path, front)

    assert (agent.name, agent.description, agent.version, agent.model) == ("007", "12:30", "1.10", "4.10")
    assert agent.targets == ("on", "1_0")
    assert [rule.agent for rule in agent.subagents] == ["42"]


def test_triggers_in_a_list_are_words_too(tmp_path: Path) -> None:
    agent = loaded(tmp_path, "name: a\ndescription: d\ntriggers:\n  - {keywords: [off, 1.0], priority: '8'}")

    assert agent.triggers.keywords == ("off", "1.0")
    assert agent.triggers.priority == 80


def test_numbers_stay_numbers_where_numbers_are_meant() -> None:
    parts = read_front_matter("---\nname: x\nlimits: {max_turns: 5}\ntemperature: 0.2\ntransfer_to_parent: yes\n---\n")

    assert parts.fields["limits"] == {"max_turns": 5}
    assert parts.fields["temperature"] == 0.2
    assert parts.fields["transfer_to_parent"] is True


@pytest.mark.parametrize(
    ("front", "turns", "seconds"),
    [
        ("timeout_mins: '5'", 30, 300),
        ('timeoutMins: "0.5"', 30, 30),
        ("timeout_mins: 5 # minutes", 30, 300),
        ("max_turns: '7'", 7, 600),
        ("max_turns: 010", 10, 600),  # 8 to YAML 1.1
        ("limits: {max_turns: 1_000, max_seconds: '90'}", 1000, 90),
    ],
)
def test_a_limit_is_the_number_that_the_file_shows(tmp_path: Path, front: str, turns: int, seconds: float) -> None:
    limits = loaded(tmp_path, f"name: a\ndescription: d\n{front}").limits

    assert (limits.max_turns, limits.max_seconds) == (turns, seconds)


@pytest.mark.parametrize("front", ["timeout_mins: 1:30", "timeout_mins: 5m", "max_turns: many", "timeout_mins: 'on'"])
def test_a_limit_that_is_no_number_is_refused_by_its_line(tmp_path: Path, front: str) -> None:
    agent, [problem] = load(tmp_path, f"name: a\ndescription: d\n{front}")

    assert agent is None
    assert (problem.line, problem.severity) == (4, "error")


def test_the_history_of_a_handoff_may_be_counted_in_quotes(tmp_path: Path) -> None:
    agent = loaded(tmp_path, "name: a\ndescription: d\nhandoffs: [{to: b, include_context: {last: '3'}}]")

    assert agent.handoffs[0].include_context == {"last": 3}


@pytest.mark.parametrize(
    ("description", "text"),
    [
        ("\n  Use when: code changed,\n  or: tests fail.", "Use when: code changed,\nor: tests fail."),
        (" [WIP]", "[WIP]"),
        ("\n  - one: two\n  - three", "- one: two\n- three"),
        ("\n  Reviews code for quality,\n  and more.", "Reviews code for quality, and more."),
        (" |-\n  One: two\n  three", "One: two\nthree"),
    ],
)
def test_a_description_is_text_whatever_yaml_takes_it_for(tmp_path: Path, description: str, text: str) -> None:
    agent = loaded(tmp_path, f"name: a\ndescription:{description}\ntools: Read, Bash\nmodel: sonnet")

    assert agent.description == text
    assert agent.tools is not None
    assert (agent.tools.allow, agent.model) == (("read_file", "bash"), "sonnet")


def test_a_description_that_yaml_takes_for_a_map_is_told(tmp_path: Path) -> None:
    _, [problem] = load(tmp_path, "name: a\ndescription:\n  Use when: x")

    assert (problem.line, problem.severity) == (3, "warning")
    assert "read as text" in problem.message


def test_names_of_fields_are_words_also_where_yaml_would_not_read_them_so(tmp_path: Path) -> None:
    front = "name: x\ndescription: d\nmodels: {use: [a, b], on: [refused]}\ninputs: {yes: {type: string}, no: {}}"
    agent = loaded(tmp_path, front)
    assert agent.fallback_on == ("refused",)
    assert [*agent.inputs] == ["yes", "no"]


def test_one_guardrail_may_be_called_so(tmp_path: Path) -> None:
    [rail] = loaded(tmp_path, "name: x\ndescription: d\nguardrail: {name: no_pii, validator: no_pii}").guardrails
    assert rail.validator == "no_pii"
