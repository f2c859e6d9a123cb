"""What a request says about its own routing."""

import pytest

from ekiden.dispatcher.routing.overrides import Override, parse_override
from ekiden.shared.errors import InvalidRequest, UnknownAgent

AGENTS = ("debugger", "code-fixer", "翻译助手", "Billing Agent")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@debugger "why does it fail?"', Override("why does it fail?", "debugger")),
        ("@debugger why does it fail?", Override("why does it fail?", "debugger")),
        ("  @code-fixer\nrepair it", Override("repair it", "code-fixer")),
        ("@Debugger look", Override("look", "debugger")),
        ("@翻译助手 你好", Override("你好", "翻译助手")),
        ('@"Billing Agent" my bill', Override("my bill", "Billing Agent")),
        ('@debugger say "hi" and "bye"', Override('say "hi" and "bye"', "debugger")),
        ("@auto “这个错误怎么解决？”", Override("这个错误怎么解决？", is_auto=True)),
        ('@auto --strategy=rule "x"', Override("x", strategy="rule", is_auto=True)),
        ("@auto --strategy hybrid x", Override("x", strategy="hybrid", is_auto=True)),
    ],
)
def test_reads_the_override_at_the_beginning(text: str, expected: Override) -> None:
    assert parse_override(text, AGENTS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ask @debugger why",
        "mail me@example.com",
        "me@example.com does not answer",
        "@ debugger",
        "@",
        "@debugger, please look",
        "@property(x) is wrong",
        "@debugger's answer was wrong",
        "",
    ],
)
def test_any_other_at_sign_is_text(text: str) -> None:
    assert parse_override(text, AGENTS) == Override(text)


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(UnknownAgent, match=r"'debuger': did you mean @debugger\?"):
        parse_override("@debuger look", AGENTS)


def test_without_a_catalog_any_name_is_taken() -> None:
    assert parse_override("@whoever look").agent == "whoever"


def test_an_unknown_strategy_names_what_there_is() -> None:
    known = ("rule", "semantic", "nearest-desk")
    with pytest.raises(InvalidRequest, match=r"'rules': give one of nearest-desk, rule, semantic; did you mean 'rule'"):
        parse_override("@auto --strategy=rules x", AGENTS, known)
    assert parse_override("@auto --strategy=Nearest-Desk x", AGENTS, known).strategy == "nearest-desk"


def test_where_nobody_knows_the_strategies_any_name_is_taken() -> None:
    assert parse_override("@auto --strategy=mine x").strategy == "mine"


@pytest.mark.parametrize("text", ["@debugger", '@debugger ""', "@auto --strategy=rule "])
def test_nothing_behind_it_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nothing follows"):
        parse_override(text, AGENTS)


def test_another_option_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="--model"):
        parse_override("@auto --model=x y", AGENTS)
