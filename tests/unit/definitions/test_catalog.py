from typing import Any

import pytest

from shared.definitions.catalog import Catalog, build_catalog
from shared.definitions.forms import definition_from
from shared.definitions.model import AgentDefinition
from shared.errors import UnknownAgent


def agent(name: str, *targets: str, **fields: Any) -> AgentDefinition:
    return definition_from({"name": name, "description": "d", "handoffs": list(targets), **fields}, "You work.")


def catalog_of(*agents: AgentDefinition) -> Catalog:
    catalog, problems = build_catalog(agents)
    assert problems == []
    return catalog


def test_is_named_by_its_content_whatever_the_order() -> None:
    a, b = agent("a", "b"), agent("b")

    catalog = catalog_of(a, b)

    assert catalog.manifest() == {"a": a.digest, "b": b.digest}
    assert catalog.digest == catalog_of(b, a).digest
    assert catalog == catalog_of(b, a)
    assert catalog.digest != catalog_of(agent("a"), b).digest
    assert catalog.digest != catalog_of(b).digest


def test_finds_definitions_and_tool_names() -> None:
    catalog = catalog_of(agent("code-fixer"), agent("debugger", "code-fixer"))

    assert catalog.definition("debugger").targets == ("code-fixer",)
    assert catalog.tool_names.agent_for("transfer_to_code_fixer") == "code-fixer"
    assert "debugger" in catalog
    assert len(catalog) == 2


def test_an_unknown_agent_is_answered_with_near_names() -> None:
    catalog = catalog_of(agent("debugger"), agent("reviewer"))

    assert catalog.suggest("Debuger") == ["debugger"]
    with pytest.raises(UnknownAgent, match=r"'debuger'.*Did you mean 'debugger'\?"):
        catalog.definition("debuger")
    with pytest.raises(UnknownAgent, match="The catalog has 'debugger', 'reviewer'"):
        catalog.definition("zzz")
    with pytest.raises(UnknownAgent, match="has no agents"):
        catalog_of().definition("x")


def test_a_handoff_to_nobody_costs_the_edge_and_not_the_agent() -> None:
    catalog, [problem] = build_catalog([agent("a", "reviwer", "reviewer"), agent("reviewer")], {"a": "folder/a.md"})

    assert catalog.definition("a").targets == ("reviewer",)
    assert problem.severity == "error"
    assert problem.file == "folder/a.md"
    assert "'a'" in problem.message
    assert "'reviwer'" in problem.message
    assert "Did you mean 'reviewer'?" in problem.message


def test_a_handoff_to_itself_is_dropped_with_an_error() -> None:
    catalog, [problem] = build_catalog([agent("a", "a")])

    assert catalog.definition("a").targets == ()
    assert "'a' hands over to itself" in problem.message


def test_of_two_agents_with_one_tool_name_the_second_is_left_out() -> None:
    agents = [agent("billing-agent"), agent("Billing Agent"), agent("front", "billing-agent")]

    catalog, problems = build_catalog(agents)

    assert catalog.names == ("Billing Agent", "front")
    collision, edge = problems
    assert "'Billing Agent'" in collision.message
    assert "'billing-agent'" in collision.message
    assert "'front'" in edge.message
    assert "'Billing Agent'" in edge.message


def test_a_catalog_cannot_be_changed() -> None:
    catalog = catalog_of(agent("a"))

    with pytest.raises(TypeError):
        catalog.agents["b"] = agent("b")  # type: ignore[index]  # the point of the test
