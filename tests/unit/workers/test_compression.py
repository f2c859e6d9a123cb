"""Long conversations stay within their model's window: a snapshot stands for what is old, the rest stays as it was."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.context_windows import tokens_in, tokens_of
from ekiden.shared.messages import Usage
from ekiden.shared.records import LoopDetected, ModelReplied, Record, Summarised
from ekiden.shared.stores.opening import Stores
from ekiden.workers.compression import COMPRESSOR
from ekiden.workers.snapshots import snapshot_in
from ekiden.workers.tools.builtin.todos import write_todos
from tests.scenarios.relay import Relay, Story, assert_well_formed, on_server, team, text_of
from tests.unit.workers.world import What, call, calls, handing_over, said, tool_named

WINDOW = 8_192
GOAL = "Count the files of every folder, 一个也不能少"
PLAN = [{"description": "count them", "status": "in_progress"}]


def snapshot(text: str) -> str:
    return f"<state_snapshot><overall_goal>{text}</overall_goal></state_snapshot>"


async def look(args: What, _: Any) -> str:
    return f"result {args.what} " + "word " * 220


LOOK = tool_named("look", look, read_only=True)
Writer = Callable[[int], ModelReply | Exception]


def writes(number: int) -> ModelReply:
    text = f"<scratchpad>I think.</scratchpad>\n{snapshot(f'snapshot {number}')}"
    return said(text).model_copy(update={"usage": Usage(input_tokens=100, output_tokens=10)})


class Worker:
    """An agent that writes a plan, and then looks once a turn, so many times; and who writes its snapshots."""

    def __init__(self, turns: int, write: Writer = writes, *, counts: int = 0, begins_at: int = 0) -> None:
        """``counts``: how many tokens this model makes of four bytes; 0: it does not tell."""
        self.requests: list[ModelRequest] = []
        self._turns = turns
        self._write = write
        self._counts = counts
        self._turn = begins_at

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        assert_well_formed(request)
        self.requests.append(request)
        if request.agent == COMPRESSOR:
            found = self._write(len(self.asked(COMPRESSOR)))
            if isinstance(found, Exception):
                raise found
            return found
        self._turn += 1
        if not self._counts:
            return self._next()
        usage = Usage(input_tokens=self._counts * size_of(request), output_tokens=7)
        return self._next().model_copy(update={"usage": usage})

    def _next(self) -> ModelReply:
        if self._turn == 1:
            return calls(call("plan", "write_todos", todos=PLAN))
        return calls(call(f"c{self._turn}", "look", what=str(self._turn))) if self._turn < self._turns else said("all")

    def asked(self, agent: str) -> list[ModelRequest]:
        return [request for request in self.requests if request.agent == agent]


def size_of(request: ModelRequest) -> int:
    beside = tokens_of(request.instructions) + sum(tokens_of(one.model_dump_json()) for one in request.tools)
    return beside + sum(map(tokens_in, request.messages))


def run(model: Worker, lost: Sequence[Record] = (), **front: Any) -> Story:
    """Run a job of one agent; its first worker died behind the records ``lost``."""
    solo = {"name": "solo", "limits": {"max_turns": 1_000}, "loops": {"judge": False}, **front}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(solo), model, tools=[LOOK, write_todos], window=WINDOW)
        job = await relay.submit(GOAL, agent="solo")
        await relay.step()
        if lost:
            await relay.lose(job, lost)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario)


def compressions(story: Story) -> list[Summarised]:
    return story.of(Summarised)


@pytest.fixture(scope="module")
def forty_turns() -> tuple[Worker, Story]:
    """Who has looked 40 times, and what became of the job."""
    model = Worker(40)
    return model, run(model)


def test_300_turns_of_tools_stay_within_the_window_with_goal_plan_and_pairs() -> None:
    model = Worker(300)
    story = run(model)
    asked = model.asked("solo")
    assert (story.view.status, story.view.result, len(asked)) == ("done", "all", 300)
    sizes = list(map(size_of, asked))
    assert max(sizes) < 0.6 * WINDOW
    assert max(sizes[200:]) < 1.05 * max(sizes[:30]), "turn 300 costs what the first ones did"
    for request in asked[1:]:
        assert GOAL in request.messages[0].text
        assert "1. [in_progress] count them" in text_of(request.messages)
    for before, after in pairwise(asked):
        assert before.messages[-1] in after.messages, "the last results are read word for word"


def test_the_snapshot_stands_for_what_came_before_and_the_next_one_merges_it(
    forty_turns: tuple[Worker, Story],
) -> None:
    model, story = forty_turns
    [first, second, *_] = model.asked(COMPRESSOR)
    assert GOAL in first.messages[0].text
    assert "CALL look" in first.messages[0].text
    assert 'RESULT look: "result 3 word' in first.messages[0].text
    assert snapshot("snapshot 1") in second.messages[0].text
    assert "result 3 word" not in second.messages[0].text
    last = model.asked("solo")[-1]
    number = len(compressions(story))
    assert snapshot(f"snapshot {number}") in last.messages[0].text
    assert f"snapshot {number - 1}<" not in text_of(last.messages)
    assert "I think." not in text_of(last.messages)


def test_the_journal_keeps_every_word_and_says_what_became_of_them(forty_turns: tuple[Worker, Story]) -> None:
    _, story = forty_turns
    assert "result 3 word" in story.results["c3"]
    first = compressions(story)[0]
    assert first.text == snapshot("snapshot 1")
    assert 0.5 * WINDOW <= first.tokens_before < 0.6 * WINDOW
    assert first.tokens_after < first.tokens_before / 2
    assert first.before is not None
    kept = story.records[first.before - 1]
    assert isinstance(kept, ModelReplied)


def test_its_tokens_count_for_the_job_and_for_the_leg(forty_turns: tuple[Worker, Story]) -> None:
    _, story = forty_turns
    assert story.view.spent.tokens == 110 * len(compressions(story))
    limited = run(Worker(40), limits={"max_tokens": 110, "grace_seconds": 0})
    assert (limited.view.reason, len(compressions(limited))) == ("MAX_TOKENS", 1)


def test_the_providers_count_decides_where_it_gives_one() -> None:
    [dear, *_], [cheap, *_] = (compressions(run(Worker(40, counts=counts))) for counts in (2, 1))
    assert dear.tokens_before >= 0.5 * WINDOW
    assert dear.before is not None
    assert cheap.before is not None
    assert dear.before < cheap.before, "a model that counts twice as much is full sooner"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (said("I would rather not."), "holds no <state_snapshot>"),
        (said("<state_snapshot>half"), "holds no <state_snapshot>"),
        (said(snapshot("x" * 100_000)), "larger than what it would stand for"),
        (said(snapshot("cut"), finish="max_tokens"), "the model stopped: max_tokens"),
        (ModelError("the model is broken"), "the model is broken"),
    ],
)
def test_where_there_is_no_snapshot_old_results_are_cut(answer: ModelReply | Exception, why: str) -> None:
    model = Worker(40, lambda _: answer)
    story = run(model)
    first = compressions(story)[0]
    assert (story.view.status, first.text, first.longest_result) == ("done", "", 500)
    assert why in first.why
    assert max(map(size_of, model.asked("solo"))) < WINDOW
    assert any("[cut: the first 500 of" in text_of(request.messages) for request in model.asked("solo"))
    assert len(model.asked(COMPRESSOR)) < 10, "nobody is asked again in each turn"


def test_what_nobody_sums_up_is_left_out_before_the_window_is_full() -> None:
    model = Worker(100, lambda _: ModelError("broken"))
    story = run(model)
    assert story.view.status == "done"
    assert max(map(size_of, model.asked("solo"))) < WINDOW
    assert "Left out for want of room" in text_of(model.asked("solo")[-1].messages)


def test_a_worker_that_dies_behind_a_snapshot_costs_no_second_one() -> None:
    story = run(Worker(40, lambda _: writes(1)))
    mine = [record for record in story.records if record.leg == 1][1:]
    first = mine.index(compressions(story)[0])
    turns = sum(isinstance(record, ModelReplied) for record in mine[:first])
    resumed = Worker(40, lambda _: writes(1), begins_at=turns)
    again = run(resumed, mine[: first + 1])
    assert len(resumed.asked(COMPRESSOR)) == len(compressions(story)) - 1
    assert [one.fingerprint for one in again.of(ModelReplied)] == [one.fingerprint for one in story.of(ModelReplied)]


def test_a_loop_that_begins_before_a_snapshot_is_noticed_behind_it() -> None:
    class Looping(Worker):
        def _next(self) -> ModelReply:
            return calls(call(f"c{self._turn}", "look", what=str(self._turn % 4)))

    model = Looping(100)
    story = run(model, compression={"threshold": 0.25, "keep": 0})
    told = story.of(LoopDetected)[0]
    assert told.kind == "cycles"
    between = story.records.index(compressions(story)[0]), story.records.index(told)
    assert between[0] < between[1]
    assert sum(isinstance(one, ModelReplied) for one in story.records[: between[1]]) == 12, "as without a snapshot"


def test_an_agent_that_control_comes_back_to_goes_on_from_its_snapshot() -> None:
    class Lead(Worker):
        def _next(self) -> ModelReply:
            if self._turn == 20:
                return calls(handing_over("h", "helper"))
            return super()._next()

        async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
            return said("helped") if request.agent == "helper" else await super().reply(request, on_delta)

    def told(returns: bool) -> list[ModelRequest]:
        lead = {"name": "lead", "limits": {"max_turns": 90}, "handoffs": [{"to": "helper", "return": returns}]}
        helper = {"name": "helper", "handoffs": [{"to": "lead", "when": "auto"}], "transfer_to_parent": True}
        agents = team(lead, helper if not returns else {"name": "helper"})
        model = Lead(24)

        async def scenario(stores: Stores) -> Story:
            relay = Relay(stores, agents, model, tools=[LOOK, write_todos], window=WINDOW)
            return await relay.told(GOAL, agent="lead")

        story = on_server(scenario)
        assert (story.chain, story.view.result) == (["lead", "helper", "lead"], "all")
        return [request for request in model.asked("lead") if "helped" in text_of(request.messages)]

    for returns in (True, False):
        back, *_ = told(returns)
        assert snapshot("snapshot 1") in text_of(back.messages)
        assert "result 3 word" not in text_of(back.messages)
        assert "result 19 word" in text_of(back.messages), "the newest turns as they were"
        assert "1. [in_progress] count them" in text_of(back.messages)


@pytest.mark.parametrize("said_", [False, {"threshold": 1}])
def test_a_file_switches_it_off(said_: Any) -> None:
    assert compressions(run(Worker(20), compression=said_)) == []


def test_a_file_says_when_and_how_much_stays() -> None:
    early = compressions(run(Worker(40), compression={"threshold": 0.25, "keep": 0.6}))[0]
    assert 0.25 * WINDOW <= early.tokens_before < 0.4 * WINDOW
    assert early.tokens_after > early.tokens_before / 2
    assert early.before is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"<scratchpad><state_snapshot>draft</state_snapshot></scratchpad>{snapshot('a')} done", snapshot("a")),
        (f"```xml\n{snapshot('文件')}\n```", snapshot("文件")),
        ("<state_snapshot>no goal</state_snapshot>", ""),
        ("</state_snapshot><state_snapshot>", ""),
        ("", ""),
    ],
)
def test_the_snapshot_is_read_out_of_the_answer(text: str, found: str) -> None:
    assert snapshot_in(text) == found
