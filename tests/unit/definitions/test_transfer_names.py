import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.definitions.transfer_names import ToolNames, agent_meant, transfer_tool_name
from ekiden.shared.errors import UnknownAgent


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


TEAM = ("code-fixer", "reviewer", "Billing Agent", "代码修复", "v2.1_x", "transfer-to-human", "a" * 80)


@pytest.mark.parametrize(
    ("called", "agent"),
    [
        ("reviewer", "reviewer"),
        ("Reviewer", "reviewer"),
        ("default_api:transfer_to_reviewer", "reviewer"),
        ("default_api.transfer_to_reviewer", "reviewer"),
        ("functions.transfer_to_code_fixer", "code-fixer"),
        ("functions.code-fixer", "code-fixer"),
        ("handoff_to_code-fixer", "code-fixer"),
        ("transfer_to_code-fixer", "code-fixer"),
        ("Transfer to Code Fixer", "code-fixer"),
        ("CODE_FIXER", "code-fixer"),
        ("transfer_to_reviewer_reviewer", "reviewer"),
        ("transfer_to_code_fixer_code_fixer", "code-fixer"),
        ("transfer_to_transfer_to_reviewer", "reviewer"),
        ("billing_agent", "Billing Agent"),
        ("transfer_to_代码修复", "代码修复"),
        ("v2.1_x", "v2.1_x"),
        ("default_api.v2.1_x", None),
        ("V2.1-X", "v2.1_x"),
        ("transfer_to_human", "transfer-to-human"),
        ("human", None),
        ("transfer_to_" + "a" * 80, "a" * 80),
        ("review", None),
        ("reviewers", None),
        ("transfer_to_", None),
        ("transfer_to_agent", None),
        ("", None),
        (" _-:. ", None),
    ],
)
def test_a_near_miss_means_the_one_agent_that_it_can_mean(called: str, agent: str | None) -> None:
    assert agent_meant(called, TEAM) == agent


def test_what_could_mean_two_agents_means_none() -> None:
    assert agent_meant("Code Fixer", ["code-fixer", "code_fixer"]) is None
    assert agent_meant("Echo Echo", ["echo", "echo-echo"]) is None
    assert agent_meant("transfer_to_x", ["x", "transfer_to_x"]) is None


def test_an_exact_name_means_its_agent_whatever_else_is_near() -> None:
    assert agent_meant("Reviewer", ["reviewer", "Reviewer"]) == "Reviewer"
    assert agent_meant("echo-echo", ["echo", "echo-echo"]) == "echo-echo"
    assert agent_meant("transfer_to_echo_echo", ["echo", "echo-echo"]) == "echo-echo"


def test_an_agent_that_is_named_twice_is_one() -> None:
    assert agent_meant("Reviewer", ["reviewer", "reviewer"]) == "reviewer"


_SIGNS = st.characters(categories=[], include_characters="abAB12-_ .é修")
_NAMES = st.lists(st.text(_SIGNS, min_size=1, max_size=12), min_size=1, max_size=6)


@given(_NAMES, st.data())
def test_the_exact_name_and_the_exact_tool_lead_to_the_agent_and_nothing_leads_to_a_stranger(
    agents: list[str], data: st.DataObject
) -> None:
    names = ToolNames(agents)
    agent = data.draw(st.sampled_from([name for name in agents if names.agent_for(transfer_tool_name(name)) == name]))

    assert agent_meant(agent, agents) == agent
    if not names.collisions:
        assert agent_meant(names.tool_for(agent), agents) == agent
    assert agent_meant(data.draw(st.text()), agents) in {None, *agents}


_KINDS_OF_MISS: tuple[Callable[[str], str], ...] = (
    lambda tool: f"default_api:{tool}",
    lambda tool: f"functions.{tool}",
    lambda tool: tool.upper(),
    lambda tool: tool.replace("_", "-"),
    lambda tool: tool.replace("_", " "),
    lambda tool: f"transfer_to_{tool}",
    lambda tool: f"{tool}_{tool.removeprefix('transfer_to_')}",
)


_LETTERS = st.text(st.characters(min_codepoint=ord("b"), max_codepoint=ord("z")), min_size=3, max_size=8)
_WORDS = st.lists(
    st.tuples(_LETTERS, st.integers(0, 9)).map(lambda word: f"{word[0]}{word[1]}"), min_size=1, max_size=3
)


@given(
    st.lists(_WORDS.map("-".join), min_size=1, max_size=5, unique=True),
    st.sampled_from(_KINDS_OF_MISS),
)
def test_each_kind_of_miss_is_repaired_or_ambiguous(agents: list[str], miss: Callable[[str], str]) -> None:
    for agent in agents:
        meant = agent_meant(miss(transfer_tool_name(agent)), agents)
        alone = agent_meant(miss(transfer_tool_name(agent)), [agent])

        assert alone == agent
        assert meant in (agent, None)
