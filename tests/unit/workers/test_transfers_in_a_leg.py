"""Transfers within a leg: their order among tools, refusals and corrections, through the real runner and stores."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import HandedOff, Refused, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.calls.pipeline import ONE_ENDING
from tests.scenarios.relay import Relay, Story, on_server, team, text_of
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

TEAM = (
    {"name": "lead", "handoffs": ["helper", "writer"]},
    {"name": "helper", "handoffs": ["writer"], "tools": []},
    {"name": "writer"},
    {"name": "stranger"},
)


def led(
    replies: Sequence[Said], *agents: Mapping[str, Any], cycles: str = "parent", **others: Sequence[Said]
) -> tuple[Story, Replies]:
    """Run a job that begins with ``lead``; the other agents answer at once unless told otherwise."""
    model = Replies({"helper": [said("helped")], "writer": [said("written")], "lead": replies, **others})

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(*(agents or TEAM)), model, tools=[tool_named("look", read_only=True)], cycles=cycles)
        return await relay.told("do it", agent="lead")

    return on_server(scenario), model


@pytest.mark.parametrize("tool_first", [True, False])
def test_tools_run_before_the_transfer_whatever_their_order_in_the_reply(tool_first: bool) -> None:
    made = [call("c1", "look", what="x"), handing_over("c2", "helper")]
    story, _ = led([calls(*(made if tool_first else reversed(made)))])
    assert [record.type for record in story.records if record.leg == 1] == [
        "leg_started", "model_reply", "tool_started", "tool_result", "handoff"
    ]  # fmt: skip
    assert story.chain == ["lead", "helper"]
    assert story.view.result == "helped"


def test_of_two_transfers_the_first_counts_and_the_second_is_answered() -> None:
    story, _ = led([calls(handing_over("c1", "helper"), handing_over("c2", "writer"))])
    assert story.chain == ["lead", "helper"]
    [finished] = story.of(ToolFinished)
    assert (finished.result.call_id, finished.result.content, finished.forgotten) == ("c2", ONE_ENDING, True)
    assert story.of(HandedOff)[1].call_id == "c1"


def test_the_second_transfer_of_a_turn_is_never_shown_to_the_model_again() -> None:
    story, model = led([calls(handing_over("c1", "stranger"), handing_over("c2", "writer"), text="Go"), said("alone")])
    [_, request] = model.asked("lead")
    shown = text_of(request.messages)
    assert "c1" in shown
    assert "c2" not in shown
    assert ONE_ENDING not in shown
    assert story.view.result == "alone"


BAD: dict[str, tuple[ToolCall, str, str]] = {
    "one the file does not list": (handing_over("c1", "stranger"), "PERMISSION_DENIED", "'lead' may not"),
    "one that does not exist": (handing_over("c1", "wizard"), "UNKNOWN_AGENT", "'transfer_to_wizard'"),
    "the agent itself": (handing_over("c1", "lead"), "SELF_HANDOFF", "you are 'lead' yourself"),
    "no reason": (call("c1", "transfer_to_helper"), "BAD_ARGUMENTS", "transfer_to_helper needs a text as 'reason'"),
    "an empty reason": (call("c1", "transfer_to_helper", reason=" "), "BAD_ARGUMENTS", "'reason'"),
    "a reason that is no text": (call("c1", "transfer_to_helper", reason=["x"]), "BAD_ARGUMENTS", "'reason'"),
}


@pytest.mark.parametrize(("bad", "code", "words"), BAD.values(), ids=BAD.keys())
def test_a_refused_transfer_is_an_error_that_names_the_allowed_tools_and_the_model_corrects_itself(
    bad: ToolCall, code: str, words: str
) -> None:
    story, model = led([calls(bad), calls(handing_over("c2", "helper"))])
    [refused] = story.of(Refused)
    assert (refused.code, refused.call_id, refused.name) == (code, "c1", bad.name)
    [result] = model.asked("lead")[1].messages[-1].results
    assert result.is_error
    assert result.content == refused.message
    assert words in result.content
    assert "transfer_to_helper (agent 'helper'), transfer_to_writer (agent 'writer')" in result.content
    assert story.chain == ["lead", "helper"]


def test_an_agent_without_handoffs_is_told_to_finish_alone() -> None:
    story, _ = led([calls(handing_over("c1", "helper"))], writer=[calls(handing_over("c1", "lead")), said("alone")],
                   helper=[calls(handing_over("c1", "writer"))])  # fmt: skip
    [refused] = story.of(Refused)
    assert refused.code == "PERMISSION_DENIED"
    assert "You may hand over to nobody" in refused.message
    assert story.view.result == "alone"


@pytest.mark.parametrize("name", ["transfer_back_to_lead", "transfer_back_to_parent", "handoff_to_lead"])
def test_a_way_back_is_understood_by_the_names_that_others_give_it(name: str) -> None:
    helper = {"name": "helper", "transfer_to_parent": True}
    story, _ = led(
        [calls(handing_over("c1", "helper")), said("thanks")],
        {"name": "lead", "handoffs": ["helper"]},
        helper,
        helper=[calls(call("b1", name, reason="done"))],
    )
    assert (story.chain, story.view.result) == (["lead", "helper", "lead"], "thanks")


def test_a_name_that_is_refused_lists_all_that_is_offered() -> None:
    lead = {"name": "lead", "handoffs": ["helper"], "subagents": ["writer"], "output": {"name": "report"}}
    made = calls(call("c1", "loook"), call("c2", "transfer_to_nobody", reason="x"))
    story, model = led([made, said("done")], lead, {"name": "helper"}, {"name": "writer"})
    offered = [tool.name for tool in model.asked("lead")[0].tools]
    assert offered == ["look", "delegate_to_writer", "complete_task", "transfer_to_helper"]
    [refused] = story.of(Refused)
    for text in (story.results["c1"], refused.message):
        assert [name for name in offered if name not in text] == []
    assert "did you mean 'look'?" in story.results["c1"]


def test_a_namespace_before_the_tools_name_does_not_hide_the_transfer() -> None:
    story, _ = led([calls(call("c1", "default_api:transfer_to_helper", reason="go"))])
    assert story.chain == ["lead", "helper"]


def test_a_tool_of_the_agent_that_is_named_like_a_transfer_is_a_tool() -> None:
    async def scenario(stores: Stores) -> Story:
        model = Replies({"solo": [calls(call("c1", "bank.transfer_to_account", what="9 yen")), said("sent")]})
        relay = Relay(stores, team({"name": "solo"}), model, tools=[tool_named("bank.transfer_to_account")])
        return await relay.told("send it", agent="solo")

    story = on_server(scenario)
    assert story.results == {"c1": "bank.transfer_to_account(9 yen)"}
    assert story.view.result == "sent"


def test_the_targets_context_holds_the_arguments_and_further_arguments_are_ignored() -> None:
    made = handing_over("c1", "helper", context="看 cart.py", summary="found it", mood="good", priority=9)
    story, model = led([calls(made)])
    context = story.of(HandedOff)[1].context
    assert (context.from_agent, context.to_agent) == ("lead", "helper")
    assert (context.reason, context.context, context.summary) == ("helper should go on", "看 cart.py", "found it")
    assert context.metadata.handoff_chain == ("user", "lead", "helper")
    assert context.metadata.chain_depth == 1
    read = text_of(model.asked("helper")[0].messages)
    assert "Reason: helper should go on" in read
    assert "Context: 看 cart.py" in read


def test_a_context_that_is_no_text_reaches_the_target_as_json() -> None:
    made = handing_over("c1", "helper", context={"文件": ["cart.py"]}, summary=[])
    story, _ = led([calls(made)])
    context = story.of(HandedOff)[1].context
    assert json.loads(str(context.context)) == {"文件": ["cart.py"]}
    assert context.summary is None


def test_the_third_refusal_ends_the_leg() -> None:
    story, model = led([calls(handing_over(f"c{n}", "stranger")) for n in range(9)])
    assert len(model.requests) == 3
    assert (story.view.status, story.view.reason) == ("failed", "HANDOFF_REFUSED")
    assert story.codes == ["PERMISSION_DENIED"] * 3
    assert "3 transfers were refused" in str(story.end.error)
    assert "'lead' may not hand over to 'stranger'" in str(story.end.error)


def test_refusals_by_the_chain_count_like_the_others() -> None:
    agents = ({"name": "lead", "handoffs": ["helper"]}, {"name": "helper", "handoffs": ["lead"]})
    back = [calls(handing_over("c1", "nobody")), *(calls(handing_over(f"d{n}", "lead")) for n in range(9))]
    story, model = led([calls(handing_over("c1", "helper"))], *agents, helper=back)
    assert story.codes == ["UNKNOWN_AGENT", "CIRCULAR_HANDOFF", "CIRCULAR_HANDOFF"]
    assert story.view.reason == "HANDOFF_REFUSED"
    assert len(model.asked("helper")) == 3


def test_a_transfer_beyond_the_depth_is_refused_and_the_agent_finishes_alone() -> None:
    agents = (
        {"name": "lead", "handoffs": ["helper"], "limits": {"max_handoff_depth": 1}},
        {"name": "helper", "handoffs": ["writer"], "limits": {"max_handoff_depth": 1}},
        {"name": "writer"},
    )
    on: list[ModelReply] = [calls(handing_over("c1", "writer"), call("c2", "look")), said("alone then")]
    story, model = led([calls(handing_over("c1", "helper"))], *agents, helper=on)
    assert story.codes == ["MAX_DEPTH_EXCEEDED"]
    assert story.chain == ["lead", "helper"]
    assert story.view.result == "alone then"
    [refusal, result] = model.asked("helper")[1].messages[-1].results
    assert "may be handed over 1 times" in refusal.content
    assert (refusal.call_id, result.call_id) == ("c1", "c2")


def test_the_model_calls_before_a_refusal_by_the_chain_are_not_made_again() -> None:
    agents = ({"name": "lead", "handoffs": ["helper"]}, {"name": "helper", "handoffs": ["lead"]})
    story, model = led(
        [calls(handing_over("c1", "helper"))], *agents, helper=[calls(handing_over("c1", "lead")), said("mine")]
    )
    assert story.codes == ["CIRCULAR_HANDOFF"]
    assert len(model.asked("helper")) == 2
    assert [record.type for record in story.records if record.leg == 2] == [
        "leg_started", "model_reply", "handoff_refused", "model_reply", "ended"
    ]  # fmt: skip


def test_a_cycle_is_allowed_where_the_catalogs_policy_allows_it() -> None:
    agents = ({"name": "lead", "handoffs": ["helper"]}, {"name": "helper", "handoffs": ["lead"]})
    story, _ = led([calls(handing_over("c1", "helper")), said("done")], *agents, cycles="limit:2",
                   helper=[calls(handing_over("c1", "lead"))])  # fmt: skip
    assert story.chain == ["lead", "helper", "lead"]
    assert story.view.result == "done"


def test_a_target_that_calls_the_other_agents_tool_is_told_what_it_has() -> None:
    looked = [calls(call("c1", "look"), text="I look first"), calls(handing_over("c2", "helper"))]
    story, model = led(looked, helper=[calls(call("c3", "look")), said("helped")])
    assert "Tool not allowed for this agent: 'look'" in story.results["c3"]
    assert [spec.name for spec in model.asked("helper")[0].tools] == ["transfer_to_writer"]
    assert story.view.result == "helped"


def test_a_transfer_in_the_last_allowed_turn_is_carried_out() -> None:
    agents = ({"name": "lead", "handoffs": ["helper"], "limits": {"max_turns": 1}}, {"name": "helper"})
    story, _ = led([calls(handing_over("c1", "helper"))], *agents)
    assert story.view.result == "helped"
