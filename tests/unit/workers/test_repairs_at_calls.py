"""A model repairs what goes from hand to hand: arguments, results, handoffs; no tool runs for it, or a second time."""

import json
from typing import Any

import pytest

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.policy.engine import Policy
from ekiden.shared.records import (
    ApprovalAsked,
    Guarded,
    HandedOff,
    ModelReplied,
    Record,
    Refused,
    Repairing,
    ToolFinished,
)
from tests.scenarios.relay import Story, text_of
from tests.unit.workers.helped import story_of
from tests.unit.workers.world import Said, call, calls, handing_over, said

FEW = {"properties": {"what": {"maxLength": 3}}}
ARGUMENTS = {"on": "tool_input", "policy": "repair", "schema": FEW}
PUT = calls(call("c1", "put", what="paint"))
KEY = "sk-proj-0123456789abcdef0123"
EDGE = {"to": "b", "payload": {"type": "object", "properties": {"n": {"type": "integer"}}}}
TO_B: dict[str, Any] = {"agent": {"handoffs": [EDGE]}, "others": [{"name": "b"}], "of_others": {"b": [said("ok")]}}


def as_json(**value: Any) -> Said:
    return said(json.dumps(value))


def handed_to_b(story: Story) -> HandoffContext:
    return story.of(HandedOff)[-1].context


def test_a_call_runs_once_with_repaired_arguments_and_the_model_is_told_so() -> None:
    ran: list[str] = []
    story = story_of(ARGUMENTS, PUT, said("done"), repairs=[as_json(what="ink")], ran=ran)
    assert (story.view.status, ran) == ("done", ["c1"])
    result = story.results["c1"]
    assert result.endswith("put(ink)")
    assert 'A guardrail had your arguments repaired, and let this run with these: {"what": "ink"}' in result
    [judged] = story.of(Guarded)
    assert (judged.status, judged.value, story.of(Repairing)[0].call_id) == ("repaired", {"what": "ink"}, "c1")
    assert story.of(ModelReplied)[0].message.calls[0].args == {"what": "paint"}


def test_calls_of_one_turn_are_repaired_each_for_itself() -> None:
    two = calls(call("c1", "put", what="paint"), call("c2", "put", what="pencil"))
    story = story_of(ARGUMENTS, two, said("done"), repairs=[as_json(what="ink"), as_json(what="pen")])
    assert [story.results[one].rpartition("\n")[2] for one in ("c1", "c2")] == ["put(ink)", "put(pen)"]


def test_arguments_that_two_tries_do_not_repair_are_not_run_and_the_agent_is_told() -> None:
    ran: list[str] = []
    tries = [as_json(what="pencil"), said("[1]"), as_json(what="ink")]
    story = story_of(ARGUMENTS, PUT, said("done"), repairs=tries, ran=ran)
    assert (ran, len(story.of(Repairing)), story.view.status) == ([], 2, "done")
    assert "does not let these arguments pass:\n- the whole: arguments are an object" in story.results["c1"]


def test_rules_and_people_are_asked_about_the_arguments_that_will_run() -> None:
    story = story_of(ARGUMENTS, PUT, repairs=[as_json(what="ink")], policy=Policy())
    [asked] = story.of(ApprovalAsked)
    assert (story.view.status, asked.args) == ("suspended", {"what": "ink"})


def test_arguments_that_a_lost_worker_had_repaired_are_not_repaired_again() -> None:
    judged = {"at": "tool_input", "rail": "rail", "policy": "repair", "status": "repaired", "turn": 1, "call_id": "c1"}
    lost: list[Record] = [ModelReplied(leg=1, turn=1, message=PUT.message)]
    tried = Repairing(leg=1, at="tool_input", rail="rail", turn=1, call_id="c1", text='{"what": "ink"}')
    done = Guarded.model_validate({"leg": 1, **judged, "value": {"what": "ink"}})
    for known in ([tried], [tried, done]):
        story = story_of(ARGUMENTS, PUT, said("done"), lost=[*lost, *known])
        assert (story.results["c1"].endswith("put(ink)"), len(story.of(Repairing))) == (True, 1)


def test_a_handoff_goes_on_with_a_repaired_payload_and_the_original_stays_in_the_journal() -> None:
    requests: list[ModelRequest] = []
    rail = {"on": "handoff", "policy": "repair", "schema": {"properties": {"n": {"maximum": 5}}}}
    fixed = as_json(reason="b should go on", payload={"n": 5})
    story = story_of(rail, calls(handing_over("c1", "b", n=9)), repairs=[fixed], requests=requests, **TO_B)
    assert (story.chain, story.of(Refused), story.view.status) == (["a", "b"], [], "done")
    assert (handed_to_b(story).payload, handed_to_b(story).reason) == ({"n": 5}, "b should go on")
    assert story.of(ModelReplied)[0].message.calls[0].args["n"] == 9
    assert '"payload": {"properties": {"n": {"maximum": 5}}}' in requests[1].messages[0].text


def test_the_words_of_a_handoff_are_repaired_as_well() -> None:
    rail = {"on": "handoff", "policy": "repair", "validator": "no_secrets"}
    handing = calls(call("c1", "transfer_to_b", reason=f"use {KEY}", context=f"It is {KEY}."))
    fixed = as_json(reason="use the key", context="It is in the vault.")
    requests: list[ModelRequest] = []
    story = story_of(rail, handing, repairs=[fixed], requests=requests, **TO_B)
    assert (handed_to_b(story).reason, handed_to_b(story).context) == ("use the key", "It is in the vault.")
    assert KEY not in text_of(requests[-1].messages)


@pytest.mark.parametrize(
    "wrong",
    [
        said("so sorry"),
        as_json(payload={"n": 1}),
        as_json(reason="x", payload={"n": "five"}),
        as_json(reason="x", payload=[1]),
        as_json(reason="x", to_agent="c", payload={"n": 1}),
    ],
    ids=["words", "no reason", "not what the file says", "no object", "somebody else"],
)
def test_a_repair_that_is_no_handoff_is_none(wrong: Said) -> None:
    rail = {"on": "handoff", "policy": "repair", "schema": {"properties": {"n": {"not": {"const": 9}}}}}
    mended = calls(handing_over("c2", "b", n=1))
    story = story_of(rail, calls(handing_over("c1", "b", n=9)), mended, repairs=[wrong, wrong], **TO_B)
    assert (len(story.of(Repairing)), len(story.of(Refused)), handed_to_b(story).payload) == (2, 1, {"n": 1})


def test_what_the_agents_file_hands_over_is_repaired_too() -> None:
    rail = {"on": "handoff", "policy": "repair", "validator": "no_secrets"}
    world = {**TO_B, "agent": {"handoffs": [{"to": "b", "when": "auto"}]}}
    fixed = as_json(reason="completed", context="use the key")
    story = story_of(rail, said(f"use {KEY}"), repairs=[fixed], **world)
    assert (story.chain, handed_to_b(story).context) == (["a", "b"], "use the key")


@pytest.mark.parametrize("is_away", [False, True])
def test_the_result_of_a_tool_is_repaired_or_withheld_and_the_tool_runs_once(is_away: bool) -> None:
    ran: list[str] = []
    rail = {"on": "tool_output", "policy": "repair", "max_length": 8}
    repairs = [ModelUnavailable("busy", 0.0)] if is_away else [said("paint")]
    story = story_of(rail, PUT, said("done"), repairs=repairs, ran=ran)
    assert (ran, story.view.status) == (["c1"], "done")
    assert (story.results["c1"] == "paint", "withheld" in story.results["c1"]) == (not is_away, is_away)
    kinds = [type(record) for record in story.records]
    assert kinds.index(Guarded) < kinds.index(ToolFinished)


def test_what_another_agent_gives_back_is_repaired_between_its_marks() -> None:
    rail = {"on": "delegation", "policy": "repair", "validator": "no_secrets"}
    asks = calls(call("c1", "delegate_to_b", objective="look"))
    world: dict[str, Any] = {
        "agent": {"subagents": ["b"]},
        "others": [{"name": "b"}],
        "of_others": {"b": [said(f"It is {KEY}.")]},
    }
    story = story_of(rail, asks, said("ok"), repairs=[said("It is in the vault.")], **world)
    lines = story.results["c1"].splitlines()
    assert (lines[0].startswith("«fence"), lines[1], len(lines)) == (True, "It is in the vault.", 3)


def test_what_control_comes_back_with_is_read_as_it_was_repaired() -> None:
    rail = {"on": "delegation", "policy": "repair", "validator": "no_secrets"}
    world: dict[str, Any] = {
        "agent": {"handoffs": [{"to": "b", "return": True}, "c"]},
        "others": [{"name": "b"}, {"name": "c"}],
        "of_others": {"b": [said(f"It is {KEY}.")], "c": [said("done")]},
    }
    requests: list[ModelRequest] = []
    replies = [calls(handing_over("c1", "b")), calls(handing_over("c2", "c"))]
    story = story_of(rail, *replies, repairs=[said("It is in the vault.")], requests=requests, **world)
    assert story.chain == ["a", "b", "a", "c"]
    again = [request for request in requests if request.agent == "a"][-1]
    assert "It is in the vault." in text_of(again.messages)
    assert KEY not in text_of(again.messages)
