import json

import pytest
from pydantic import ValidationError

from ekiden.shared.definitions.model import AgentDefinition, HandoffRule, Limits, ToolRules, Triggers

STORED = {
    "name": "fixer",
    "title": "Fixer",
    "description": "Repairs.",
    "instructions": "You repair.",
    "kind": "agent",
    "scope": "project",
    "version": None,
    "model": None,
    "temperature": None,
    "tools": {"allow": ["ls"], "deny": []},
    "triggers": {"keywords": ["修复"], "patterns": [], "examples": [], "priority": 50},
    "handoffs": [{"to": "reviewer", "when": "manual", "description": "", "include_context": True, "payload": {}}],
    "transfer_to_parent": False,
    "limits": {"max_turns": 30, "max_seconds": 600.0, "max_tokens": None, "max_cost_usd": None, "max_handoff_depth": 5},
    "extra": {"color": "red"},
}


def test_reads_a_stored_definition_and_knows_its_digest() -> None:
    agent = AgentDefinition.from_json(json.dumps(STORED))

    assert agent.tools == ToolRules(allow=("ls",))
    assert agent.triggers == Triggers(keywords=("修复",))
    assert agent.handoffs[0].to == "reviewer"
    assert agent.digest == "b5206a3625c78a6f0703c5c0524ba826fb617377d5a774285355d81249856b72"


def test_json_and_back_changes_neither_content_nor_digest() -> None:
    agent = AgentDefinition.from_json(json.dumps(STORED))
    again = AgentDefinition.from_json(agent.to_json())

    assert again == agent
    assert again.digest == agent.digest
    assert again.to_json() == agent.to_json()


def test_any_change_of_content_changes_the_digest() -> None:
    agent = AgentDefinition.from_json(json.dumps(STORED))

    assert agent.model_copy(update={"instructions": "You repair!"}).digest != agent.digest


def test_a_definition_is_frozen() -> None:
    agent = AgentDefinition.from_json(json.dumps(STORED))

    with pytest.raises(ValidationError, match="frozen"):
        agent.name = "other"  # type: ignore[misc]  # the point of the test


@pytest.mark.parametrize(
    ("rules", "permitted", "refused"),
    [
        (ToolRules(), ["ls", "read_file"], ["bash", "edit_file", "mcp.github.issue"]),
        (ToolRules(deny=("ls",)), ["read_file"], ["ls", "bash"]),
        (ToolRules(allow=()), [], ["ls"]),
        (ToolRules(allow=("ls", "mcp.github.*")), ["ls", "mcp.github.issue"], ["bash", "mcp.other.x", "LS"]),
        (ToolRules(allow=("*",), deny=("bash",)), ["ls"], ["bash"]),
        (ToolRules(allow=("bash",), deny=("ba*",)), [], ["bash"]),
    ],
)
def test_deny_wins_and_patterns_match(rules: ToolRules, permitted: list[str], refused: list[str]) -> None:
    assert [name for name in permitted if not rules.permits(name)] == []
    assert [name for name in refused if rules.permits(name)] == []


def test_an_agent_without_rules_permits_every_tool() -> None:
    assert AgentDefinition(name="x", title="x", description="x").permits("ls")


def test_a_handoff_keeps_the_form_of_its_context() -> None:
    for form in (True, False, "summary", {"last": 3}):
        rule = HandoffRule(to="x", include_context=form)
        assert HandoffRule.model_validate_json(rule.model_dump_json()).include_context == form


def test_limits_out_of_range_are_refused_wherever_they_come_from() -> None:
    with pytest.raises(ValidationError, match="between 1 and 10000"):
        Limits(max_turns=0)
