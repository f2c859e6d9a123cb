"""A model looks at a long leg, whether it gets anywhere: seldom, twice where it is sure, and what it says is data."""

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Usage
from ekiden.shared.records import LoopDetected, LoopJudged
from ekiden.shared.stores.opening import Stores
from ekiden.workers.loops.judge import JUDGE
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, call, calls, said, tool_named

LOOK = tool_named("look", read_only=True)


def judged(confidence: Any, why: Any = "it asks the same again") -> ModelReply:
    args = {"unproductive_state_analysis": why, "unproductive_state_confidence": confidence}
    reply = calls(call("j", "report_state", **args))
    return reply.model_copy(update={"usage": Usage(input_tokens=100, output_tokens=5)})


class Judging(Replies):
    """An agent that always does something new, and a judge who says what is next in a list, the last for ever."""

    def __init__(self, judgements: Sequence[ModelReply], turns: int) -> None:
        super().__init__({"solo": [calls(call(f"c{n}", "look", what=str(n))) for n in range(turns)] + [said("ok")]})
        self._judgements = judgements

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if request.agent != JUDGE:
            return await super().reply(request, on_delta)
        self.requests.append(request)
        return self._judgements[min(len(self.asked(JUDGE)), len(self._judgements)) - 1]


def run(*judgements: ModelReply, turns: int = 64, **front: Any) -> tuple[Story, Judging]:
    model = Judging(judgements, turns)
    catalog = team({"name": "solo", "limits": {"max_turns": 100, "grace_seconds": 0}, **front})

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, catalog, model, tools=[LOOK]).told("find it", agent="solo")

    return on_server(scenario), model


def test_a_leg_that_gets_on_is_looked_at_every_fifteen_turns_from_the_thirtieth() -> None:
    story, model = run(judged(0.0))
    assert [record.turn for record in story.of(LoopJudged)] == [30, 45, 60]
    assert (story.view.status, story.of(LoopDetected)) == ("done", [])
    asked = model.asked(JUDGE)[0]
    assert "find it" in asked.messages[0].text
    assert "calls look {'what': '29'}" in asked.messages[0].text
    assert "'what': '9'" not in asked.messages[0].text, "the last twenty turns"
    assert asked.forced_tools == ("report_state",)


def test_the_surer_a_look_was_the_sooner_comes_the_next() -> None:
    story, _ = run(judged(0.8), turns=50)
    assert [record.turn for record in story.of(LoopJudged)] == [30, 37, 44]


def test_two_sure_looks_in_a_row_are_told_and_the_next_two_end_the_leg() -> None:
    story, _ = run(judged(0.95))
    assert (story.view.status, story.view.reason) == ("failed", "LOOP")
    assert [record.turn for record in story.of(LoopJudged)] == [30, 30, 36, 36]
    [loop] = story.of(LoopDetected)
    assert (loop.kind, "it asks the same again" in loop.text) == ("judge", True)
    assert "loops: {judge: false}" in str(story.end.error)


def test_a_look_that_nobody_confirms_is_no_loop() -> None:
    story, _ = run(judged(0.99), judged(0.5), judged(0.0))
    assert (story.view.status, story.of(LoopDetected)) == ("done", [])


@pytest.mark.parametrize(
    "answer", [said("It is fine."), judged("very"), judged(7), judged(True), judged(0.95, why=None)]
)
def test_an_answer_that_is_none_is_no_loop(answer: ModelReply) -> None:
    story, _ = run(answer, turns=40)
    assert (story.view.status, story.of(LoopDetected)) == ("done", [])
    assert [record.confidence for record in story.of(LoopJudged)] == [0.0]


def test_what_it_costs_counts_for_the_job() -> None:
    story, _ = run(judged(0.0), turns=40)
    assert story.view.spent.tokens == 105


def test_a_file_switches_it_off() -> None:
    story, model = run(judged(1.0), loops={"judge": False})
    assert (story.view.status, model.asked(JUDGE)) == ("done", [])
