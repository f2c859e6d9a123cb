"""Guardrails at what goes from hand to hand: arguments, results, handoffs, what other agents give back."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.errors import ToolError
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.records import (
    ApprovalAsked,
    Delegated,
    Guarded,
    ModelReplied,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.live import Live
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import ToolContext, ToolQuestion
from tests.scenarios.relay import ASKS_NOBODY, Relay, Story, on_server, team, text_of
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import Replies, Said, What, call, calls, handing_over, said, tool_named

Rail = Mapping[str, Any]
SHORT = {"schema": {"type": "object", "properties": {"what": {"maxLength": 3}}}}
KEY = "sk-proj-0123456789abcdef0123"


def story_of(
    rail: Rail,
    *replies: Said,
    agent: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    of_others: Mapping[str, Sequence[Said]] | None = None,
    hooks: Sequence[Saying] = (),
    lost: Sequence[Record] = (),
    validators: Mapping[str, Any] | None = None,
    ran: list[str] | None = None,
    requests: list[Any] | None = None,
) -> Story:
    """What becomes of a job of an agent with a guardrail."""

    async def scenario(stores: Stores) -> Story:
        model = Replies({"a": replies, **(of_others or {})})
        catalog = team({"name": "a", "guardrails": [{"name": "rail", **rail}], **(agent or {})}, *others)
        tools = [tool_named("put", ran=ran), tool_named("look", read_only=True, ran=ran)]
        tools += [tool_named("fail", _fail), tool_named("ask", _ask)]
        relay = Relay(stores, catalog, model, tools=tools, hooks=hooks, validators=validators, policy=ASKS_NOBODY)
        job = await relay.submit("go", agent="a", when_asked="deny")
        await relay.step()
        if lost:
            await relay.lose(job, list(lost))
        await relay.drain()
        if requests is not None:
            requests.extend(model.requests)
        return await relay.story(job)

    return on_server(scenario)


async def _fail(args: What, context: ToolContext) -> str:
    raise ToolError(args.what)


async def _ask(args: What, context: ToolContext) -> str:
    raise ToolQuestion(args.what)


def put(call_id: str, what: str) -> Said:
    return calls(call(call_id, "put", what=what))


def test_arguments_that_do_not_pass_run_nothing_and_the_model_mends_them() -> None:
    ran: list[str] = []
    requests: list[Any] = []
    rail = {"on": "tool_input", **SHORT}
    story = story_of(rail, put("c1", "paint"), put("c2", "ink"), said("done"), ran=ran, requests=requests)
    assert (story.view.status, ran) == ("done", ["c2"])
    assert "the guardrail 'rail' does not let these arguments pass:\n- what: 'paint' is too long" in story.results["c1"]
    assert [(one.at, one.call_id, one.status) for one in story.of(Guarded)] == [
        ("tool_input", "c1", "failed"),
        ("tool_input", "c2", "passed"),
    ]
    assert "does not let these arguments pass" in text_of(requests[1].messages)


def test_a_judgement_stands_in_front_of_the_call_that_it_lets_pass() -> None:
    story = story_of({"on": "tool_input", **SHORT}, put("c1", "ink"), said("done"))
    kinds = [type(record) for record in story.records]
    assert kinds.index(Guarded) < kinds.index(ToolStarted)


def test_three_turns_that_do_not_pass_end_the_leg() -> None:
    three = [put(f"c{n}", "paint") for n in range(3)]
    story = story_of({"on": "tool_input", **SHORT}, *three, said("never"))
    assert (story.view.status, story.view.reason, len(story.of(ToolFinished))) == ("failed", "GUARDRAIL", 3)
    assert "Guardrail violation: rail (agent 'a', tool input), in 3 turns; the last: what: 'paint'" in (
        story.end.error or ""
    )


def test_several_calls_of_one_turn_are_one_violation() -> None:
    four = calls(*(call(f"c{n}", "put", what="paint") for n in range(4)))
    assert story_of({"on": "tool_input", **SHORT}, four, said("done")).view.status == "done"


def test_a_guardrail_for_some_tools_looks_at_no_other() -> None:
    both = calls(call("c1", "put", what="paint"), call("c2", "look", what="paint"))
    story = story_of({"on": "tool_input", "tools": ["lo*"], **SHORT}, both, said("done"))
    assert [record.call_id for record in story.of(Guarded)] == ["c2"]
    assert story.results["c1"] == "put(paint)"


def test_arguments_are_judged_as_hooks_have_made_them() -> None:
    hook = Saying("BeforeTool", lambda event: HookReply(args={"what": "paint"}))
    story = story_of({"on": "tool_input", **SHORT}, put("c1", "ink"), said("done"), hooks=[hook])
    assert "does not let these arguments pass" in story.results["c1"]


def test_nobody_is_asked_to_approve_what_does_not_pass() -> None:
    agent = {"confirmation": {"require": ["put"]}}
    story = story_of({"on": "tool_input", **SHORT}, put("c1", "paint"), said("done"), agent=agent)
    assert (story.view.status, story.of(ApprovalAsked)) == ("done", [])


def test_a_warning_lets_the_call_run() -> None:
    story = story_of({"on": "tool_input", "policy": "warn", **SHORT}, put("c1", "paint"), said("done"))
    assert (story.results["c1"], [one.status for one in story.of(Guarded)]) == ("put(paint)", ["warned"])


def test_a_result_that_does_not_pass_is_withheld_and_is_nowhere_in_the_journal() -> None:
    requests: list[Any] = []
    rail = {"on": "tool_output", "validator": "no_secrets"}
    story = story_of(rail, calls(call("c1", "look", what="x")), said("done"), requests=requests)
    assert story.results["c1"] == "look(x)"
    hook = Saying("AfterTool", lambda event: HookReply(result=f"key {KEY}"))
    story = story_of(rail, calls(call("c1", "look", what="x")), said("done"), hooks=[hook], requests=requests)
    assert "The result is withheld: the guardrail 'rail' does not let it pass:" in story.results["c1"]
    assert not any(KEY in record.model_dump_json() for record in story.records)
    assert not any(KEY in text_of(request.messages) for request in requests)


@pytest.mark.parametrize("tool", ["fail", "ask"])
def test_what_a_tool_says_in_place_of_a_result_is_judged_too_and_not_its_form(tool: str) -> None:
    for validator, withheld in (("no_secrets", True), ("json", False)):
        requests: list[Any] = []
        rail = {"on": "tool_output", "validator": validator, "schema": {"type": "object"}}
        story = story_of(rail, calls(call("c1", tool, what=f"no {KEY}")), said("done"), requests=requests)
        assert story.results["c1"].startswith("The result is withheld: the guardrail 'rail'") == withheld
        assert any(KEY in part.content for part in requests[1].messages[-1].results) == (not withheld)
        assert any(isinstance(one, ToolFinished) and KEY in one.result.content for one in story.records) != withheld


@pytest.mark.parametrize(("tools", "shown"), [(["look"], ["half of it"]), (["put"], [])])
def test_nobody_sees_a_result_grow_that_is_still_to_be_judged(
    tools: list[str], shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Live, "show", lambda _, call_id, text: seen.append(text))

    async def write(args: What, context: ToolContext) -> str:
        context.write("half of it")
        await asyncio.sleep(0)  # the event loop takes it to those who follow the job
        return "whole"

    async def scenario(stores: Stores) -> None:
        rail = {"name": "rail", "on": "tool_output", "validator": "no_secrets", "tools": tools}
        model = Replies({"a": [put("c1", "ink"), said("done")]})
        catalog = team({"name": "a", "guardrails": [rail]})
        await Relay(stores, catalog, model, tools=[tool_named("put", write)], is_live=True).told("go", agent="a")

    on_server(scenario)
    assert seen == shown


def test_results_that_come_side_by_side_are_each_judged() -> None:
    many = calls(*(call(f"c{n}", "look", what="paint" if n % 2 else "ink") for n in range(6)))
    story = story_of({"on": "tool_output", "max_length": 9}, many, said("done"))
    assert {one.call_id: one.status for one in story.of(Guarded)} == {
        f"c{n}": "failed" if n % 2 else "passed" for n in range(6)
    }
    assert [found.startswith("The result is withheld") for found in story.results.values()].count(True) == 3


def test_a_call_that_a_lost_worker_had_judged_and_begun_is_not_judged_again() -> None:
    asked: list[Any] = []
    turn = calls(call("c1", "look", what="paint"))
    judged = {"at": "tool_input", "rail": "rail", "policy": "warn", "status": "warned", "turn": 1, "call_id": "c1"}
    lost: list[Record] = [
        ModelReplied(leg=1, turn=1, message=turn.message),
        Guarded.model_validate({"leg": 1, **judged}),
    ]
    rail = {"on": "tool_input", "policy": "warn", "validator": "custom"}
    story = story_of(rail, turn, said("done"), lost=lost, validators={"rail": asked.append})
    assert (story.results["c1"], asked) == ("look(paint)", [])


HANDOFF = {"handoffs": [{"to": "b", "payload": {"type": "object", "properties": {"n": {"type": "integer"}}}}]}


def test_a_handoff_that_does_not_pass_is_refused_and_the_model_mends_it() -> None:
    rail = {"on": "handoff", "schema": {"properties": {"n": {"maximum": 5}}}}
    first, second = (calls(handing_over(f"c{n}", "b", n=n)) for n in (9, 1))
    story = story_of(rail, first, second, agent=HANDOFF, others=[{"name": "b"}], of_others={"b": [said("ok")]})
    assert (story.chain, story.codes, story.view.status) == (["a", "b"], ["GUARDRAIL"], "done")
    assert "the guardrail 'rail' does not let it pass:\n- n: 9 is greater than" in story.of(Refused)[0].message


def test_the_words_of_a_handoff_are_judged_too_and_three_end_the_leg() -> None:
    rail = {"on": "handoff", "validator": "no_secrets"}
    three = [calls(call(f"c{n}", "transfer_to_b", reason=f"use {KEY}")) for n in range(3)]
    story = story_of(rail, *three, agent=HANDOFF, others=[{"name": "b"}])
    assert (story.chain, story.view.reason, story.codes) == (["a"], "GUARDRAIL", ["GUARDRAIL"] * 3)


def test_a_handoff_of_the_agents_file_that_does_not_pass_ends_the_job() -> None:
    agent = {"handoffs": [{"to": "b", "when": "auto"}]}
    rail = {"on": "handoff", "validator": "no_secrets"}
    others = [{"name": "b"}]
    assert story_of(rail, said("fine"), agent=agent, others=others, of_others={"b": [said("ok")]}).chain == ["a", "b"]
    story = story_of(rail, said(f"use {KEY}"), agent=agent, others=others)
    assert (story.chain, story.view.reason) == (["a"], "GUARDRAIL")


@pytest.mark.parametrize("tools", [["b"], ["delegate_to_b"], ["other"]])
def test_what_another_agent_gives_back_is_judged_by_the_one_that_called_it(tools: list[str]) -> None:
    rail = {"on": "delegation", "validator": "no_secrets", "tools": tools}
    asks = calls(call("c1", "delegate_to_b", objective="look"))
    of_others = {"b": [said(f"it is {KEY}")]}
    story = story_of(rail, asks, said("ok"), agent={"subagents": ["b"]}, others=[{"name": "b"}], of_others=of_others)
    withheld = story.results["c1"].startswith("The result is withheld: the guardrail 'rail'")
    assert (story.view.status, withheld) == ("done", tools != ["other"])


def test_the_word_of_another_agent_that_it_has_nothing_to_give_is_judged_too() -> None:
    asks = calls(call("c1", "delegate_to_b", objective="look"))
    other = {"name": "b", "complete_task": True}
    for why, withheld in (("no logs there", False), (f"no logs, but {KEY}", True)):
        story = story_of(
            {"on": "delegation", "validator": "no_secrets", "schema": {"type": "object"}},
            asks,
            said("ok"),
            agent={"subagents": ["b"]},
            others=[other],
            of_others={"b": [calls(call("c2", "complete_task", status="unfinished", why=why))]},
        )
        assert (story.results["c1"].startswith("The result is withheld"), story.view.status) == (withheld, "done")


def test_what_another_agent_gives_back_is_judged_without_the_marks_round_it() -> None:
    schema = {"type": "object", "required": ["n"]}
    asks = calls(call("c1", "delegate_to_b", objective="look"))
    for answer, withheld in (('{"n": 1}', False), ("{}", True)):
        story = story_of(
            {"on": "delegation", "schema": schema},
            asks,
            said("ok"),
            agent={"subagents": ["b"]},
            others=[{"name": "b"}],
            of_others={"b": [said(answer)]},
        )
        assert story.results["c1"].startswith("The result is withheld") == withheld


def test_the_arguments_of_a_call_of_another_agent_are_arguments() -> None:
    rail = {"on": "tool_input", "validator": "no_secrets"}
    asks = calls(call("c1", "delegate_to_b", objective=f"use {KEY}"))
    story = story_of(rail, asks, said("ok"), agent={"subagents": ["b"]}, others=[{"name": "b"}])
    assert (story.of(Delegated), story.view.status) == ([], "done")


def test_what_control_comes_back_with_is_judged_as_what_is_given_back() -> None:
    rail = {"on": "delegation", "validator": "no_secrets"}
    agent, others = {"handoffs": [{"to": "b", "return": True}]}, [{"name": "b"}]
    for answer, status in (("fine", "done"), (f"it is {KEY}", "failed")):
        replies = [calls(handing_over("c1", "b")), said("ok")]
        story = story_of(rail, *replies, agent=agent, others=others, of_others={"b": [said(answer)]})
        assert story.view.status == status


def test_the_word_with_which_control_comes_back_without_an_answer_is_judged_too() -> None:
    agent, others = {"handoffs": [{"to": "b", "return": True}]}, [{"name": "b", "complete_task": True}]
    for why, status in (("no logs there", "done"), (f"no logs, but {KEY}", "failed")):
        replies = [calls(handing_over("c1", "b")), said("ok")]
        gives_up = [calls(call("c2", "complete_task", status="unfinished", why=why))]
        rail = {"on": "delegation", "validator": "no_secrets", "schema": {"type": "object"}}
        story = story_of(rail, *replies, agent=agent, others=others, of_others={"b": gives_up})
        assert story.view.status == status
