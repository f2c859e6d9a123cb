"""What an agent is called with."""

from typing import Any

import pytest

from ekiden.shared.definitions.agent_inputs import called_with, needs_inputs, why_not_callable
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from

FIELDS = {
    "version": {"type": "string", "required": True},
    "depth": {"type": "integer", "default": 3},
    "files": {"type": "array", "items": {"type": "string"}},
}


def agent(**inputs: Any) -> AgentDefinition:
    return definition_from({"name": "notes", "description": "d", "inputs": inputs}, "${version}")


def test_the_defaults_of_the_file_are_inputs_too() -> None:
    assert called_with(agent(**FIELDS), {"version": "1.4"}) == {"version": "1.4", "depth": 3}


def test_a_text_is_read_as_json_where_the_file_declares_something_else() -> None:
    given = {"version": "1.40", "depth": "7", "files": '["a", "文"]'}
    assert called_with(agent(**FIELDS), given) == {"version": "1.40", "depth": 7, "files": ["a", "文"]}


def test_the_request_is_the_objective_where_there_is_no_other_and_the_file_declares_one_or_nothing() -> None:
    declared = agent(objective={"type": "string", "required": True})
    assert called_with(declared, {}, "count") == {"objective": "count"}
    assert called_with(declared, {"objective": "add"}, "count") == {"objective": "add"}
    assert called_with(agent(), {}, "count") == {"objective": "count"}
    assert called_with(agent(**FIELDS), {}, "count") == {"depth": 3}
    assert called_with(agent(objective={"type": "integer"}), {}, "count") == {}


@pytest.mark.parametrize("given", [{"version": "1.4"}, {"version": "1.4", "depth": "2", "files": "[]"}])
def test_inputs_as_the_file_declares_them_are_fine(given: dict[str, Any]) -> None:
    assert why_not_callable(agent(**FIELDS), given, "go") == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "- the input 'version' is missing: name the agent and give it, as by --agent notes --input version=…"),
        ({"version": "1", "dept": 2}, "- there is no input 'dept': did you mean 'depth'?"),
        ({"version": "1", "zzz": 2}, "- there is no input 'zzz': its file declares version, depth, files"),
        ({"version": "1", "depth": "deep"}, "- depth: 'deep' is not of type 'integer'"),
        ({"version": 1.4}, "- version: 1.4 is not of type 'string'"),
    ],
)
def test_what_is_missing_unknown_or_of_another_type_is_named_with_the_remedy(given: dict[str, Any], why: str) -> None:
    assert why_not_callable(agent(**FIELDS), given, "go") == f"agent 'notes' cannot be called so:\n{why}"


def test_an_agent_that_declares_nothing_takes_an_objective_alone() -> None:
    assert why_not_callable(agent(), {}, "go") == ""
    assert why_not_callable(agent(), {"objective": "x"}, "go") == ""
    assert "there is no input 'version': its file declares objective" in why_not_callable(agent(), {"version": 1}, "go")


def test_what_a_request_alone_gives_and_what_has_a_default_is_no_need() -> None:
    needed = {"required": True}
    assert needs_inputs(agent(version=needed, depth={**needed, "default": "3"}, objective=needed)) == ["version"]
    assert needs_inputs(agent(objective={**needed, "type": "array"})) == ["objective"]
    assert needs_inputs(agent()) == []
