import re

import pytest

from shared.definitions.names import ToolNames, transfer_tool_name
from shared.errors import UnknownAgent


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("debugger", "transfer_to_debugger"),
        ("code-fixer", "transfer_to_code_fixer"),
        ("Billing Agent", "transfer_to_billing_agent"),
        ("billing-agent", "transfer_to_billing_agent"),
        ("v2.1_x", "transfer_to_v2_1_x"),
    ],
)
def test_names_the_tool_after_the_agent(agent: str, tool: str) -> None:
    assert transfer_tool_name(agent) == tool


def test_names_that_ascii_cannot_show_stay_apart() -> None:
    names = ["代码修复", "翻译助手", "Größe", "Große", "🐛", "🔧", "code-修复"]

    tools = {transfer_tool_name(name) for name in names}

    assert len(tools) == len(names)
    assert transfer_tool_name("code-修复").startswith("transfer_to_code_")


@pytest.mark.parametrize("agent", ["a" * 52, "a" * 53, "a" * 200, "长" * 100, "x" * 51 + "é"])
def test_every_tool_name_is_one_that_the_vendors_accept(agent: str) -> None:
    assert re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", transfer_tool_name(agent))


def test_long_names_that_begin_alike_stay_apart() -> None:
    assert transfer_tool_name("a" * 100 + "b") != transfer_tool_name("a" * 100 + "c")


def test_maps_both_ways() -> None:
    names = ToolNames(["code-fixer", "代码修复"])

    for agent in ("code-fixer", "代码修复"):
        assert names.agent_for(names.tool_for(agent)) == agent
    assert names.agent_for("transfer_to_nobody") is None
    assert names.agent_for("code-fixer") is None
    assert names.collisions == {}


def test_tells_agents_that_would_share_a_tool() -> None:
    names = ToolNames(["billing-agent", "Billing Agent", "other"])

    assert names.collisions == {"transfer_to_billing_agent": ("Billing Agent", "billing-agent")}
    assert names.agent_for("transfer_to_billing_agent") == "Billing Agent"
    with pytest.raises(UnknownAgent, match="'billing-agent'"):
        names.tool_for("billing-agent")
