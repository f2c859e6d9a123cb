from typing import Any

import pytest

from ekiden.shared.definitions.model import AgentDefinition, Confirmation
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "x", "description": "d", "tools": ["bash", "read_file"]}
IN_CAMELS = {
    "requireConfirmation": "write_file, bash",
    "promptTemplate": "{tool_name}: {tool_args}",
    "timeout": 30,
}
WRITTEN = {"require_confirmation": ["write_file", "bash"], "prompt_template": "{tool_name}: {tool_args}", "timeout": 30}


@pytest.mark.parametrize(
    "fields",
    [
        {"confirmation": WRITTEN},
        {"tool_confirmation": WRITTEN},
        {"toolConfirmation": IN_CAMELS},
        {"tools": {"allow": ["bash"], "confirmation": WRITTEN}},
        {"tools": {"allow": ["bash"], "tool_confirmation": WRITTEN}, "confirmation": None},
    ],
)  # fmt: skip
def test_every_spelling_of_a_confirmation_says_the_same(fields: dict[str, Any]) -> None:
    reading = read_definition(NAMED | fields, "You work.")
    confirmation = reading.definition.confirmation
    assert confirmation is not None
    assert reading.notes == []
    assert confirmation.requires("bash")
    assert confirmation.requires("write_file")
    assert not confirmation.requires("read_file")
    assert (confirmation.timeout, confirmation.text("bash", {"a": 1})) == (30, 'bash: {"a": 1}')
    assert reading.definition.rules.permits("bash")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"confirmation": True}, "'confirmation' is True: write"),
        ({"confirmation": ["bash"]}, "write {require"),
        ({"confirmation": {"timeout": 5}}, "names no tools that are confirmed"),
        ({"confirmation": {"require": []}}, "names no tools that are confirmed"),
        ({"confirmation": {"require": ["bash", 5]}}, "names no tools"),
        ({"confirmation": {"require": ["删除 文件"]}}, "which is no tool"),
        ({"confirmation": {"require": ["bash"], "timeuot": 5}}, "'timeuot', which is not known"),
        ({"confirmation": {"require": ["bash"], "require_confirmation": ["ls"]}}, "or twice"),
        ({"confirmation": {"require": ["bash"], "timeout": 0}}, "must be between 0.1"),
        ({"confirmation": {"require": ["bash"], "timeout": "soon"}}, "confirmation.timeout"),
        ({"confirmation": WRITTEN, "tool_confirmation": WRITTEN}, "stands beside 'tool_confirmation': write it once"),
        ({"confirmation": WRITTEN, "tools": {"allow": ["bash"], "confirmation": WRITTEN}}, "write it once"),
    ],
)  # fmt: skip
def test_what_would_not_be_asked_as_it_stands_there_is_an_error(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(AgentFileError, match=why):
        read_definition(NAMED | fields, "You work.")


def test_a_template_is_filled_in_and_nothing_more() -> None:
    template = "{tool_name} {tool_args} {tool_args.__class__} {0} %s {{tool_name}}"
    confirmation = Confirmation(require=("*",), prompt_template=template)
    text = confirmation.text("bash", {"x": "{tool_name} {tool_args}"})
    assert text == 'bash {"x": "{tool_name} {tool_args}"} {tool_args.__class__} {0} %s {bash}'


def test_an_agent_without_a_confirmation_keeps_its_digest_and_one_with_it_is_kept() -> None:
    without = read_definition(NAMED, "You work.").definition
    assert "confirmation" not in without.to_json()
    confirmed = read_definition(NAMED | {"confirmation": WRITTEN}, "You work.").definition
    assert AgentDefinition.from_json(confirmed.to_json()) == confirmed
    assert confirmed.digest != without.digest
