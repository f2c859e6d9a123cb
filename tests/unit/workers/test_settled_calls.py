"""A person says of a call of which nobody knew whether it was done that it was, or that it was not, with a retry."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.tree import in_order
from ekiden.dispatcher.retrying import Retrying
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.ids import session_of
from ekiden.shared.messages import ToolResult
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Entry, ModelReplied, Record, Retried, ToolFinished, ToolStarted
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import JobView
from ekiden.workers.calls.tools import DONE
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.tools.base import Tool
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_graph_guardrails import CLEAN, SECRET
from tests.unit.workers.test_graph_tries import MAPPED, beside, lost_beside, lost_with, sending, settle
from tests.unit.workers.test_graphs_nested import Saying, failing, family
from tests.unit.workers.world import Replies, call, calls, said, tool_named

SOLO = {"name": "solo"}
PAY = calls(call("c1", "pay", what="5"), call("c2", "look"))
BEGUN: tuple[Record, ...] = (
    ModelReplied(leg=1, turn=1, message=PAY.message),
    ToolStarted(leg=1, call_id="c1", name="pay", is_known=True),
)


class Person(Retrying):
    """Whoever retries jobs of a server."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def job(self, job: str) -> JobView:
        return await self._stores.jobs.job(job)

    async def entries(self, job: str) -> list[Entry]:
        return await journal_of(self._stores.jobs, job)


def tools(ran: list[str]) -> list[Tool]:
    return [tool_named("pay", ran=ran), tool_named("look", read_only=True, ran=ran)]


async def out_of_time(
    stores: Stores, ran: list[str], begun: Sequence[Record] = BEGUN, **agent: Any
) -> tuple[Relay, str]:
    """A job whose worker was killed while it paid, and whose deadline has passed since."""
    model = Replies({"solo": [PAY, said("paid"), said("over")]})
    relay = Relay(stores, team(SOLO | agent), model, tools=tools(ran))
    job = await relay.submit("pay the bill", agent="solo")
    await relay.step()
    await relay.lose(job, begun)
    assert await stop_job(stores.jobs, job, "deadline") == "ok"
    return relay, job


def results_of(story: Story) -> dict[str, str]:
    return {one.result.call_id: one.result.content for one in story.of(ToolFinished)}


@pytest.mark.parametrize(("text", "told"), [("receipt 17", "receipt 17"), ("", DONE), (None, DONE)])
def test_what_was_done_gives_what_the_person_says_and_does_not_run(text: str | None, told: str) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> None:
        relay, job = await out_of_time(stores, ran)
        await Person(stores).retry(job, done={"c1": text})
        await relay.drain()
        story = await relay.story(job)
        assert (story.view.status, story.view.result) == ("done", "paid")
        assert results_of(story)["c1"] == told
        [retried] = story.of(Retried)
        assert [(one.call_id, one.job, one.is_done, one.text) for one in retried.settled] == [
            ("c1", "", True, text or "")
        ]
        assert retried.by
        assert retried.is_claimed

    on_server(scenario)
    assert ran == []


def test_what_was_not_done_runs_again() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        relay, job = await out_of_time(stores, ran)
        await Person(stores).retry(job, undone=[f"{job}:c1"])
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.view.status, results_of(story)["c1"]) == ("done", "pay(5)")
    assert ran == ["c1"]


def test_without_a_word_the_agent_is_told_that_nobody_knows() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        relay, job = await out_of_time(stores, ran)
        assert [one.id for one in await Person(stores).unknown_calls(job)] == [f"{job}:c1"]
        await Person(stores).retry(job)
        await relay.drain()
        return await relay.story(job)

    assert results_of(on_server(scenario))["c1"] == "Not finished: TIMEOUT."
    assert ran == []


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("ends_again", [False, True], ids=["taken over", "retried once more"])
def test_what_was_said_once_holds_for_whoever_takes_over_from_a_worker_that_is_killed(
    is_done: bool, ends_again: bool
) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        relay, job = await out_of_time(stores, ran)
        await Person(stores).retry(job, done={"c1": "receipt 17"} if is_done else {}, undone=[] if is_done else ["c1"])
        await relay.lose(job, ())
        if ends_again:
            assert await stop_job(stores.jobs, job, "deadline") == "ok"
            assert not await Person(stores).unknown_calls(job)
            await Person(stores).retry(job)
        else:
            await sweep(stores.jobs, grace_s=0.0, max_attempts=9)
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.view.status, results_of(story)["c1"]) == ("done", "receipt 17" if is_done else "pay(5)")
    assert ran == ([] if is_done else ["c1"])


def test_a_call_that_runs_again_and_is_lost_again_is_unknown_again() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        relay, job = await out_of_time(stores, ran)
        await Person(stores).retry(job, undone=["c1"])
        await relay.lose(job, BEGUN[1:])
        assert await stop_job(stores.jobs, job, "deadline") == "ok"
        assert [one.id for one in await Person(stores).unknown_calls(job)] == [f"{job}:c1"]
        await Person(stores).retry(job, done={"c1": "receipt 18"})
        await relay.drain()
        return await relay.story(job)

    assert results_of(on_server(scenario))["c1"] == "receipt 18"
    assert ran == []


def test_what_a_person_says_that_a_call_gave_passes_the_guardrails_of_its_tool() -> None:
    async def scenario(stores: Stores) -> Story:
        rail = CLEAN | {"on": "tool_output", "policy": "reject"}
        relay, job = await out_of_time(stores, [], guardrails=[rail])
        await Person(stores).retry(job, done={"c1": SECRET})
        await relay.drain()
        return await relay.story(job)

    assert SECRET not in results_of(on_server(scenario))["c1"]


Retry = Callable[[Any, str], Awaitable[None]]
REFUSED: dict[str, tuple[Retry, str]] = {
    "an unknown id": (lambda person, job: person.retry(job, done={"c9": ""}), "'c9' is no call of which nobody knows"),
    "one that had not begun": (lambda person, job: person.retry(job, undone=["c2"]), "those of this job are {job}:c1"),
    "twice": (lambda person, job: person.retry(job, done={"c1": ""}, undone=["{job}:c1"]), "is no call"),
    "both": (lambda person, job: person.retry(job, done={"c1": ""}, undone=["c1"]), "'c1' is named twice"),
    "no mapping": (
        lambda person, job: person.retry(job, done=["c1"]),
        "done=['c1'] is no mapping of names: give {{ID: TEXT}}",
    ),
    "no text": (lambda person, job: person.retry(job, done={"c1": 5}), "done['c1'] is no text: give what the call"),
    "a text for a list": (
        lambda person, job: person.retry(job, undone="c1"),
        "undone='c1' is no list of names: give [ID]",
    ),
    "no list": (lambda person, job: person.retry(job, undone=5), "undone=5 is no list of names: give [ID]"),
    "no id": (lambda person, job: person.retry(job, undone=[5]), "undone=[5] is no list of names"),
    "too much": (lambda person, job: person.retry(job, done={"c1": "x" * 100_001}), "more than 100,000 characters"),
}


@pytest.mark.parametrize(("retry", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_said_changes_nothing(retry: Retry, why: str) -> None:
    async def scenario(stores: Stores) -> None:
        _, job = await out_of_time(stores, [])
        with pytest.raises(InvalidRequest) as refused:
            await retry(Person(stores), job)
        assert why.format(job=job) in str(refused.value)
        assert (await stores.jobs.job(job)).status == "failed"

    on_server(scenario)


def test_of_a_job_that_has_not_ended_nothing_is_said() -> None:
    async def scenario(stores: Stores) -> None:
        relay = Relay(stores, team(SOLO), Replies({}), tools=tools([]))
        job = await relay.submit("pay the bill", agent="solo")
        await relay.step()
        await relay.lose(job, BEGUN)
        with pytest.raises(InvalidRequest, match="is running: only a job that failed or died can be retried"):
            await Person(stores).retry(job, done={"c1": ""})

    on_server(scenario)


def test_of_a_call_behind_which_the_agent_has_gone_on_nothing_is_said_any_more() -> None:
    lost = ToolFinished(leg=1, result=ToolResult(call_id="c1", name="pay", content="", is_error=True, is_unknown=True))
    looked = ToolFinished(leg=1, result=ToolResult(call_id="c2", name="look", content="look()"))
    more = ModelReplied(leg=1, turn=2, message=calls(call("c3", "look")).message)

    async def scenario(stores: Stores) -> None:
        _, job = await out_of_time(stores, [], [*BEGUN, lost, looked, more])
        with pytest.raises(InvalidRequest, match="this job has none"):
            await Person(stores).retry(job, done={"c1": ""})

    on_server(scenario)


@MAPPED
@pytest.mark.parametrize("nested", [False, True], ids=["beside", "in a graph beside"])
@pytest.mark.parametrize("is_done", [True, False])
def test_of_the_tool_of_a_node_as_well(is_done: bool, nested: bool, mapped: dict[str, Any]) -> None:
    ran: list[str] = []
    node = {"name": "send", "tool": "send", "args": {"what": "it"}, **mapped}

    async def scenario(stores: Stores) -> tuple[Story, str, set[str]]:
        relay = Relay(stores, team(*beside(node, nested=nested)), Saying(z=failing(1)), tools=[sending(ran)])
        job = await relay.submit("go", agent="flow")
        lost = ".".join([job, *["1"] * (1 + nested + bool(mapped))])
        await lost_beside(relay, stores, job, lost, lost_with())
        await all_stopped(relay, stores, job)
        person = Person(stores)
        assert [one.id for one in await person.unknown_calls(job)] == [f"{lost}:node"]
        ran.clear()
        await person.retry(job, done={"node": "it was sent"} if is_done else {}, undone=[] if is_done else ["node"])
        story = await settle(relay, stores, job)
        gave = [one for child in await family(stores, job) for one in (await relay.story(child)).of(ToolFinished)]
        return story, f"{lost}:1:node", {one.result.content for one in gave}

    story, key, gave = on_server(scenario)
    assert story.view.status == "done", story.view.result
    assert ran.count(key) == (not is_done), "under the key that it had"
    assert ("it was sent" in gave) is is_done


@pytest.mark.parametrize("name", ["send", "node"])
def test_the_call_of_a_node_goes_by_the_nodes_name(name: str) -> None:
    async def scenario(stores: Stores) -> None:
        relay, job, person = await lost_in_a_node(stores)
        await person.retry(job, done={name: "it was sent"})
        assert (await settle(relay, stores, job)).view.status == "done"
        journals = {one: await journal_of(stores.jobs, one) for one in await family(stores, job)}
        shown = io.StringIO()
        show_job_tree(job, in_order(journals), TerminalView(job, Output(shown)), None)
        assert "says: send was done" in shown.getvalue()
        assert ": told by " in shown.getvalue()

    on_server(scenario)


def test_items_of_a_node_have_its_name_together_and_are_told_apart_by_their_ids() -> None:
    async def scenario(stores: Stores) -> None:
        _, job, person = await lost_in_a_node(stores, for_each="['a', 'b']")
        assert {one.node for one in await person.unknown_calls(job)} == {"send"}
        with pytest.raises(InvalidRequest, match=r"'nobody' is no call .* \(send \(send\)\)"):
            await person.retry(job, done={"nobody": ""})

    on_server(scenario)


async def lost_in_a_node(stores: Stores, **more: Any) -> tuple[Relay, str, Person]:
    """A graph that has failed while the tool of its node ``send`` ran, whose worker was lost."""
    node = {"name": "send", "tool": "send", "args": {"what": "it"}, **more}
    relay = Relay(stores, team(*beside(node)), Saying(z=failing(1)), tools=[sending([])])
    job = await relay.submit("go", agent="flow")
    await lost_beside(relay, stores, job, ".".join([job, *["1"] * (1 + bool(more))]), lost_with())
    await all_stopped(relay, stores, job)
    return relay, job, Person(stores)


async def all_stopped(relay: Relay, stores: Stores, job: str) -> None:
    """Let time pass until all jobs below one that has failed have stopped, too."""
    while running := [one for one, status in (await family(stores, job)).items() if status in ("running", "suspended")]:
        await stores.client.zadd(keys.LEASES, dict.fromkeys(running, 1))
        await sweep(stores.jobs, grace_s=0.0, max_attempts=9)
        await relay.drain()


def test_the_error_of_a_node_says_how_to_say_it() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> None:
        send = replace(sending(ran, asyncio.Event().wait), timeout_s=0.01)  # type: ignore[arg-type]  # gives nothing
        node = {"name": "send", "tool": "send", "args": {"what": "it"}}
        relay = Relay(stores, team(*beside(node)), Saying(), tools=[send])
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        error = (await relay.story(job)).view.result or ""
        assert f"`ekiden job retry {job} --call {job}.1:node=done:TEXT`" in error
        assert error.count("Check what it did") == 1
        await Person(stores).retry(job, done={f"{job}.1:node": "it was sent"})
        assert (await settle(relay, stores, job)).view.status == "done"

    on_server(scenario)
    assert len(ran) == 1


def test_what_was_said_of_a_node_holds_where_the_worker_that_goes_on_with_it_is_killed() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        send = replace(sending(ran, asyncio.Event().wait), timeout_s=0.01)  # type: ignore[arg-type]  # gives nothing
        node = {"name": "send", "tool": "send", "args": {"what": "it"}, "retry": 2}
        relay = Relay(stores, team(*beside(node)), Saying(), tools=[send])
        job = await relay.submit("go", agent="flow")
        await relay.drain()
        await Person(stores).retry(job, done={f"{job}.1:node": "it was sent"})
        await relay.step()
        newest = max(await family(stores, job))
        await relay.lose(newest, ())
        assert await stop_job(stores.jobs, newest, "deadline") == "ok"
        await settle(relay, stores, job)
        await Person(stores).retry(job)
        return await settle(relay, stores, job)

    assert on_server(scenario).view.status == "done"
    assert len(ran) == 1


@pytest.mark.parametrize("is_done", [True, False])
def test_a_job_of_whose_call_a_person_has_said_it_goes_the_same_way_again(is_done: bool, tmp_path: Path) -> None:
    alone = ModelReplied(leg=1, turn=1, message=calls(call("c1", "pay", what="5")).message)

    async def scenario(stores: Stores) -> tuple[str, list[Entry]]:
        relay, job = await out_of_time(stores, [], [alone, BEGUN[1]])
        await Person(stores).retry(job, done={"c1": "receipt 17"} if is_done else {}, undone=[] if is_done else ["c1"])
        await relay.drain()
        return job, await journal_of(stores.jobs, job)

    async def once_more(stores: Stores) -> list[Entry]:
        relay = Relay(stores, team(SOLO), Replies({}), tools=tools([]), recordings=Recordings(tmp_path))
        assert await relay.submit("pay the bill", agent="solo") == job
        await relay.drain()
        return await journal_of(stores.jobs, job)

    job, entries = on_server(scenario)
    write_recording(tmp_path, session_of(job), recording_of({job: entries}))
    played = on_server(once_more)
    assert first_difference(decisions_of({job: entries}), decisions_of({job: played})) is None
