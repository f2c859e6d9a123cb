"""A guardrail with the policy ``ask``: a person decides what does not pass, once; who says nothing denies it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply
from ekiden.shared.records import ApprovalAsked, Guarded, HandedOff, Refused, StateChanged
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_approvals import CONFIRMED, Stage
from tests.unit.workers.world import Replies, call, calls, handing_over, said

SHORT = {"name": "short", "max_length": 3, "policy": "ask"}
LONG = "the whole: it has 5 characters, 3 are the most"
FEW = {"name": "few", "on": "tool_input", "policy": "ask", "schema": {"properties": {"what": {"maxLength": 3}}}}
WRITE = calls(call("w1", "write", what="paint"))
EDGES = {"handoffs": ["child"]}


def with_stage(
    what: Callable[[Stage], Awaitable[None]], *replies: ModelReply, agent: Mapping[str, Any] | None = None, rail: Any
) -> Story:
    async def scenario(stores: Stores) -> Story:
        stage = await Stage(stores, replies, {"guardrails": [rail], **(agent or {})}).begun()
        await what(stage)
        return await stage.story()

    return on_server(scenario)


async def approve(stage: Stage) -> None:
    await stage.say(1)


async def deny(stage: Stage) -> None:
    await stage.say(1, "denied", why="no")


async def wait_in_vain(stage: Stage) -> None:
    await stage.expire()


async def nothing(stage: Stage) -> None:
    pass


def test_an_answer_waits_for_a_person_who_reads_it_and_what_is_wrong_with_it() -> None:
    story = with_stage(nothing, said("paint"), rail=SHORT)
    [asked] = story.of(ApprovalAsked)
    assert (story.view.status, asked.tool, asked.args) == ("suspended", "answer", {"answer": "paint"})
    assert (asked.reason, asked.rule) == (f"{LONG} (guardrail short)", "guardrails")
    kinds = [type(record).__name__ for record in story.records[-4:]]
    assert kinds == ["ModelReplied", "Guarded", "ApprovalAsked", "LegSuspended"]


def test_one_that_is_let_pass_is_given_and_neither_judged_nor_asked_about_again() -> None:
    story = with_stage(approve, said("paint"), rail=SHORT)
    assert (story.view.status, story.view.result) == ("done", "paint")
    assert ([one.status for one in story.of(Guarded)], len(story.of(ApprovalAsked))) == (["asked"], 1)


@pytest.mark.parametrize("how", [deny, wait_in_vain])
def test_one_that_nobody_lets_pass_ends_the_job(how: Callable[[Stage], Awaitable[None]]) -> None:
    story = with_stage(how, said("paint"), rail=SHORT)
    assert (story.view.reason, story.end.answer) == ("GUARDRAIL", None)
    assert (
        story.end.error
        == f"Guardrail violation: short (agent 'solo', its answer), and no person has let it pass: {LONG}"
    )


def test_a_person_may_put_another_answer_in_its_place_but_no_other_kind_of_thing() -> None:
    async def change(stage: Stage) -> None:
        await stage.say(1, edited={"answer": "ink"})

    async def spoil(stage: Stage) -> None:
        await stage.say(1, edited={"answer": 7})

    assert with_stage(change, said("paint"), rail=SHORT).view.result == "ink"
    assert with_stage(spoil, said("paint"), rail=SHORT).view.reason == "GUARDRAIL"


def test_a_structured_answer_is_shown_as_it_is_and_sets_variables_only_when_it_was_let_pass() -> None:
    agent = {
        "complete_task": True,
        "output": {"name": "report", "schema": {"type": "object"}, "state": {"sure": "sure"}},
    }
    rail = {"name": "sure", "schema": {"properties": {"sure": {"maximum": 1}}}, "policy": "ask"}
    done = calls(call("c1", "complete_task", report={"sure": 2}))
    assert with_stage(nothing, done, agent=agent, rail=rail).of(StateChanged) == []
    story = with_stage(approve, done, agent=agent, rail=rail)
    assert (story.end.output, [one.changes for one in story.of(StateChanged)]) == ({"sure": 2}, [{"sure": 2}])
    assert story.of(ApprovalAsked)[0].args == {"answer": {"sure": 2}}


def test_a_call_runs_when_a_person_has_let_its_arguments_pass_and_another_is_asked_about_anew() -> None:
    async def approve_both(stage: Stage) -> None:
        assert stage.ran == []
        await stage.say(1, always_for_job=True)
        assert stage.ran == ["w1"]
        await stage.say(2)
        assert stage.ran == ["w1", "w2"]

    again = calls(call("w2", "write", what="pencil"))
    story = with_stage(approve_both, WRITE, again, said("done"), rail=FEW)
    assert story.of(ApprovalAsked)[0].reason == "what: 'paint' is too long (guardrail few)"
    assert story.view.status == "done"


def test_a_rule_and_a_guardrail_that_want_the_same_call_approved_are_one_question() -> None:
    story = with_stage(approve, WRITE, said("done"), agent=CONFIRMED, rail=FEW)
    [asked] = story.of(ApprovalAsked)
    assert asked.rule == "confirmation of agent 'solo'"
    assert asked.reason.endswith("what: 'paint' is too long (guardrail few)")
    assert story.view.status == "done"


@pytest.mark.parametrize("how", [deny, wait_in_vain])
def test_a_call_that_nobody_lets_pass_does_not_run_and_the_agent_is_told(
    how: Callable[[Stage], Awaitable[None]],
) -> None:
    story = with_stage(how, WRITE, said("then not"), rail=FEW)
    assert (story.view.result, "Tool execution denied by user: write" in story.results["w1"]) == ("then not", True)


def test_a_handoff_waits_and_goes_on_or_is_refused_as_the_person_says() -> None:
    rail = {"name": "no_secrets", "on": "handoff", "validator": "custom", "policy": "ask"}
    handing = calls(call("h1", "transfer_to_child", reason="password=hunter2222"))
    story = with_stage(approve, handing, agent=EDGES, rail=rail)
    assert (story.of(ApprovalAsked)[0].tool, story.chain[-1]) == ("transfer_to_child", "child")
    story = with_stage(deny, handing, said("then not"), agent=EDGES, rail=rail)
    assert (story.chain, story.view.result, story.of(Refused)) == (["solo"], "then not", [])


def test_a_person_may_put_other_words_in_the_place_of_a_handoffs() -> None:
    async def change(stage: Stage) -> None:
        await stage.say(1, edited={"reason": "use the vault"})

    rail = {"name": "no_secrets", "on": "handoff", "validator": "custom", "policy": "ask"}
    handing = calls(call("h1", "transfer_to_child", reason="password=hunter2222"))
    story = with_stage(change, handing, agent=EDGES, rail=rail)
    assert story.of(HandedOff)[-1].context.reason == "use the vault"


@pytest.mark.parametrize("is_let", [True, False])
def test_what_the_agents_file_hands_over_waits_as_well(is_let: bool) -> None:
    rail = {"name": "short", "on": "handoff", "max_length": 3, "policy": "ask"}
    auto = {"handoffs": [{"to": "child", "when": "auto"}]}
    story = with_stage(approve if is_let else deny, said("paint"), agent=auto, rail=rail)
    assert story.of(ApprovalAsked)[0].args == {"reason": "completed", "context": "paint"}
    assert (story.chain[-1], story.view.reason == "GUARDRAIL") == ("child" if is_let else "solo", not is_let)


@pytest.mark.parametrize(
    ("rail", "reply"),
    [
        (SHORT, said("paint")),
        (FEW, calls(call("w1", "look", what="paint"))),
        ({**SHORT, "on": "handoff"}, calls(handing_over("h1", "child"))),
    ],
)
def test_where_nobody_is_to_be_asked_nothing_is_let_pass(rail: Any, reply: ModelReply) -> None:
    async def scenario(stores: Stores) -> Story:
        agent = {"name": "solo", "guardrails": [rail], **EDGES}
        relay = Relay(stores, team(agent, {"name": "child"}), Replies({"solo": [reply, said("ok")], "child": []}))
        job = await relay.submit("go", agent="solo", when_asked="deny")
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.of(ApprovalAsked), story.chain) == ([], ["solo"])
    assert story.view.status == ("failed" if rail is SHORT else "done")
