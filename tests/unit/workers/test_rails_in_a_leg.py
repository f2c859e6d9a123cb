"""Guardrails in a leg: they judge what it is asked and what it answers, once, recorded before the effect."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import UnreadableDefinition
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.records import Guarded, HandedOff, ModelReplied, Noticed, Record, StateChanged, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.rails import NOT_PASSED, PROVISIONAL
from tests.scenarios.relay import Relay, Story, on_server, team, text_of
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import Replies, Said, call, calls, said, tool_named

Rail = Mapping[str, Any]
Validate = Callable[[Any], Any]

SCHEMA = {"type": "object", "required": ["confidence"], "properties": {"confidence": {"type": "number", "maximum": 1}}}
VALID: Rail = {"name": "valid-json", "schema": SCHEMA}
GOOD, BAD = '{"confidence": 0.5}', '{"confidence": "high"}'
FAULT = "confidence: 'high' is not of type 'number'"


def story_of(
    rail: Rail | Sequence[Rail],
    *replies: Said,
    prompt: str = "go",
    given: dict[str, Any] | None = None,
    validator: Validate | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    hooks: Sequence[Saying] = (),
    lost: Sequence[Record] = (),
    retried_with: Sequence[Said] = (),
    requests: list[Any] | None = None,
    agent: Mapping[str, Any] = {},  # nobody writes it
    **world: Any,
) -> Story:
    """What becomes of a job of an agent with guardrails; ``lost``: what a lost worker has recorded.

    ``world``: see ``Relay``.
    """
    rails = rail if isinstance(rail, Mapping) and "name" not in rail else [rail] if isinstance(rail, Mapping) else rail

    async def scenario(stores: Stores) -> Story:
        model = Replies({"a": [*(replies or [said(GOOD)]), *retried_with], "b": [said("from b")]})
        catalog = team({"name": "a", "guardrails": rails, **agent}, *others)
        validators = {"mine": validator} if validator else {}
        relay = Relay(stores, catalog, model, tools=[tool_named("look")], hooks=hooks, validators=validators, **world)
        job = await relay.submit(prompt, agent="a", inputs=given)
        await relay.step()
        if lost:
            await relay.lose(job, list(lost))
        async with asyncio.timeout(60):
            await relay.drain()
            if retried_with:
                await relay.retry(job)
        if requests is not None:
            requests.extend(model.requests)
        return await relay.story(job)

    return on_server(scenario)


def verdicts(story: Story) -> list[tuple[str, str, str]]:
    return [(record.at, record.rail, record.status) for record in story.of(Guarded)]


def test_an_answer_that_passes_is_given_and_the_judgement_stands_before_it() -> None:
    story = story_of(VALID)
    assert (story.view.status, story.view.result) == ("done", GOOD)
    assert [type(record).__name__ for record in story.records[-3:]] == ["ModelReplied", "Guarded", "Ended"]
    assert verdicts(story) == [("output", "valid-json", "passed")]


def test_an_answer_that_does_not_pass_ends_the_job_and_is_nowhere_but_in_the_reply() -> None:
    story = story_of(VALID, said(BAD))
    assert (story.view.status, story.view.reason, story.end.answer) == ("failed", "GUARDRAIL", None)
    assert story.end.error == f"Guardrail violation: valid-json (agent 'a', its answer): {FAULT}"
    [judged] = story.of(Guarded)
    assert (judged.status, judged.policy, judged.errors) == ("failed", "reject", (FAULT,))


def test_a_warning_lets_it_go_on() -> None:
    story = story_of({**VALID, "policy": "warn"}, said(BAD))
    assert (story.view.status, story.view.result) == ("done", BAD)
    assert verdicts(story) == [("output", "valid-json", "warned")]


@pytest.mark.parametrize("text", ["no JSON", f"```json\n{GOOD}\n```", f"Here: {GOOD}"])
def test_words_round_the_json_do_not_pass(text: str) -> None:
    assert "it is no JSON" in (story_of(VALID, said(text)).end.error or "")


def test_a_text_is_judged_as_such_by_a_schema_of_texts() -> None:
    numbers = {"name": "digits", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
    assert story_of(numbers, said("123")).view.status == "done"
    assert story_of(numbers, said("12 3")).view.reason == "GUARDRAIL"


def test_the_single_object_of_other_files_means_the_same_and_formats_are_checked() -> None:
    schema = {"type": "object", "properties": {"email": {"type": "string", "format": "email"}}}
    single = {"output_schema": schema, "on_failure": "reject", "custom_validator": "mine"}
    good, bad = '{"email": "ada@example.com"}', '{"email": "ada"}'
    assert story_of(single, said(good), validator=lambda _: None).view.status == "done"
    assert "'ada' is not a 'email'" in (story_of(single, said(bad), validator=lambda _: None).end.error or "")
    assert "too old" in (story_of(single, said(good), validator=lambda _: "too old").end.error or "")


def test_what_the_agent_is_asked_is_judged_before_its_model_is() -> None:
    requests: list[Any] = []
    rail = {"name": "no_pii", "validator": "custom", "on": "input"}
    story = story_of(rail, prompt="Call 13812345678", requests=requests)
    assert (story.view.reason, requests, story.of(ModelReplied)) == ("GUARDRAIL", [], [])
    assert "it holds a telephone number (line 1)" in (story.end.error or "")
    assert verdicts(story_of(rail, prompt="Call Ada")) == [("input", "no_pii", "passed")]


def test_a_schema_of_the_input_looks_at_what_it_is_called_with() -> None:
    rail = {"name": "few", "on": "input", "schema": {"properties": {"n": {"maximum": 5}}}}
    declared = {"inputs": {"n": {"type": "integer"}}}
    assert story_of(rail, given={"n": 4}, agent=declared).view.status == "done"
    assert story_of(rail, given={"n": 6}, agent=declared).view.reason == "GUARDRAIL"


def test_what_was_handed_over_is_the_input_of_the_next_agent() -> None:
    rail = {"name": "no_secrets", "validator": "custom", "on": "input"}
    edge = {"to": "b", "payload": {"type": "object", "properties": {"key": {"type": "string"}}}}
    handing = calls(call("c1", "transfer_to_b", reason="go on", key="sk-proj-0123456789abcdef0123"))
    story = story_of([], handing, agent={"handoffs": [edge]}, others=[{"name": "b", "guardrails": [rail]}])
    assert (story.chain, story.view.reason) == (["a", "b"], "GUARDRAIL")
    assert "agent 'b', what it was asked" in (story.end.error or "")


def test_the_request_is_the_input_also_of_an_agent_that_gets_it_by_a_handoff() -> None:
    requests: list[Any] = []
    other = {"name": "b", "guardrails": [{"name": "no_pii", "validator": "custom", "on": "input"}]}
    handing, agent = calls(call("c1", "transfer_to_b", reason="go on")), {"handoffs": ["b"], "inputs": {"n": {}}}
    for prompt, given in (("Call 13812345678", None), ("Call Ada", {"n": "13812345678"})):
        story = story_of([], handing, prompt=prompt, given=given, agent=agent, others=[other], requests=requests)
        assert (story.chain, story.view.reason) == (["a", "b"], "GUARDRAIL")
    assert {request.agent for request in requests} == {"a"}
    assert story_of([], handing, prompt="Call Ada", agent=agent, others=[other]).view.status == "done"


def test_a_structured_answer_is_judged_as_the_object_that_it_is() -> None:
    agent = {"complete_task": True, "output": {"name": "report", "schema": {"type": "object"}}}
    done, bad = (calls(call("c1", "complete_task", report=report)) for report in ({"confidence": 1}, {"confidence": 2}))
    assert story_of(VALID, done, agent=agent).end.output == {"confidence": 1}
    assert "confidence: 2 is greater than the maximum of 1" in (story_of(VALID, bad, agent=agent).end.error or "")


def test_the_word_that_there_is_no_answer_needs_no_form_but_holds_no_secrets_either() -> None:
    agent = {"complete_task": True, "output": {"name": "report", "schema": {"type": "object"}}}
    rails: list[Rail] = [VALID, {"name": "json", "validator": "custom"}, {"name": "no_secrets", "validator": "custom"}]
    for why, status in (("no logs there", "unfinished"), ("password=hunter2222", "failed")):
        story = story_of(rails, calls(call("c1", "complete_task", status="unfinished", why=why)), agent=agent)
        assert story.view.status == status


def test_only_an_answer_that_passes_sets_variables_of_the_session() -> None:
    output = {"name": "report", "schema": {"type": "object"}, "state": {"sure": "confidence"}}
    for value, changes in ((1, [{"sure": 1}]), (2, [])):
        done = calls(call("c1", "complete_task", report={"confidence": value}))
        story = story_of(VALID, done, agent={"complete_task": True, "output": output})
        assert [record.changes for record in story.of(StateChanged)] == changes


def test_the_first_guardrail_that_rejects_is_the_last_that_is_asked() -> None:
    rails: list[Rail] = [
        {"name": "short", "max_length": 3, "policy": "warn"},
        VALID,
        {"name": "json", "validator": "custom"},
    ]
    assert verdicts(story_of(rails, said("none"))) == [
        ("output", "short", "warned"),
        ("output", "valid-json", "failed"),
    ]


def test_guardrails_judge_what_hooks_have_made_of_an_answer() -> None:
    hook = Saying("AfterAgent", lambda event: HookReply(answer=BAD))
    assert story_of(VALID, said(GOOD), hooks=[hook]).view.reason == "GUARDRAIL"


def test_an_answer_that_does_not_pass_is_not_handed_over_by_the_agents_file() -> None:
    agent, others = {"handoffs": [{"to": "b", "when": "auto"}]}, [{"name": "b"}]
    assert story_of(VALID, said(GOOD), agent=agent, others=others).chain == ["a", "b"]
    story = story_of(VALID, said(BAD), agent=agent, others=others)
    assert (story.chain, story.view.reason, len(story.of(HandedOff))) == (["a"], "GUARDRAIL", 1)


def hanging(_: Any) -> None:
    time.sleep(30)


def raising(_: Any) -> None:
    raise SystemExit("gone")


@pytest.mark.parametrize(
    ("validator", "error"),
    [
        (lambda _: False, "the validator 'mine' does not let it pass"),
        (lambda _: ["too long", "too old"], "too long; too old"),
        (lambda _: {"valid": False, "error": "too old"}, "too old"),
        (lambda value: f"got {value!r}", f"got {BAD!r}"),
    ],
)
def test_a_validator_of_a_plug_in_says_what_is_wrong(validator: Validate, error: str) -> None:
    story = story_of({"name": "mine", "validator": "custom"}, said(BAD), validator=validator)
    assert (story.end.error or "").endswith(error)


@pytest.mark.parametrize("word", [None, True, [], "", {"valid": True}])
def test_a_validator_lets_pass_by_saying_nothing(word: Any) -> None:
    assert story_of({"name": "mine", "validator": "custom"}, validator=lambda _: word).view.status == "done"


@pytest.mark.parametrize(
    ("validator", "error"),
    [
        (raising, "the validator 'mine' failed: SystemExit: gone"),
        (lambda _: 7, "the validator 'mine' failed: ToolError: it must return None"),
        (None, "no worker here has the validator 'mine'"),
        (hanging, "the validator 'mine' failed: TimeoutError"),
    ],
    ids=["raises", "says something else", "is nowhere", "hangs"],
)
def test_a_validator_that_cannot_be_asked_lets_nothing_pass(validator: Validate | None, error: str) -> None:
    patience_s = 0.1 if validator is hanging else 30.0
    rail = {"name": "mine", "validator": "custom", "policy": "warn"}
    story = story_of(rail, validator=validator, validators_s=patience_s)
    assert (story.view.reason, verdicts(story)) == ("GUARDRAIL", [("output", "mine", "failed")])
    assert error in (story.end.error or "")


def test_a_validator_that_a_lost_worker_has_asked_is_not_asked_again() -> None:
    asked: list[Any] = []
    reply = ModelReplied(leg=1, turn=1, message=said(GOOD).message, withheld=True)
    judged = Guarded(leg=1, at="output", rail="mine", policy="warn", status="warned", errors=("so so",), turn=1)
    story = story_of(
        {"name": "mine", "validator": "custom", "policy": "warn"}, validator=asked.append, lost=[reply, judged]
    )
    assert (story.view.result, asked, len(story.of(Guarded))) == (GOOD, [], 1)


def test_a_refused_input_that_a_lost_worker_has_recorded_stays_refused() -> None:
    judged = Guarded(leg=1, at="input", rail="mine", policy="reject", status="failed", errors=("no",))
    rail = {"name": "mine", "validator": "custom", "on": "input"}
    assert story_of(rail, validator=lambda _: None, lost=[judged]).view.reason == "GUARDRAIL"


@pytest.mark.parametrize("is_structured", [False, True])
def test_who_retries_the_job_lets_the_agent_mend_its_answer(is_structured: bool) -> None:
    agent = {"complete_task": True, "output": {"name": "report", "schema": {"type": "object"}}} if is_structured else {}
    first, second = (
        calls(call(f"c{n}", "complete_task", report={"confidence": n})) if is_structured else said(text)
        for n, text in ((2, BAD), (1, GOOD))
    )
    replies = iter([first, second])  # a text without a call is void: the model is asked for that turn again

    async def next_reply() -> ModelReply:
        return next(replies)

    requests: list[Any] = []
    story = story_of(VALID, next_reply, retried_with=[next_reply], requests=requests, agent=agent)
    judged = ["failed", "failed", "passed"] if is_structured else ["failed", "passed"]
    assert (story.view.status, [one for _, _, one in verdicts(story)]) == ("done", judged)
    assert (NOT_PASSED in text_of(requests[-1].messages)) == is_structured


def test_a_reply_that_may_be_the_answer_is_withheld_and_one_with_calls_is_not() -> None:
    story = story_of(VALID, calls(call("c1", "look", what="x"), text="I look"), said(GOOD))
    assert [record.withheld for record in story.of(ModelReplied)] == [False, True]
    assert not story_of([], said("x")).of(ModelReplied)[0].withheld


SHORT_INPUT: Rail = {"name": "short", "max_length": 5, "on": "input"}


STREAMED: Rail = {"name": "json", "validator": "custom", "stream": True}


class Streaming(Replies):
    """Notes of whom pieces of the answer are wanted."""

    def __init__(self) -> None:
        super().__init__({"a": [said(GOOD)]})
        self.streams: list[bool] = []

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.streams.append(on_delta is not None)
        return await super().reply(request)


@pytest.mark.parametrize(
    ("rails", "streams"),
    [
        ([], True),
        ([VALID], False),
        ([SHORT_INPUT], True),
        ([{**VALID, "stream": True}], True),
        ([VALID, STREAMED], False),
    ],
)
def test_nobody_sees_an_answer_grow_that_is_still_to_be_judged(rails: list[Rail], streams: bool) -> None:
    model = Streaming()

    async def scenario(stores: Stores) -> list[Any]:
        relay = Relay(stores, team({"name": "a", "guardrails": rails}), model, is_live=True)
        job = await relay.submit("go", agent="a")
        await relay.drain()
        return (await stores.live.read(job, "0", wait_s=0.001))[1]

    assert on_server(scenario) == []
    assert model.streams == [streams]


def test_an_answer_that_is_shown_while_it_grows_is_said_once_to_be_provisional_and_judged_all_the_same() -> None:
    look = calls(call("c1", "look", what="x"))
    story = story_of(STREAMED, look, said("no JSON"))
    assert [one.text for one in story.of(Noticed)] == [f"a: {PROVISIONAL}"]
    assert [one.withheld for one in story.of(ModelReplied)] == [False, False]
    assert story.view.reason == "GUARDRAIL"


def test_an_answer_of_the_last_turn_is_judged_too() -> None:
    story = story_of(VALID, calls(call("c1", "look", what="x")), said(BAD), agent={"limits": {"max_turns": 1}})
    assert (story.view.status, story.view.reason, story.end.answer) == ("failed", "MAX_TURNS", None)
    assert verdicts(story) == [("output", "valid-json", "failed")]


def test_a_child_that_is_rejected_gives_its_caller_an_error_and_no_answer() -> None:
    parent = {"name": "p", "subagents": ["a"]}

    async def scenario(stores: Stores) -> Story:
        model = Replies({"p": [calls(call("c1", "delegate_to_a", objective="do")), said("ok")], "a": [said(BAD)]})
        return await Relay(stores, team(parent, {"name": "a", "guardrails": [VALID]}), model).told("go", agent="p")

    story = on_server(scenario)
    [result] = [record.result for record in story.of(ToolFinished)]
    assert (story.view.status, result.is_error) == ("done", True)
    assert "Guardrail violation: valid-json" in result.content
    assert BAD not in result.content


def test_guardrails_that_this_version_cannot_read_are_no_licence() -> None:
    agent = team({"name": "a", "guardrails": [VALID]}).agents["a"]
    newer = agent.to_json().replace('"policy":"reject"', '"policy":"pray"')
    with pytest.raises(UnreadableDefinition, match=r"guardrails.*deploy the newer one"):
        AgentDefinition.from_json(newer)


def test_guardrails_are_part_of_what_names_a_definition() -> None:
    without, with_one = (team({"name": "a", "guardrails": rails}).agents["a"] for rails in ([], [VALID]))
    assert without.digest != with_one.digest
    assert "guardrails" not in without.to_json()
    assert AgentDefinition.from_json(with_one.to_json()) == with_one
