"""Which models an agent file asks for."""

from typing import Any

import pytest

from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "x", "description": "d"}


@pytest.mark.parametrize("field", ["model", "models"])
@pytest.mark.parametrize(
    ("value", "models", "on"),
    [
        ("gemini-2.5-pro", ("gemini-2.5-pro",), ()),
        (["gemini-2.5-pro"], ("gemini-2.5-pro",), ()),
        (["gemini-2.5-pro", " local/qwen3 "], ("gemini-2.5-pro", "local/qwen3"), ()),
        (["inherit", "local/qwen3"], (None, "local/qwen3"), ()),
        (["local/通义", "inherit"], ("local/通义", "inherit"), ()),
        ({"use": ["a", "b"], "on": ["quota", "refused"]}, ("a", "b"), ("quota", "refused")),
        ({"use": "a", "on": "refused"}, ("a",), ("refused",)),
        ("inherit", (None,), ()),
    ],
)
def test_models_are_named_in_the_order_they_are_asked_in(
    field: str, value: Any, models: tuple[str | None, ...], on: tuple[str, ...]
) -> None:
    agent = definition_from(NAMED | {field: value}, "You work.")
    assert (agent.models, agent.fallback_on) == (models, on)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"models": []}, "it names no model"),
        ({"models": {"on": ["quota"]}}, "it names no model"),
        ({"models": ["a", "b", "A "]}, "names 'a' twice"),
        ({"models": ["a", 7]}, "not 7"),
        ({"models": {"use": ["a", "b"], "on": ["bored"]}}, "'on: bored': there are unavailable, quota, refused"),
        ({"models": {"use": ["a", "b"], "on": []}}, "name a cause"),
        ({"models": {"use": ["a"], "unless": "x"}}, "'unless'"),
        ({"models": ["a"], "model": "b"}, "leave one of them out"),
        ({"model": {"name": "a"}}, "'name', which is not known"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_field(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentFileError, match=said) as caught:
        definition_from(NAMED | fields, "You work.")
    assert caught.value.field in fields


def test_one_model_makes_the_same_definition_as_ever() -> None:
    one, listed = (definition_from(NAMED | {"model": value}, "You work.") for value in ("a", ["a"]))
    assert one.digest == listed.digest
    assert "fallbacks" not in one.model_dump(mode="json")
