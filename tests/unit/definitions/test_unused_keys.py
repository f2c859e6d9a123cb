"""Warnings for what a file says to no effect."""

from typing import Any

import pytest

from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError


def remarks(**fields: Any) -> list[tuple[str, str]]:
    return read_definition({"name": "a", "description": "A.", **fields}, "Work.").notes


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("handoffs", [{"to": "b", "colour": 3}], "'colour' of the handoff to 'b' is not known and has no effect."),
        ("subagents", [{"agent": "b", "timeuot": 3}], "'timeuot' of the sub-agent 'b' is not known and has no effect."),
        ("limits", {"colour": 3}, "'colour' of 'limits' is not known and has no effect."),
        ("output", {"colour": 3}, "'colour' of 'output' is not known and has no effect."),
        ("delegation", {"quorum": 2}, "There are join, timeout, max_children"),
        ("triggers", {"keyword": ["x"]}, "Did you mean 'keywords'?"),
    ],
)
def test_a_key_that_is_not_known_is_named_with_what_may_have_been_meant(field: str, value: Any, text: str) -> None:
    [(where, said)] = remarks(**{field: value})
    assert where == field
    assert text in said


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        ("limits", {"max_turn": 3}, "max_turns"),
        ("limits", {"job": {"max_leg": 3}}, "max_legs"),
        ("output", {"shema": {"type": "object"}}, "schema"),
        ("handoffs", [{"to": "b", "conditon": "state.paid"}], "condition"),
        ("handoffs", [{"to": "b", "retrun": True}], "return"),
    ],
)
def test_a_misspelt_restriction_is_an_error(field: str, value: Any, meant: str) -> None:
    with pytest.raises(AgentFileError, match=f"Did you mean '{meant}'") as raised:
        remarks(**{field: value})
    assert raised.value.field == field


def test_a_return_of_an_automatic_handoff_has_no_effect() -> None:
    [(where, said)] = remarks(handoffs=[{"to": "b", "when": "auto", "return": True}])
    assert where == "handoffs"
    assert "an automatic handoff is no call" in said


def test_what_is_known_is_not_remarked_on() -> None:
    edge = {"to": "b", "when": "state.done", "description": "b", "include_context": False, "return": True}
    assert remarks(handoffs=[{**edge, "payload": {"type": "object"}}, {"agent": "c", "returns": True}]) == []
    assert remarks(triggers=[{"intent": "fix", "keywords": ["fix"], "priority": 3}]) == []
    assert (
        remarks(output={"name": "r", "schema": {}, "state": {"x": "y"}}, subagents=[{"name": "b", "timeout": 9}]) == []
    )
    assert remarks(inputs={"n": {"type": "integer", "minimum": 1}}) == []


def test_triggers_of_an_agent_that_no_request_can_be_enough_for_are_told() -> None:
    needing = {"text": {"required": True}}
    [(where, said)] = remarks(triggers={"keywords": ["print"]}, inputs=needing)
    assert (where, "gives no 'text', which it needs" in said) == ("triggers", True)
    assert remarks(inputs=needing) == []
