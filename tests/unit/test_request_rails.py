"""The operator's guardrails of the request: they judge before anybody is looked for, once, and no model is asked."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.records import Guarded, Record, Routed
from ekiden.shared.request_rails import request_rails_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import Replies, call, calls, said

NO_PII = {"name": "no_pii", "validator": "custom"}
FEW = {"name": "few", "schema": {"properties": {"n": {"maximum": 5}}}}


def story_of(
    prompt: str,
    *rails: Mapping[str, Any],
    inputs: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    lost: Sequence[Record] = (),
    **world: Any,
) -> tuple[Story, Replies]:
    model = Replies({"a": [said("ok")]})

    async def scenario(stores: Stores) -> Story:
        agent = {"name": "a", "triggers": {"keywords": ["call"]}, "inputs": {"n": {"type": "integer"}}}
        relay = Relay(stores, team(agent), model, request_rails=rails, **world)
        job = await relay.submit(prompt, inputs=inputs, state=state)
        if lost:
            await relay.lose(job, lost)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario), model


def test_a_request_that_does_not_pass_ends_its_job_before_hooks_routers_and_models_are_asked() -> None:
    asked: list[Any] = []
    story, model = story_of("call 13812345678", NO_PII, hooks=[Saying("BeforeRoute", asked.append)])
    assert (story.view.status, story.view.reason, model.requests, asked) == ("failed", "GUARDRAIL", [], [])
    assert story.end.error == "Guardrail violation: no_pii (the request): it holds a telephone number (line 1)"
    assert [(one.leg, one.at, one.status) for one in story.of(Guarded)] == [(0, "request", "failed")]
    assert story.of(Routed) == []


def test_one_that_passes_or_is_only_warned_about_is_routed_and_the_word_stands_before_the_route() -> None:
    for prompt, policy, status in (("call Ada", "reject", "passed"), ("call 13812345678", "warn", "warned")):
        story, _ = story_of(prompt, {**NO_PII, "policy": policy})
        kinds = [type(record) for record in story.records]
        assert (story.view.status, story.of(Guarded)[0].status) == ("done", status)
        assert kinds.index(Guarded) < kinds.index(Routed)


def test_a_schema_looks_at_the_inputs_and_a_validator_at_both() -> None:
    assert story_of("call", FEW, inputs={"n": 9})[0].view.reason == "GUARDRAIL"
    assert story_of("call", FEW, inputs={"n": 1})[0].view.status == "done"
    key = {"name": "no_secrets", "validator": "custom"}
    assert story_of("call with password=hunter2222", key, inputs={"n": 1})[0].view.reason == "GUARDRAIL"


def test_session_variables_that_come_with_a_request_are_judged_with_it() -> None:
    assert story_of("call", NO_PII, state={"note": "13812345678"})[0].view.reason == "GUARDRAIL"
    assert story_of("call", NO_PII, state={"note": "Ada"})[0].view.status == "done"
    assert story_of("call", FEW, state={"n": 9}, inputs={"n": 1})[0].view.status == "done"


def test_what_a_lost_dispatcher_has_recorded_stays_so() -> None:
    judged = Guarded(leg=0, at="request", rail="no_pii", policy="reject", status="failed", errors=("no",))
    story, _ = story_of("call Ada", NO_PII, lost=[judged])
    assert (story.view.reason, len(story.of(Guarded))) == ("GUARDRAIL", 1)


def test_what_an_agent_delegates_is_no_request_of_a_user() -> None:
    async def scenario(stores: Stores) -> Story:
        model = Replies(
            {"a": [calls(call("c1", "delegate_to_b", objective="13812345678")), said("ok")], "b": [said("b")]}
        )
        relay = Relay(stores, team({"name": "a", "subagents": ["b"]}, {"name": "b"}), model, request_rails=[NO_PII])
        return await relay.told("go", agent="a")

    assert on_server(scenario).view.status == "done"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["no_pii"], "entry 1 is 'no_pii'"),
        ([{"name": "a"}], "'a' checks nothing"),
        ([{**NO_PII, "on": "output"}], "'no_pii' has 'on': these judge the request, and nothing else"),
        ([{**NO_PII, "policy": "ask"}], "the policy of 'no_pii' is 'ask'"),
        ([{"name": "a", "prompt": "It is kind."}], "'a' has 'prompt': neither models nor plug-ins judge a request"),
        ([{"name": "a", "validator": "mine"}], "'a' has the validator 'mine': neither models nor plug-ins"),
        ([NO_PII, NO_PII], "'no_pii' is listed twice"),
        ([{"name": "a", "schema": {"pattern": "(?=a)"}}], "the schema of 'a': pattern"),
    ],
)
def test_what_cannot_be_judged_stops_the_dispatcher_and_is_never_passed_over(value: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"setting 'guardrails.request' .*{said}"):
        request_rails_of(load_settings(guardrails_request=value))
