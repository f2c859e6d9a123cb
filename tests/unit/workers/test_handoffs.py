"""What an agent is offered and what a transfer holds; refusals are tested within legs."""

import re
from typing import Any

import pytest

from shared.definitions.catalog import Catalog
from shared.errors import HandoffRefused
from shared.handoff import HandoffContext, History, first_context
from shared.outcomes import Transfer
from tests.scenarios.relay import team
from tests.unit.workers.world import call, handing_over
from workers.handoffs import MAX_ARGUMENT, Transfers, targets_of

JOB = "abcdefghij234567.1"


def came(*agents: str) -> HandoffContext:
    """The context of the last of these agents; the first got control by the route."""
    context = first_context(JOB)
    for at, agent in enumerate(agents):
        context = context.advance(agent, "because", is_route=at == 0)
    return context


def transfers_of(catalog: Catalog, context: HandoffContext) -> Transfers:
    described = {name: agent.description for name, agent in catalog.agents.items()}
    return Transfers(catalog.definition(context.to_agent), context, catalog.tool_names, described)


def test_every_listed_target_has_a_tool_that_says_when_and_for_what() -> None:
    catalog = team(
        {"name": "lead", "handoffs": [{"to": "code-fixer", "description": "Once the cause is known."}, "writer"]},
        {"name": "code-fixer", "description": "Repairs bugs."},
        {"name": "writer", "description": "Writes."},
        {"name": "stranger"},
    )
    fixer, writer = transfers_of(catalog, came("lead")).specs
    assert (fixer.name, fixer.description) == (
        "transfer_to_code_fixer",
        "Once the cause is known.\nAgent code-fixer: Repairs bugs.",
    )
    assert (writer.name, writer.description) == ("transfer_to_writer", "Agent writer: Writes.")
    assert fixer.parameters["required"] == ["reason"]


def test_handoffs_that_the_model_does_not_decide_are_not_offered() -> None:
    catalog = team(
        {"name": "lead", "handoffs": [{"to": "a", "when": "auto"}, {"to": "b", "when": "state.done"}, "c"]},
        *({"name": name} for name in "abc"),
    )
    assert [spec.name for spec in transfers_of(catalog, came("lead")).specs] == ["transfer_to_c"]


def test_agents_with_chinese_names_have_different_tools_that_models_accept() -> None:
    catalog = team({"name": "分派", "handoffs": ["代码修复", "翻译助手"]}, {"name": "代码修复"}, {"name": "翻译助手"})
    transfers = transfers_of(catalog, came("分派"))
    names = [spec.name for spec in transfers.specs]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name) for name in names)
    reached = [transfers.transfer(call("c", name, reason="请继续"), upto=3).context.to_agent for name in names]
    assert reached == ["代码修复", "翻译助手"]


def test_a_refusal_says_which_opaque_tool_is_whose() -> None:
    catalog = team({"name": "分派", "handoffs": ["代码修复"]}, {"name": "代码修复"})
    transfers = transfers_of(catalog, came("分派"))
    with pytest.raises(HandoffRefused, match=rf"Allowed: {transfers.specs[0].name} \(agent '代码修复'\)\."):
        transfers.transfer(call("c", "transfer_to_代码修复", reason="x"), upto=3)


@pytest.mark.parametrize(
    ("may", "chain", "open_to"),
    [
        (True, ("lead", "helper"), ["writer", "lead"]),
        (False, ("lead", "helper"), ["writer"]),
        (True, ("helper",), ["writer"]),  # nobody but the user to hand back to
        (True, ("writer", "helper"), ["writer"]),  # its file lists the parent already
        (True, ("lead", "writer", "helper"), ["writer"]),  # the parent is who gave control, not who began
    ],
)
def test_the_parent_is_offered_where_the_agent_may_hand_back(
    may: bool, chain: tuple[str, ...], open_to: list[str]
) -> None:
    catalog = team(
        {"name": "lead", "handoffs": ["helper", "writer"]},
        {"name": "helper", "handoffs": ["writer"], "transfer_to_parent": may},
        {"name": "writer", "handoffs": ["helper"]},
    )
    assert [rule.to for rule in targets_of(catalog.definition("helper"), came(*chain))] == open_to


@pytest.mark.parametrize(
    ("include", "history"),
    [
        (True, History(mode="all", upto=7)),
        (False, History(mode="none", upto=7)),
        ({"last": 2}, History(mode="last", last=2, upto=7)),
        ("summary", History(mode="all", upto=7)),
    ],
)
def test_the_edge_says_how_much_history_the_target_sees(include: Any, history: History) -> None:
    catalog = team({"name": "lead", "handoffs": [{"to": "helper", "include_context": include}]}, {"name": "helper"})
    transfer = transfers_of(catalog, came("lead")).transfer(handing_over("c", "helper"), upto=7)
    assert transfer.context.history == history


def test_a_transfer_holds_what_the_commit_decides_by() -> None:
    catalog = team(
        {"name": "lead", "handoffs": ["helper"], "transfer_to_parent": True, "limits": {"max_handoff_depth": 2}},
        {"name": "helper"},
    )
    transfer = transfers_of(catalog, came("lead")).transfer(handing_over("c9", "helper"), upto=7)
    assert transfer == Transfer(
        transfer.context, call_id="c9", tool_name="transfer_to_helper", max_depth=2, may_return=True
    )


def test_arguments_are_kept_up_to_a_limit() -> None:
    catalog = team({"name": "lead", "handoffs": ["helper"]}, {"name": "helper"})
    long = "x" * (MAX_ARGUMENT + 1)
    made = handing_over("c", "helper", reason=long, context=long, summary=long)
    context = transfers_of(catalog, came("lead")).transfer(made, upto=1).context
    assert [len(str(text)) for text in (context.reason, context.context, context.summary)] == [MAX_ARGUMENT] * 3
