"""A leg that has reached a limit may end with what it has, in one turn more."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.records import LastTurn, ModelReplied, ToolFinished
from ekiden.shared.stores.base import Appended
from ekiden.shared.stores.jobs import RedisJobStore
from ekiden.shared.stores.opening import Stores
from ekiden.workers.calls.pipeline import ONLY_ENDINGS
from ekiden.workers.ending import NO_COMPLETION, NOT_COMPLETED
from ekiden.workers.tools.base import Tool
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.conftest import Hang
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

LOOK = tool_named("look", read_only=True)
REPORT = {"name": "report", "schema": {"type": "object", "properties": {"found": {"type": "string"}},
                                       "required": ["found"]}}  # fmt: skip


def told(replies: Sequence[Said], has: Iterable[Tool] = (LOOK,), **front: Any) -> tuple[Story, Replies]:
    """Run a job of one agent, which may hand over to ``other``."""
    model = Replies({"solo": replies, "other": [said("other's answer")]})
    agents = team({"name": "solo", "handoffs": ["other"], **front}, {"name": "other"})

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, agents, model, tools=has).told("do it", agent="solo")

    return on_server(scenario), model


def look(n: int, tokens: int = 0) -> ModelReply:
    return calls(call(f"c{n}", "look", what=str(n)), tokens=tokens)


def ends(story: Story) -> tuple[str, str | None, str | None, bool]:
    """How the job ended."""
    return story.view.status, story.view.reason, story.view.result, story.end.recovered


@pytest.mark.parametrize(
    ("limits", "reason", "offered"),
    [({"max_turns": 2}, "MAX_TURNS", ["transfer_to_other"]), ({"max_tokens": 90}, "MAX_TOKENS", [])],
)
def test_what_the_last_turn_says_is_the_answer_with_the_reason_of_the_limit(
    limits: Any, reason: str, offered: list[str]
) -> None:
    story, model = told([look(0, 50), look(1, 50), said("as far as I got")], limits=limits)
    assert ends(story) == ("done", reason, "as far as I got", True)
    [granted] = story.of(LastTurn)
    last = model.requests[-1]
    assert last.messages[-1].text == granted.text
    assert "This is your last turn, and you have 60 seconds for it" in granted.text
    assert f"({next(iter(limits))}: " in granted.text
    assert [tool.name for tool in last.tools] == offered, "the tokens of its first agent are the job's, too"


def test_it_may_hand_over() -> None:
    story, _ = told([look(0), calls(handing_over("h", "other"))], limits={"max_turns": 1})
    assert ends(story) == ("done", "GOAL", "other's answer", False)
    assert story.chain == ["solo", "other"]


def test_it_may_complete_its_task() -> None:
    done = calls(call("d", "complete_task", report={"found": "a half"}))
    story, model = told([look(0), done], limits={"max_turns": 1}, output=REPORT)
    assert ends(story) == ("done", "MAX_TURNS", '{"found": "a half"}', True)
    assert story.end.output == {"found": "a half"}
    assert [tool.name for tool in model.requests[-1].tools] == ["complete_task", "transfer_to_other"]


@pytest.mark.parametrize(
    "last",
    [look(1), calls(call("d", "complete_task", report="no object")), calls(handing_over("h", "nobody")),
     said("I would", finish="max_tokens"), ModelError("the model is broken")],
    ids=["a tool", "a report against its schema", "a transfer to nobody", "half an answer", "a fault"],
)  # fmt: skip
def test_whatever_else_it_does_the_leg_ends_as_it_would_have(last: Said) -> None:
    story, model = told([look(0), last, said("a turn too many")], limits={"max_turns": 1}, output=REPORT)
    assert (story.view.status, story.view.reason) == ("failed", "MAX_TURNS")
    assert "reached its limit (max_turns: 1)" in str(story.end.error)
    assert len(model.requests) == 2


def test_no_tool_runs_in_it() -> None:
    ran: list[str] = []
    both = calls(call("c1", "look"), call("d", "complete_task", report={"found": "x"}))
    story, _ = told([look(0), both], [tool_named("look", ran=ran)], limits={"max_turns": 1}, output=REPORT)
    assert (ran, story.results["c1"]) == (["c0"], ONLY_ENDINGS)
    assert story.end.recovered


def test_an_agent_that_must_complete_its_task_and_does_not_has_a_last_turn() -> None:
    done = calls(call("d", "complete_task", report={"found": "x"}))
    story, model = told([said("done"), said("done"), done], complete_task=True, output=REPORT)
    assert ends(story) == ("done", "ERROR_NO_COMPLETE_TASK_CALL", '{"found": "x"}', True)
    assert model.requests[1].messages[-1].text == NOT_COMPLETED
    assert model.requests[2].messages[-1].text.startswith(NO_COMPLETION)
    story, _ = told([said("done")] * 3, complete_task=True, output=REPORT)
    assert (story.view.status, story.view.reason) == ("failed", "ERROR_NO_COMPLETE_TASK_CALL")


def test_an_agent_in_a_loop_has_a_last_turn() -> None:
    again = [calls(call(f"c{n}", "look")) for n in range(10)]
    story, _ = told([*again, said("it never changes")])
    assert ends(story) == ("done", "LOOP", "it never changes", True)


def test_a_file_may_leave_no_time_for_it() -> None:
    story, model = told([look(0), said("never asked")], limits={"max_turns": 1, "grace_seconds": 0})
    assert (story.view.reason, story.of(LastTurn), len(model.requests)) == ("MAX_TURNS", [], 1)


def late(replies: Sequence[Said], has: Iterable[Tool] = (LOOK,)) -> tuple[Story, Replies]:
    """Run a leg of whose thousand seconds an earlier attempt has used half."""
    model = Replies({"solo": replies})

    async def scenario(stores: Stores) -> Story:
        limits = {"max_seconds": 1_000, "grace_seconds": 60.0}
        relay = Relay(stores, team({"name": "solo", "limits": limits}), model, tools=has)
        job = await relay.submit("do it", agent="solo")
        await relay.step()
        lost = await claimed(stores, job, owner="lost", lease_s=0.0)
        await stores.jobs.append(lost.lease, "1.1", [], used_ms=500_000, is_progress=False)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario), model


def test_it_has_a_time_of_its_own_when_the_first_reply_never_comes(hang: Hang) -> None:
    asked: list[int] = []

    async def hang_once() -> ModelReply:
        asked.append(1)
        return await hang() if len(asked) == 1 else said("in time")

    story, model = late([hang_once])
    assert ends(story) == ("done", "TIMEOUT", "in time", True)
    said_to = model.requests[-1].messages[-1].text
    assert said_to.startswith("do it\n\n")
    assert "\n\nYou have reached a limit (max_seconds: 1000)." in said_to


def test_a_tool_that_hangs_is_answered_before_it(hang: Hang) -> None:
    story, _ = late([calls(call("c1", "hang")), said("without it")], [tool_named("hang", hang)])
    assert ends(story) == ("done", "TIMEOUT", "without it", True)
    assert story.results == {"c1": "Not finished: TIMEOUT."}


def test_a_reply_that_is_written_as_the_time_runs_out_is_known_to_the_last_turn(
    monkeypatch: pytest.MonkeyPatch, hang: Hang
) -> None:
    append = RedisJobStore.append

    async def written_too_late(store: RedisJobStore, *args: Any, **said: Any) -> Appended:
        told = await append(store, *args, **said)
        return await hang() if any(isinstance(record, ModelReplied) for record in args[2]) else told

    monkeypatch.setattr(RedisJobStore, "append", written_too_late)
    story, _ = late([calls(call("c1", "look")), said("without it")])
    assert ends(story) == ("done", "TIMEOUT", "without it", True)
    assert story.results == {"c1": "Not finished: TIMEOUT."}
    assert [record.turn for record in story.of(ModelReplied)] == [1, 2]


def test_a_last_turn_that_hangs_ends_with_its_time(hang: Hang) -> None:
    story, _ = late([hang])
    assert (story.view.status, story.view.reason, len(story.of(LastTurn))) == ("failed", "TIMEOUT", 1)


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_worker_that_dies_in_it_takes_nothing_away_and_adds_no_turn(cut: int) -> None:
    """Behind the first reply, its tool's start and end, the last turn's grant, its reply."""
    replies = [look(0), calls(call("d", "complete_task", report={"found": "x"}), call("c9", "look"))]
    front: dict[str, Any] = {"limits": {"max_turns": 1}, "output": REPORT}
    records = [record for record in told(replies, (LOOK,), **front)[0].records if record.leg == 1][1:-1]

    async def resumed(stores: Stores) -> Story:
        agents = team({"name": "solo", **front})
        relay = Relay(stores, agents, Replies({"solo": replies}), tools=[LOOK])
        job = await relay.submit("do it", agent="solo")
        await relay.step()
        await relay.lose(job, records[:cut])
        await relay.drain()
        return await relay.story(job)

    story = on_server(resumed)
    assert (story.end.recovered, len(story.of(LastTurn)), len(story.of(ModelReplied))) == (True, 1, 2)
    assert len(story.of(ToolFinished)) == 3


def test_a_job_that_is_retried_goes_on_without_having_had_it() -> None:
    replies = [look(0), look(1), said("after the retry")]

    async def scenario(stores: Stores) -> tuple[Story, Replies]:
        model = Replies({"solo": replies})
        relay = Relay(stores, team({"name": "solo", "limits": {"max_turns": 1}}), model, tools=[LOOK])
        job = (await relay.told("do it", agent="solo")).view.id
        await relay.retry(job)
        return await relay.story(job), model

    story, model = on_server(scenario)
    assert ends(story) == ("done", "GOAL", "after the retry", False)
    assert "last turn" not in str(model.requests[-1].messages[-1])
