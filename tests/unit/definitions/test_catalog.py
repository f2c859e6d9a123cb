from typing import Any

import pytest

from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import UnknownAgent


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


def test_sub_agents_are_references_as_handoffs_are() -> None:
    agents = [agent("a", subagents=["reviwer", "a", "reviewer"]), agent("reviewer")]

    catalog, [unknown, itself] = build_catalog(agents)

    assert [rule.agent for rule in catalog.definition("a").subagents] == ["reviewer"]
    assert "'a' delegates to 'reviwer', which does not exist" in unknown.message
    assert "Did you mean 'reviewer'?" in unknown.message
    assert "'a' delegates to itself; this sub-agent is left out" in itself.message
    assert {unknown.aspect, itself.aspect} == {"subagents"}


@pytest.mark.parametrize(("name", "tool"), [("agent", "agent"), ("Agent", "agent"), ("parent", "parent")])
def test_an_agent_whose_tool_is_one_of_all_agents_is_left_out(name: str, tool: str) -> None:
    catalog, [problem] = build_catalog([agent(name), agent("b")])

    assert catalog.names == ("b",)
    assert (problem.severity, problem.file, problem.aspect) == ("error", name, "name")
    assert f"{name!r} would have 'transfer_to_{tool}'" in problem.message


def auto(to: str, condition: str = "") -> dict[str, str]:
    return {"to": to, "when": "auto", "condition": condition}


def test_a_round_of_automatic_handoffs_is_broken_where_it_begins() -> None:
    agents = [agent("b", handoffs=[auto("c"), "a"]), agent("c", handoffs=[auto("a")]), agent("a", handoffs=[auto("b")])]

    catalog, [problem] = build_catalog(agents, {"a": "folder/a.md"})

    assert (problem.severity, problem.file) == ("error", "folder/a.md")
    assert "'a' → 'b' → 'c' → 'a': these hand over automatically" in problem.message
    assert [catalog.definition(name).targets for name in "abc"] == [(), ("c", "a"), ("a",)]


def test_rounds_that_only_begin_once_one_is_broken_are_broken_too() -> None:
    catalog, problems = build_catalog(
        [
            agent("a", handoffs=[auto("b"), auto("c")]),
            agent("b", handoffs=[auto("a")]),
            agent("c", handoffs=[auto("a")]),
        ]
    )

    assert len(problems) == 2
    assert catalog.definition("a").targets == ()


@pytest.mark.parametrize(
    "handoffs",
    [
        [auto("b", "state.again")],
        ["b"],
        [{"to": "b", "when": "state.again"}],
        [auto("c"), auto("b")],  # the second never comes to it
    ],
)
def test_a_round_that_something_can_leave_stands(handoffs: list[Any]) -> None:
    catalog_of(agent("a", handoffs=handoffs), agent("b", handoffs=[auto("a")]), agent("c"))


def test_an_agent_that_leads_into_a_round_keeps_its_handoff() -> None:
    catalog, [problem] = build_catalog(
        [agent("a", handoffs=[auto("b")]), agent("b", handoffs=[auto("c")]), agent("c", handoffs=[auto("b")])]
    )

    assert problem.file == "b"
    assert catalog.definition("a").targets == ("b",)


def test_a_catalog_cannot_be_changed() -> None:
    catalog = catalog_of(agent("a"))

    with pytest.raises(TypeError):
        catalog.agents["b"] = agent("b")  # type: ignore[index]  # the point of the test


def test_agents_that_may_delegate_to_each_other_in_a_round_stay_with_one_warning() -> None:
    agents = [agent("a", subagents=["b"]), agent("b", subagents=["c"]), agent("c", subagents=["b"]), agent("d")]

    catalog, [problem] = build_catalog(agents, {"b": "folder/b.md"})

    assert (problem.severity, problem.file, problem.aspect) == ("warning", "folder/b.md", "subagents")
    assert "agents 'b', 'c' may delegate to each other" in problem.message
    assert [rule.agent for name in "abc" for rule in catalog.definition(name).subagents] == ["b", "c", "b"]


def test_agents_that_delegate_without_a_round_are_no_problem() -> None:
    catalog_of(agent("a", subagents=["b", "c"]), agent("b", subagents=["c"]), agent("c"))
