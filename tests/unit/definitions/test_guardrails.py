"""What agent files say of guardrails: two forms, every spelling, and never none where one was meant."""

from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.guardrails import BUILT_IN, GUARDED_PLACES, GuardedPlace, Guardrail
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError
from tests.unit.test_hostile_schemas import FANS, fanned

NAMED = {"name": "x", "description": "d"}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}


def rails(value: Any, key: str = "guardrails") -> tuple[Guardrail, ...]:
    return read_definition(NAMED | {key: value}, "You work.").definition.guardrails


def test_both_forms_of_the_files_are_read() -> None:
    assert rails([{"name": "a", "schema": SCHEMA, "policy": "reject"}, {"name": "mine", "validator": "custom"}]) == (
        Guardrail(name="a", schema_=SCHEMA),
        Guardrail(name="mine", validator="mine"),
    )
    single = {"output_schema": SCHEMA, "on_failure": "warn", "custom_validator": "mine"}
    assert rails(single) == (Guardrail(name="output", schema_=SCHEMA, validator="mine", policy="warn"),)


@pytest.mark.parametrize("key", ["guardrails", "Guardrails", "guard_rails", "guard-rails"])
def test_a_guardrail_counts_in_every_spelling(key: str) -> None:
    spelt = {"Name": "a", "maxLength": "20", "onFailure": "warn", "On": "input, tool-output", "tools": "bash, mcp.*"}
    places: tuple[GuardedPlace, ...] = ("input", "tool_output")
    read = Guardrail(name="a", max_length=20, policy="warn", on=places, tools=("bash", "mcp.*"))
    assert rails(spelt, key) == (read,)
    assert (read.is_for("mcp.git.log"), read.is_for("bash"), read.is_for("ls")) == (True, True, False)


def test_the_tools_of_other_programs_files_are_ours_too() -> None:
    [read] = rails([{"name": "a", "max_length": 5, "on": "tool_input", "tools": ["Bash", "run_*"]}])
    assert (read.is_for("bash"), read.is_for("run_it"), read.is_for("ls")) == (True, True, False)


def test_it_may_stand_at_every_place() -> None:
    assert rails([{"name": "a", "max_length": 5, "on": list(GUARDED_PLACES)}])[0].on == GUARDED_PLACES


def test_on_is_a_word_in_a_file_and_names_that_look_like_numbers_are_names(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text(
        "---\nname: x\ndescription: d\nguardrails:\n- name: 007\n  on: input\n  validator: json\n---\nYou.\n"
    )
    definition, problems = load_file(file, "project")
    assert definition is not None
    assert (definition.guardrails, problems) == ((Guardrail(name="007", on=("input",), validator="json"),), [])


def test_an_error_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("---\nname: x\ndescription: d\nguardrails:\n- {name: a, schema: {type: objekt}}\n---\nYou.\n")
    definition, [problem] = load_file(file, "project")
    assert (definition, problem.severity, problem.where) == (None, "error", f"{file}:4")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "it is True: write"),
        ("no_secrets", "it is 'no_secrets': write"),
        (0, "it is 0: write"),
        (["no_secrets"], "entry 1 is 'no_secrets': write"),
        ([{"validator": "json"}], "entry 1 has no name"),
        ([{"name": "a\nb", "validator": "json"}], "entry 1 has no name that can be shown"),
        ([{"name": "a"}], "'a' checks nothing"),
        ([{"name": "a", "schema": {}}], "the schema of 'a' must be a JSON Schema"),
        (
            [{"name": "a", "schema": {"type": "objekt"}}],
            "the schema of 'a': no JSON Schema: at type, 'objekt' is no type: there are string, number",
        ),
        ([{"name": "a", "schema": {"pattern": "(?=a)"}}], "the schema of 'a': pattern"),
        ([{"name": "a", "schema": {"$ref": "http://x/y"}}], "the schema of 'a'"),
        ([{"name": "a", "schema": {"format": "regex"}}], "the format 'regex' cannot be checked: there are email, uri"),
        ([{"name": "a", "validator": 7}], "the validator of 'a' is 7: it is a name"),
        ([{"name": "a", "validator": "max_length"}], "'a' says no length"),
        ([{"name": "a", "prompt": ["kind"]}], r"the prompt of 'a' is \['kind'\]: it is a sentence that has to be true"),
        ([{"name": "a", "prompt": "  "}], "the prompt of 'a' is '  ': it is a sentence"),
        ([{"name": "a", "prompt": "x" * 4_001}], "'prompt' of 'a' is .*at most 4000 characters"),
        ([{"name": "a", "max_length": 0}], "'max_length' of 'a' is 0: must be between 1 and 1000000"),
        ([{"name": "a", "max_length": True}], "'max_length' of 'a' is True: must be a number"),
        ([{"name": "a", "max_length": 5, "on": []}], r"'on' of 'a' is \[\]: it says where"),
        ([{"name": "a", "max_length": 5, "on": "outputs"}], "'on' of 'a' is 'outputs', which is no place"),
        (
            [{"name": "a", "max_length": 5, "policy": "retry"}],
            "the policy of 'a' is 'retry': there are reject, repair, ask, warn",
        ),
        ([{"name": "a", "max_length": 5, "tools": ["bash"]}], "'tools' of 'a' has no effect: it counts with"),
        (
            [{"name": "a", "max_length": 5, "on": "input", "stream": True}],
            "'stream' of 'a' has no effect: it counts with",
        ),
        ([{"name": "a", "max_length": 5, "stream": "perhaps"}], "'stream' of 'a' is 'perhaps'"),
        ([{"name": "a", "schema": fanned(FANS["allOf"])}], "the schema of 'a': it would be applied"),
        ([{"name": "a", "schema": {"pattern": "([ab]{900})([ab]{900})([ab]{900})"}}], "the schema of 'a': pattern"),
        ([{"name": "a", "max_length": 5, "on": "tool_input", "tools": []}], r"'tools' of 'a' is \[\]: it is a list"),
        ([{"name": "a", "max_length": 5, "polcy": "warn"}], "'polcy', which is not known there: did you mean 'policy'"),
        ([{"name": "a", "max_length": 5, "policy": "warn", "on_failure": "reject"}], "has 'policy' twice"),
        ([{"name": "a", "max_length": 5}] * 2, "'a' is listed twice"),
        ([{"name": f"a{n}", "max_length": 5} for n in range(21)], "it has 21 guardrails, 20 are the most"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_never_no_guardrail(value: Any, said: str) -> None:
    with pytest.raises(AgentFileError, match=said) as caught:
        rails(value)
    assert caught.value.field == "guardrails"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {"validator": "json", "policy": "repair", "on": ["output", "input"]},
            "is for output, handoff, tool_input, tool_output, delegation: at input write 'reject'",
        ),
        (
            {"validator": "json", "policy": "ask", "on": ["handoff", "tool_output"]},
            "'ask', which is for output, handoff, tool_input: at tool_output write 'reject' or 'warn'",
        ),
    ],
)
def test_a_policy_that_a_place_does_not_know_says_what_works(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentFileError, match=said):
        rails([{"name": "a", **entry}])


def test_nobody_else_is_asked_by_those_of_ours() -> None:
    assert all(Guardrail(name="a", validator=name).is_own for name in BUILT_IN)
    assert not Guardrail(name="a", validator="mine").is_own
    assert not Guardrail(name="a", validator="json", prompt="It is kind.").is_own
