"""The policy in a worker: which calls of an agent run, are asked about, or come back with the rule that denied them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.setting_rules import read_setting_rules
from ekiden.shared.risk import Risk
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named

WRITES = [calls(call("w1", "write", what="a")), said("done")]


def told(
    policy: Policy,
    replies: Sequence[ModelReply] = WRITES,
    *agents: Mapping[str, Any],
    approve: tuple[Risk, ...] = (),
    cwd: Path | None = None,
    others: Mapping[str, Sequence[ModelReply]] | None = None,
) -> tuple[Story, list[str]]:
    """Run a job of the agent ``solo`` as far as it goes; return its story and the calls that ran."""
    ran: list[str] = []
    model = Replies({"solo": replies, **(others or {})})

    async def scenario(stores: Stores) -> Story:
        tools = [tool_named("write", ran=ran), tool_named("look", read_only=True, ran=ran)]
        relay = Relay(stores, team(*(agents or ({"name": "solo"},))), model, tools=tools, policy=policy, root=cwd)
        job = await relay.submit("do it", agent="solo", approve=approve, cwd=cwd)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario), ran


def ruled(*rules: Any) -> Policy:
    return Policy(read_setting_rules(list(rules), "setting policy.rules", None, str).rules)


def test_without_rules_what_is_risky_waits_for_a_person_and_what_only_reads_runs() -> None:
    story, ran = told(Policy(), [calls(call("w1", "write"), call("l1", "look")), said("done")])
    assert (story.view.status, ran) == ("suspended", ["l1"])


def test_the_model_is_told_which_rule_denied_its_call_and_goes_on() -> None:
    story, ran = told(ruled({"tool": "write", "decision": "deny", "reason": "Not on Fridays"}))
    assert (story.view.result, ran) == ("done", [])
    assert story.results["w1"] == "rule 1 of setting policy.rules: Not on Fridays"


def test_what_a_rule_allows_runs() -> None:
    assert told(ruled({"tool": "write", "args": {"what": "a"}, "decision": "allow"}))[1] == ["w1"]
    assert told(ruled({"tool": "write", "args": {"what": "b"}, "decision": "allow"}))[1] == []


@pytest.mark.parametrize(
    ("approve", "more", "ran"),
    [
        (("medium",), {}, ["w1"]),
        (("safe", "low"), {}, []),
        (("medium",), {"approvers": ["ann"]}, []),
        (("medium",), {"separate": True}, []),
    ],
)
def test_who_asked_for_the_job_approves_beforehand_what_they_may(
    approve: tuple[Risk, ...], more: dict[str, Any], ran: list[str]
) -> None:
    assert told(ruled({"tool": "write", "decision": "ask", **more}), approve=approve)[1] == ran


def test_nobody_approves_beforehand_what_is_denied() -> None:
    everything: tuple[Risk, ...] = ("safe", "low", "medium", "high", "critical")
    assert told(ruled({"tool": "write", "decision": "deny"}), approve=everything)[1] == []


def test_an_agents_file_says_what_runs_unasked_and_what_is_asked_about() -> None:
    bold, shy = {"name": "solo", "autoApprove": ["medium"]}, {"name": "solo", "permission": {"write": "ask"}}
    assert told(Policy(), WRITES, bold)[1] == ["w1"]
    open_ = Policy(auto_approve=frozenset({"medium"}))
    assert told(open_, WRITES, {"name": "solo", "autoApprove": ["safe"]})[1] == []
    assert told(open_)[1] == ["w1"]
    write = Rule("allow", "a", "r", ("write",))
    assert told(Policy((write,)), WRITES, bold)[1] == ["w1"]
    assert told(ruled({"tool": "write", "decision": "deny"}), WRITES, bold)[1] == []
    assert told(open_, WRITES, shy)[0].view.status == "suspended"
    assert told(open_, WRITES, {"name": "solo", "permission": {"*": "ask"}})[0].view.status == "suspended"


def test_the_rules_of_the_jobs_folder_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    (tmp_path / ".gemini/policies").mkdir(parents=True)
    text = '[[rule]]\ntoolName = "write"\ndecision = "deny"\npriority = 1\ndenyMessage = "This folder is finished"\n'
    (tmp_path / ".gemini/policies/a.toml").write_text(text)
    story, ran = told(Policy(auto_approve=frozenset({"medium"})), cwd=tmp_path)
    assert ran == []
    assert story.results["w1"].endswith("a.toml: This folder is finished")


@pytest.mark.parametrize("name", ["delegate_to_scout", "default_api:delegate_to_scout"])
def test_a_rule_that_names_it_denies_a_delegation_however_it_is_spelt(name: str) -> None:
    lead = {"name": "solo", "subagents": ["scout"]}
    replies = [calls(call("c1", name, objective="x")), said("alone then")]
    policy = ruled({"tool": "delegate_to_scout", "decision": "deny", "reason": "scouts are away"})
    story, _ = told(policy, replies, lead, {"name": "scout"})
    assert story.results["c1"].endswith("scouts are away")
    free, _ = told(ruled({"decision": "deny"}), replies, lead, {"name": "scout"}, others={"scout": [said("found")]})
    assert "found" in free.results["c1"]


def test_a_rule_that_names_it_denies_a_transfer() -> None:
    solo = {"name": "solo", "handoffs": [{"to": "other"}]}
    replies = [calls(handing_over("t1", "other")), said("mine then")]
    story, _ = told(ruled({"tool": "transfer_to_*", "decision": "deny"}), replies, solo, {"name": "other"})
    assert story.view.result == "mine then"
    free, _ = told(ruled({"decision": "deny"}), replies, solo, {"name": "other"}, others={"other": [said("here")]})
    assert free.view.result == "here"


def test_a_child_is_asked_what_its_caller_would_be_asked() -> None:
    lead = {"name": "solo", "subagents": ["scout"], "permission": {"*": "ask"}, "tools": ["write"]}
    scout = {"name": "scout", "tools": ["write"]}
    replies = [calls(call("c1", "delegate_to_scout", objective="x")), said("well")]
    open_ = Policy(auto_approve=frozenset({"medium"}))
    story, ran = told(open_, replies, lead, scout, others={"scout": WRITES})
    assert (story.view.status, ran) == ("suspended", [])
