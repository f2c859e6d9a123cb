"""What holds where several rules speak: denials, questions, permissions, the default by risk."""

from typing import Any

import pytest

from ekiden.shared.policy.command_patterns import prefix_command
from ekiden.shared.policy.conditions import By
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.engine import DEFAULT, Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.risk import Risk


def rule(verdict: Verdict, tool: str = "bash", *, command: str = "", source: str = "a", priority: int = 0) -> Rule:
    patterns = (prefix_command(command, restricts=verdict != "allow"),) if command else ()
    return Rule(verdict, source, f"{verdict} {tool} {command} in {source}", (tool,), (), patterns, (), priority)


def bash(command: str = "git status") -> ToolUse:
    return ToolUse("bash", {"command": command})


@pytest.mark.parametrize(
    ("risk", "verdict"),
    [("safe", "allow"), ("low", "allow"), ("medium", "ask"), ("high", "ask"), ("critical", "deny")],
)
def test_without_rules_the_risk_decides(risk: Risk, verdict: str) -> None:
    decision = Policy().decide(ToolUse("x", tool_risk=risk))
    assert (decision.verdict, decision.rule) == (verdict, DEFAULT)


def test_levels_that_run_without_asking_are_a_matter_of_the_settings_and_never_the_last_one() -> None:
    assert Policy(auto_approve=frozenset()).decide(ToolUse("x", tool_risk="safe")).verdict == "ask"
    assert Policy(auto_approve=frozenset({"medium"})).decide(ToolUse("x")).verdict == "allow"
    assert Policy(auto_approve=frozenset({"critical"})).decide(ToolUse("x", tool_risk="critical")).verdict == "deny"


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("allow", "ask", "deny"), "deny"),
        (("allow", "deny"), "deny"),
        (("allow", "ask"), "ask"),
        (("allow",), "allow"),
        (("ask", "deny"), "deny"),
    ],
)
def test_any_denial_counts_before_any_question_and_that_before_a_permission(
    verdicts: tuple[Verdict, ...], verdict: str
) -> None:
    for order in (verdicts, verdicts[::-1]):
        assert Policy(tuple(rule(one, source=one) for one in order)).decide(bash()).verdict == verdict


def test_no_priority_lets_a_permission_beat_a_denial() -> None:
    assert Policy((rule("deny"), rule("allow", priority=999))).decide(bash()).verdict == "deny"


def test_in_one_source_a_permission_of_higher_priority_is_an_exception_to_a_question() -> None:
    asks, allows = rule("ask", priority=10), rule("allow", command="git status", priority=20)
    assert Policy((asks, allows)).decide(bash()).verdict == "allow"
    assert Policy((asks, allows)).decide(bash("git status; ls")).verdict == "ask"
    elsewhere = rule("allow", command="git status", priority=20, source="b")
    assert Policy((asks, elsewhere)).decide(bash()).verdict == "ask"
    below = rule("allow", command="git status", priority=10)
    assert Policy((asks, below)).decide(bash()).verdict == "ask"


def test_an_exception_for_one_command_is_none_for_the_others_of_the_line() -> None:
    policy = Policy(
        (
            rule("ask", command="git", priority=10),
            rule("allow", command="git status", priority=20),
            rule("allow", command="git", priority=5),
        )
    )
    assert policy.decide(bash("git status && git status")).verdict == "allow"
    assert policy.decide(bash("git status && git push")).verdict == "ask"


def test_the_rule_that_won_is_named_with_its_reason_and_those_that_it_beat() -> None:
    denies = Rule("deny", "x.toml", "rule 3 of x.toml", ("bash",), reason="Not on Fridays")
    judgement = Policy((rule("allow"), denies)).judge(bash())
    assert judgement.decision.reason == "rule 3 of x.toml: Not on Fridays"
    assert judgement.decision.rule == "rule 3 of x.toml"
    assert [name for name, _, _ in judgement.beaten] == ["allow bash  in a"]


def test_of_several_questions_the_strictest_holds() -> None:
    one = Rule("ask", "a", "one", approvers=("ann", "bob"), timeout_s=60)
    other = Rule("ask", "b", "other", approvers=("bob", "eve"), separate=True, timeout_s=30)
    decision = Policy((one, other, rule("ask"))).decide(bash())
    assert (decision.approvers, decision.separate, decision.timeout_s) == (("bob",), True, 30)
    nobody = Rule("ask", "c", "third", approvers=("zoe",))
    assert Policy((one, nobody)).decide(bash()).verdict == "deny"


@pytest.mark.parametrize(
    ("tools", "verdict"),
    [(("*",), "allow"), (("delegate_to_b",), "deny"), (("delegate_to_*",), "deny"), (("transfer_to_*",), "allow")],
)
def test_control_moves_as_the_agents_files_say_unless_a_rule_names_it(tools: tuple[str, ...], verdict: str) -> None:
    use = ToolUse("delegate_to_b", {"objective": "x"}, is_control=True)
    assert Policy((Rule("deny", "a", "r", tools),), frozenset()).decide(use).verdict == verdict


def test_a_denial_means_a_tool_in_any_spelling_and_a_permission_only_its_own() -> None:
    assert Policy((rule("deny", "mcp.GitHub.*"),)).decide(ToolUse("mcp.github.push")).verdict == "deny"
    assert Policy((rule("allow", "mcp.GitHub.*"),)).decide(ToolUse("mcp.github.push")).verdict == "ask"
    assert Policy((rule("allow", "mcp.github.*"),)).decide(ToolUse("mcp.github.push")).verdict == "allow"


def test_what_cannot_be_told_is_a_yes_to_a_denial_and_a_no_to_a_permission() -> None:
    denies = Rule("deny", "a", "r", conditions=(By("user", ("eve",)),))
    allows = Rule("allow", "a", "r", conditions=(By("user", ("ann",)),))
    assert Policy((denies,)).decide(bash()).verdict == "deny"
    assert Policy((allows,)).decide(bash()).verdict == "ask"
    assert Policy((denies,)).decide(ToolUse("bash", user="ann", tool_risk="safe")).verdict == "allow"
    assert Policy((allows,)).decide(ToolUse("bash", user="ann")).verdict == "allow"


@pytest.mark.parametrize("question", [{"approvers": ("ann",)}, {"separate": True}])
def test_where_nobody_can_tell_people_apart_what_only_some_may_answer_is_denied(question: Any) -> None:
    asks = Rule("ask", "a", "the rule", **question)
    assert Policy((asks,)).decide(bash()).verdict == "ask"
    decision = Policy((asks,), tells_people_apart=False).decide(bash())
    assert (decision.verdict, decision.rule) == ("deny", "the rule")
    assert "nobody can tell people apart" in decision.reason
    assert Policy((rule("ask"),), tells_people_apart=False).decide(bash()).verdict == "ask"


def test_a_name_that_somebody_only_claims_allows_nothing_and_denies_all_the_same() -> None:
    claimed = ToolUse("x", user="ann", is_user_claimed=True)
    assert Policy((Rule("allow", "a", "r", conditions=(By("user", ("ann",)),)),)).decide(claimed).verdict == "ask"
    assert Policy((Rule("deny", "a", "r", conditions=(By("user", ("ann",)),)),)).decide(claimed).verdict == "deny"
