"""Who is asked where a model gives no answer, and what is recorded of that."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from ekiden.shared.errors import (
    CircuitOpen,
    ExceedsLimit,
    MalformedCall,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    OverLimit,
    QuotaExhausted,
)
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.models import SCRIPTED, ModelChoice
from ekiden.shared.messages import Message, TextPart, Usage, user_message
from ekiden.shared.prices import Prices
from ekiden.shared.records import FellBack
from ekiden.workers.model_caller import Candidate, ModelAnswer, ModelCaller

Said = ModelReply | BaseException
REQUEST = ModelRequest(agent="a", model="first", instructions="", messages=(user_message("go"),))
AWAY = ModelUnavailable("first is away", 7.0)


@dataclass
class Model:
    """Says one thing, after it has begun to say it to whoever listens."""

    name: str
    said: Said
    asked: list[ModelRequest] = field(default_factory=list)

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        await asyncio.sleep(0)
        self.asked.append(request)
        if on_delta is not None:
            on_delta(Delta(f"{self.name} says"))
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said.model_copy(update={"model": self.name})


def says(text: str, **more: Any) -> ModelReply:
    message = Message(role="model", parts=(TextPart(text=text),))
    return ModelReply(message=message, usage=Usage(input_tokens=100, output_tokens=10), **more)


REFUSAL = says("I can't.", finish="refused", detail="SAFETY")


@dataclass
class World:
    """Models that are asked in order, and what was recorded."""

    models: list[Model]
    on: tuple[FallbackCause, ...] = ("unavailable", "quota")
    records: list[FellBack] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)

    async def _record(self, passed: FellBack) -> None:
        await asyncio.sleep(0)
        self.records.append(passed)

    @cached_property
    def caller(self) -> ModelCaller:
        candidates = [Candidate(ModelChoice(model.name, SCRIPTED), model) for model in self.models]
        return ModelCaller(candidates, Prices({"first": (1.0, 1.0)}), self._record, leg=3, on=self.on)

    def ask(self) -> ModelAnswer:
        return asyncio.run(self.caller.ask(REQUEST, self.deltas.append))

    @property
    def passed(self) -> list[tuple[str, str, str]]:
        return [(one.model, one.why, one.to) for one in self.records]


def world(*said: Said, **more: Any) -> World:
    names = ("first", "second", "third")
    return World([Model(name, one) for name, one in zip(names, said, strict=False)], **more)


@pytest.mark.parametrize(("failure", "why"), [(AWAY, "unavailable"), (QuotaExhausted("no credit"), "quota")])
def test_the_next_model_is_asked_where_the_first_is_away_or_has_no_quota(failure: ModelError, why: str) -> None:
    team = world(failure, says("hello"))
    answer = team.ask()
    assert (answer.reply.message.text, answer.reply.model) == ("hello", "second")
    assert team.passed == [("first", why, "second")]
    assert (team.records[0].leg, team.records[0].text) == (3, str(failure))
    assert [model.asked[0].model for model in team.models] == ["first", "second"]


def test_what_the_first_has_begun_to_say_is_taken_back() -> None:
    team = world(AWAY, says("hello"))
    team.ask()
    assert team.deltas == [Delta("first says"), Delta("", restart=True), Delta("second says")]


def test_a_refusal_is_an_answer_unless_the_agent_wants_another_one() -> None:
    assert world(REFUSAL, says("hello")).ask().reply.finish == "refused"
    team = world(REFUSAL, says("hello"), on=("refused",))
    answer = team.ask()
    assert (answer.reply.message.text, team.passed) == ("hello", [("first", "refused", "second")])
    (record,) = team.records
    assert (record.text, record.usage.input_tokens) == ("SAFETY", 100)
    assert record.cost_usd == pytest.approx(110e-6)
    assert answer.reply.usage == says("").usage, "of the model that has answered alone"


@pytest.mark.parametrize(
    "failure", [ModelAccessDenied("bad key"), MalformedCall("no call"), QuotaExhausted("no credit")], ids=repr
)
def test_what_the_agent_does_not_name_is_a_failure_as_ever(failure: ModelError) -> None:
    team = world(failure, says("hello"), on=("unavailable",))
    with pytest.raises(type(failure)) as raised:
        team.ask()
    assert raised.value is failure
    assert team.records == []


def test_where_nobody_answers_who_may_come_back_is_waited_for() -> None:
    team = world(QuotaExhausted("no credit"), ModelAccessDenied("bad key"), ModelUnavailable("third is away", 4.0))
    with pytest.raises(ModelUnavailable, match="no credit; bad key; third is away") as raised:
        team.ask()
    assert raised.value.retry_after_s == 4.0
    assert team.passed == [("first", "quota", "second"), ("second", "unavailable", "third")]


def test_where_nobody_can_come_back_the_failure_is_the_first_ones() -> None:
    with pytest.raises(QuotaExhausted, match="no credit; bad key"):
        world(QuotaExhausted("no credit"), ModelAccessDenied("bad key")).ask()


def test_a_refusal_stands_where_nobody_else_answers_and_is_paid_once() -> None:
    team = world(REFUSAL, AWAY, on=("refused",))
    answer = team.ask()
    assert (answer.reply.finish, answer.reply.usage, answer.cost_usd) == ("refused", Usage(), 0.0)
    assert team.records[0].usage.input_tokens == 100


def test_that_a_model_is_left_alone_is_recorded_once() -> None:
    team = world(CircuitOpen("first keeps failing", 9.0), says("hello"))
    assert [team.ask().reply.model for _ in range(3)] == ["second"] * 3
    assert team.passed == [("first", "unavailable", "second")]
    assert len(team.models[1].asked) == 3


def test_a_cancelled_call_asks_nobody_else() -> None:
    team = world(asyncio.CancelledError(), says("hello"))
    with pytest.raises(asyncio.CancelledError):
        team.ask()
    assert not team.models[1].asked


def test_the_window_is_what_every_model_reads() -> None:
    small = ModelChoice("local/small", SCRIPTED)
    big = ModelChoice("scripted", SCRIPTED)

    async def record(_: FellBack) -> None:
        raise AssertionError

    model = Model("m", says("x"))
    caller = ModelCaller([Candidate(big, model), Candidate(small, model)], Prices(), record)
    assert (caller.name, caller.window) == ("scripted", small.window)
    assert small.window < big.window


FULL = OverLimit("first's limit", 40.0)


def queued(team: World) -> list[str]:
    """Who was asked in the end, to take a place in its queue."""
    return [model.name for model in team.models for one in model.asked if one.queues]


def test_a_model_without_room_is_passed_by_where_the_agent_says_so() -> None:
    team = world(FULL, says("hello"), on=("limit",))
    assert team.ask().reply.model == "second"
    assert (team.passed, queued(team)) == ([("first", "limit", "second")], [])


@pytest.mark.parametrize("on", [("unavailable", "quota"), ("limit",)])
def test_without_that_or_without_another_model_it_is_waited_for(on: tuple[FallbackCause, ...]) -> None:
    others = (says("hello"),) if "limit" not in on else ()
    team = world(FULL, *others, on=on)
    with pytest.raises(OverLimit) as raised:
        team.ask()
    assert raised.value is FULL
    assert (team.records, queued(team), len(team.models[0].asked)) == ([], ["first"], 1)


@pytest.mark.parametrize(
    ("waits", "who", "told"),
    [
        ((40.0, 5.0, 9.0), "second", "second; first; third"),
        ((5.0, 5.0, 9.0), "first", "first; second; third"),
    ],
)
def test_where_none_has_room_the_one_that_has_it_soonest_is_waited_for(
    waits: tuple[float, ...], who: str, told: str
) -> None:
    team = world(*map(OverLimit, ("first", "second", "third"), waits), on=("limit",))
    with pytest.raises(OverLimit) as raised:
        team.ask()
    assert (str(raised.value), raised.value.wait_s, queued(team)) == (told, min(waits), [who])


def test_room_is_waited_for_whatever_else_the_other_models_lack() -> None:
    for other in (AWAY, ModelAccessDenied("bad key"), ExceedsLimit("too large")):
        team = world(other, FULL, on=("limit", "unavailable")) if other is AWAY else world(FULL, other, on=("limit",))
        with pytest.raises(OverLimit, match="first's limit"):
            team.ask()
        assert len(queued(team)) == 1


def test_who_failed_where_nobody_else_is_left_but_who_has_no_room_is_recorded_as_well() -> None:
    team = world(FULL, ModelUnavailable("second is out of reach"), on=("limit",))
    with pytest.raises(OverLimit, match="first's limit"):
        team.ask()
    assert team.passed == [("first", "limit", "second"), ("second", "unavailable", "first")]
    assert team.records[-1].text == "second is out of reach"


def test_a_request_that_is_too_large_for_a_limit_goes_to_the_next_and_fails_where_there_is_none() -> None:
    large = ExceedsLimit("too large")
    assert world(large, says("hello"), on=("limit",)).ask().reply.model == "second"
    for team in (world(large, says("hello")), world(large, on=("limit",)), world(large, large, on=("limit",))):
        with pytest.raises(ExceedsLimit, match="too large"):
            team.ask()
