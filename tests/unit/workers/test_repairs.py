"""A model repairs an answer that does not pass: twice at most, within the limits, and runs nothing a second time."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.errors import ModelError, ModelUnavailable
from ekiden.shared.messages import Usage
from ekiden.shared.records import Guarded, ModelReplied, Record, Repairing, StateChanged, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.repairs import REPAIRER
from tests.scenarios.relay import Relay, Story, on_server, team, text_of
from tests.unit.workers.helped import Helped
from tests.unit.workers.world import Said, call, calls, said, tool_named

SCHEMA = {"type": "object", "required": ["confidence"], "properties": {"confidence": {"type": "number", "maximum": 1}}}
RAIL = {"name": "valid-json", "schema": SCHEMA, "policy": "repair"}
GOOD, BAD, WORSE = '{"confidence": 0.5}', '{"confidence": "high"}', '{"confidence": 7}'
WITH_MAIL = '{"confidence": 0.5, "by": "ada@example.com"}'
STRUCTURED = {"complete_task": True, "output": {"name": "report", "schema": {"type": "object"}}}


def story_of(
    *repairs: Said,
    replies: Sequence[Said] = (said(BAD),),
    rails: Sequence[Mapping[str, Any]] = (RAIL,),
    agent: Mapping[str, Any] | None = None,
    lost: Sequence[Record] = (),
    requests: list[Any] | None = None,
    ran: list[str] | None = None,
) -> Story:
    async def scenario(stores: Stores) -> Story:
        model = Helped({"a": replies, "b": [said("from b")]}, {REPAIRER: repairs})
        catalog = team({"name": "a", "guardrails": rails, **(agent or {})}, {"name": "b"})
        relay = Relay(stores, catalog, model, tools=[tool_named("put", ran=ran)])
        job = await relay.submit("go", agent="a")
        await relay.step()
        if lost:
            await relay.lose(job, list(lost))
        await relay.drain()
        if requests is not None:
            requests.extend(request for request in model.requests if request.agent == REPAIRER)
        return await relay.story(job)

    return on_server(scenario)


def test_a_repaired_answer_is_given_and_the_original_stays_in_the_journal() -> None:
    requests: list[Any] = []
    story = story_of(said(GOOD), requests=requests)
    assert (story.view.status, story.view.result) == ("done", GOOD)
    assert [type(record).__name__ for record in story.records[-4:]] == ["ModelReplied", "Repairing", "Guarded", "Ended"]
    assert story.of(ModelReplied)[0].message.text == BAD
    [judged] = story.of(Guarded)
    assert (judged.status, judged.value) == ("repaired", GOOD)
    assert judged.errors == ("confidence: 'high' is not of type 'number'",)
    [request] = requests
    assert request.tools == ()
    shown = request.messages[0].text
    assert all(part in shown for part in (BAD, '"maximum": 1', "confidence: 'high' is not of type 'number'"))


def test_the_fence_that_models_put_round_code_is_no_part_of_the_answer() -> None:
    assert story_of(said(f"```json\n{GOOD}\n```")).view.result == GOOD


def test_a_second_try_is_told_what_is_wrong_with_the_first() -> None:
    requests: list[Any] = []
    story = story_of(said(WORSE), said(GOOD), requests=requests)
    assert (story.view.result, len(story.of(Repairing))) == (GOOD, 2)
    assert "7 is greater than the maximum of 1" in text_of(requests[1].messages)
    assert WORSE in requests[1].messages[0].text


def test_what_two_tries_do_not_repair_ends_the_job() -> None:
    story = story_of(said(WORSE), said("so sorry"), said(GOOD))
    assert (story.view.reason, len(story.of(Repairing)), story.end.answer) == ("GUARDRAIL", 2, None)
    assert "it is no JSON" in (story.end.error or "")


def test_an_object_is_repaired_as_one_and_so_are_the_variables_that_it_sets() -> None:
    agent = {**STRUCTURED, "output": {**STRUCTURED["output"], "state": {"sure": "confidence"}}}  # type: ignore[dict-item]
    done = [calls(call("c1", "complete_task", report={"confidence": 9}))]
    story = story_of(said(GOOD), replies=done, agent=agent)
    assert (story.end.output, json.loads(story.end.answer or "")) == ({"confidence": 0.5}, {"confidence": 0.5})
    assert [record.changes for record in story.of(StateChanged)] == [{"sure": 0.5}]


def test_a_repair_must_also_be_what_the_agents_file_declares_as_its_output() -> None:
    declared = {"type": "object", "required": ["why"]}
    agent = {"complete_task": True, "output": {"name": "report", "schema": declared}}
    done = [calls(call("c1", "complete_task", report={"confidence": 9, "why": "so"}))]
    story = story_of(said(GOOD), said('{"confidence": 1, "why": "so"}'), replies=done, agent=agent)
    assert (story.end.output, len(story.of(Repairing))) == ({"confidence": 1, "why": "so"}, 2)


def test_no_tool_runs_again() -> None:
    ran: list[str] = []
    story = story_of(said(GOOD), replies=[calls(call("c1", "put", what="x")), said(BAD)], ran=ran)
    assert (ran, len(story.of(ToolFinished)), story.view.result) == (["c1"], 1, GOOD)


@pytest.mark.parametrize("recorded", [1, 2])
def test_a_try_that_a_lost_worker_has_made_is_not_made_again(recorded: int) -> None:
    reply = ModelReplied(leg=1, turn=1, message=said(BAD).message, withheld=True)
    tries = [Repairing(leg=1, at="output", rail="valid-json", turn=1, text=text) for text in (WORSE, GOOD)[:recorded]]
    story = story_of(*([said(GOOD)] if recorded == 1 else []), lost=[reply, *tries])
    assert (story.view.result, len(story.of(Repairing))) == (GOOD, 2)


def test_what_was_repaired_when_the_worker_was_lost_is_not_repaired_again() -> None:
    reply = ModelReplied(leg=1, turn=1, message=said(BAD).message, withheld=True)
    judged = {"at": "output", "rail": "valid-json", "policy": "repair", "status": "repaired", "value": GOOD, "turn": 1}
    assert story_of(lost=[reply, Guarded.model_validate({"leg": 1, **judged})]).view.result == GOOD


def test_a_repair_counts_as_a_turn_and_so_do_its_tokens() -> None:
    short = story_of(said(GOOD), agent={"limits": {"max_turns": 1}})
    assert (short.view.reason, short.of(Repairing)) == ("GUARDRAIL", [])
    assert story_of(said(GOOD), agent={"limits": {"max_turns": 2}}).view.result == GOOD
    dear = said(WORSE).model_copy(update={"usage": Usage(output_tokens=100)})
    story = story_of(dear, said(GOOD), agent={"limits": {"max_tokens": 50}})
    assert (story.view.reason, len(story.of(Repairing))) == ("GUARDRAIL", 1)


def test_what_a_repair_costs_counts_as_the_agents() -> None:
    reply = ModelReplied(leg=1, turn=1, message=said(BAD).message, withheld=True)
    dear = Repairing(leg=1, at="output", rail="valid-json", turn=1, text=WORSE, cost_usd=2.0)
    story = story_of(said(GOOD), lost=[reply, dear], agent={"limits": {"max_cost_usd": 1}})
    assert (story.view.reason, len(story.of(Repairing))) == ("GUARDRAIL", 1)


def test_where_the_model_is_away_the_leg_waits_and_where_it_fails_nothing_passes() -> None:
    assert story_of(ModelError("it breaks")).view.reason == "GUARDRAIL"
    waiting = story_of(ModelUnavailable("busy", 0.0), said(GOOD))
    assert waiting.view.status in ("suspended", "done")


def test_the_next_guardrail_looks_at_what_was_repaired() -> None:
    rails: list[Mapping[str, Any]] = [RAIL, {"name": "short", "max_length": 5}]
    story = story_of(said(GOOD), rails=rails)
    assert [(one.rail, one.status) for one in story.of(Guarded)] == [("valid-json", "repaired"), ("short", "failed")]


@pytest.mark.parametrize("policy", ["reject", "warn"])
def test_a_repair_must_also_pass_what_has_let_the_original_pass(policy: str) -> None:
    requests: list[Any] = []
    rails: list[Mapping[str, Any]] = [{"name": "no_pii", "validator": "custom", "policy": policy}, RAIL]
    story = story_of(said(WITH_MAIL), said(GOOD), rails=rails, requests=requests)
    assert (story.view.result, len(requests)) == ((GOOD, 2) if policy == "reject" else (WITH_MAIL, 1))
    if policy == "reject":
        assert "it holds a mail address" in text_of(requests[1].messages)
        never = story_of(said(WITH_MAIL), said(WITH_MAIL), rails=rails)
        assert (never.view.reason, never.end.answer) == ("GUARDRAIL", None)


def test_a_repaired_answer_is_what_goes_on_to_the_next_agent() -> None:
    story = story_of(said(GOOD), agent={"handoffs": [{"to": "b", "when": "auto"}]})
    assert story.chain == ["a", "b"]
