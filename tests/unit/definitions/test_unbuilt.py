from typing import Any

import pytest

from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "x", "description": "d"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
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


@pytest.mark.parametrize("field", ["guardrails", "confirmation", "graph", "hooks", "memory", "disabled"])
@pytest.mark.parametrize("nothing", [None, [], {}, False])
def test_what_asks_for_nothing_loads(field: str, nothing: object) -> None:
    assert read_definition(NAMED | {field: nothing}, "You work.").notes == []


def test_what_has_no_effect_is_told() -> None:
    reading = read_definition(NAMED | {"memory": "project", "hooks": {"Setup": [{"command": "x"}]}}, "You work.")

    assert [at for at, _ in reading.notes] == ["memory", "hooks"]
    assert all("has no effect" in text for _, text in reading.notes)
    assert "nothing is asked at 'Setup' here" in reading.notes[1][1]
