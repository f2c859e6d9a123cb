from typing import Any

import pytest

from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "x", "description": "d"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"guardrails": [{"name": "valid-json"}]}, "'guardrails' is not enforced yet"),
        ({"guardrails": {"output_schema": {}, "on_failure": "retry"}}, "'guardrails' is not enforced yet"),
        ({"models": ["a", "b"]}, "'models' is not enforced yet"),
        ({"graph": {"entry": "a"}}, "'graph' is not enforced yet"),
        ({"kind": "remote"}, "'kind' is 'remote': agents on other servers"),
        ({"agent_card_url": "http://x"}, "agents on other servers"),
        ({"agentCardUrl": "http://x"}, "agents on other servers"),
        ({"disabled": True}, "the agent is switched off"),
        ({"disable": "true"}, "the agent is switched off"),
        ({"enabled": False}, "the agent is switched off"),
        ({"enabled": "false"}, "the agent is switched off"),
        ({"disabled": 1}, "the agent is switched off"),
    ],
)
def test_refuses_what_would_guard_or_decide_and_does_nothing_yet(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentFileError, match=said) as caught:
        read_definition(NAMED | fields, "You work.")

    assert caught.value.field == next(iter(fields))
    assert "Remove" in str(caught.value)


@pytest.mark.parametrize("field", ["guardrails", "confirmation", "models", "graph", "hooks", "memory", "disabled"])
@pytest.mark.parametrize("nothing", [None, [], {}, False])
def test_what_asks_for_nothing_loads(field: str, nothing: object) -> None:
    assert read_definition(NAMED | {field: nothing}, "You work.").notes == []


@pytest.mark.parametrize("field", ["hooks", "memory"])
def test_what_has_no_effect_is_told(field: str) -> None:
    reading = read_definition(NAMED | {field: {"Stop": [{"command": "x"}]}}, "You work.")

    [(at, text)] = reading.notes
    assert at == field
    assert f"{field!r} has no effect" in text


def test_of_several_models_it_is_told_which_one_is_used() -> None:
    reading = read_definition(NAMED | {"model": ["gpt-5", "sonnet"]}, "You work.")

    assert reading.definition.model == "gpt-5"
    assert reading.notes == [("model", "'model' is a list: only 'gpt-5' is used, the others are not tried")]
