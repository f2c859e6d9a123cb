"""A fork goes on behind the steps of another job: what stands there is neither asked nor done again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.forking.client_part import ForkedJob, Forking
from ekiden.dispatcher.forking.points import ForkPoint
from ekiden.shared.approvals import Answer
from ekiden.shared.composition import LateHooks
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import InvalidRequest, NoCatalog, UnknownAgent
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.records import (
    ApprovalAsked,
    Entry,
    Forked,
    HandedOff,
    JobRequested,
    ModelReplied,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.risk import Risk
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import ToolContext
from tests.scenarios.relay import Relay, on_server, team, text_of
from tests.unit.workers.test_graphs import edge, graph
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import Replies, What, call, calls, handing_over, said, tool_named

TEAM = team(
    {"name": "lead", "handoffs": ["fixer"]}, {"name": "fixer", "limits": {"job": {"max_turns": 9}}}, {"name": "writer"}
)
LOW: tuple[Risk, ...] = ("low",)
LEAD: list[ModelReply] = [
    *(calls(call(f"l{n}", "look", what=str(n))) for n in range(1, 6)),
    calls(handing_over("l6", "fixer")),
]
FIXER: list[ModelReply] = [calls(call("f1", "look"), call("f2", "write")), said("It is repaired.")]


class Forker(Forking):
    """The part of a client that forks, on a connection that is there."""

    def __init__(self, stores: Stores) -> None:
        self._stores, self._hooks = stores, LateHooks("tests")


class World:
    """A job that has ended, and what happens in its forks."""

    def __init__(self, stores: Stores, catalog: Catalog = TEAM, **changes: Any) -> None:
        self.stores, self.client = stores, Forker(stores)
        self.ran: list[str] = []
        self.model = Replies({"lead": LEAD, "fixer": FIXER, "writer": [said("Written."), said("Again.")]})
        tools = [tool_named(name, ran=self.ran) for name in ("look", "write")]
        self.relay = Relay(stores, catalog, self.model, **{"tools": tools} | changes)
        self.job = ""

    async def run(self, prompt: str = "repair it", **how: Any) -> "World":
        """Run the job to its end, and forget what was asked and done."""
        self.job = await self.relay.submit(prompt, agent="lead", **how)
        await self.relay.drain()
        self.forget()
        return self

    def forget(self) -> None:
        self.model.requests.clear()
        self.ran.clear()

    async def entries(self) -> list[Entry]:
        return await journal_of(self.stores.jobs, self.job)

    async def point(self, what: str) -> ForkPoint:
        """The point of which the list says ``what`` comes next."""
        points = await self.client.fork_points(self.job)
        return next(point for point in points if point.what == what)

    async def forked(self, what: str, **how: Any) -> ForkedJob:
        """Fork the job there, and run the fork to its end."""
        forked = await self.client.fork(self.job, (await self.point(what)).seq, **how)
        await self.relay.drain()
        return forked


def on_world(scenario: Callable[[World], Awaitable[None]], **how: Any) -> None:
    async def whole(stores: Stores) -> None:
        await scenario(await World(stores).run(**how))

    on_server(whole)


def test_lists_where_a_job_can_be_forked_and_what_comes_next() -> None:
    async def scenario(world: World) -> None:
        points = await world.client.fork_points(world.job)
        assert [(point.replies, point.what) for point in points] == [
            (0, "the routing"),
            (0, "lead begins"),
            (1, "lead makes the calls of turn 1: look"),
            (1, "lead begins turn 2"),
            (2, "lead makes the calls of turn 2: look"),
            (2, "lead begins turn 3"),
            (3, "lead makes the calls of turn 3: look"),
            (3, "lead begins turn 4"),
            (4, "lead makes the calls of turn 4: look"),
            (4, "lead begins turn 5"),
            (5, "lead makes the calls of turn 5: look"),
            (5, "lead begins turn 6"),
            (6, "lead makes the calls of turn 6: transfer_to_fixer"),
            (6, "fixer begins"),
            (7, "fixer makes the calls of turn 1: look, write"),
            (7, "fixer begins turn 2"),
            (8, "fixer has answered in turn 2"),
        ]
        entries = await world.entries()
        assert isinstance(entries[points[1].seq - 1].record, HandedOff)

    on_world(scenario)


def test_a_fork_at_the_seventh_step_reuses_six_answers_and_runs_no_tool_again() -> None:
    async def scenario(world: World) -> None:
        original = await world.relay.story(world.job)
        forked = await world.forked("fixer begins")
        assert (forked.point.replies, forked.origin, forked.is_new) == (6, world.job, True)
        assert [request.agent for request in world.model.requests] == ["fixer", "fixer"]
        assert world.ran == ["f1", "f2"]
        story = await world.relay.story(forked.job)
        assert (story.chain, story.end.answer) == (original.chain, original.end.answer)
        (record,) = story.of(Forked)
        assert (record.job, record.seq, record.replies) == (world.job, forked.point.seq, 6)
        assert await world.relay.story(world.job) == original

    on_world(scenario)


def test_an_unchanged_fork_asks_what_the_job_asked_from_every_point() -> None:
    async def scenario(world: World) -> None:
        asked = [one.fingerprint for one in (await world.relay.story(world.job)).of(ModelReplied)]
        for point in await world.client.fork_points(world.job):
            world.forget()
            forked = await world.client.fork(world.job, point.seq)
            await world.relay.drain()
            story = await world.relay.story(forked.job)
            assert [one.fingerprint for one in story.of(ModelReplied)] == asked, point
            assert len(world.model.requests) == len(asked) - point.replies
            assert story.end.answer == "It is repaired."

    on_world(scenario)


def test_a_step_between_the_points_is_refused_with_the_nearest_ones() -> None:
    async def scenario(world: World) -> None:
        started = next(entry.seq for entry in await world.entries() if isinstance(entry.record, ToolStarted))
        with pytest.raises(
            InvalidRequest, match=rf"cannot be forked at {started}.*{started - 1} \(lead makes the call"
        ):
            await world.client.fork(world.job, started)
        with pytest.raises(InvalidRequest, match="fixer has answered"):
            await world.client.fork(world.job, 9_999)

    on_world(scenario)


def test_words_that_the_user_adds_are_read_by_who_goes_on_and_by_who_comes_after() -> None:
    async def scenario(world: World) -> None:
        await world.forked("lead begins turn 6", prompt="用中文回答")
        lead, fixer, _ = world.model.requests
        assert lead.messages[-1].text == "用中文回答"
        assert text_of(lead.messages).count("用中文回答") == 1
        assert fixer.messages[0].text.startswith("repair it\n\n用中文回答")

    on_world(scenario)


def test_words_added_before_an_agents_first_turn_stand_with_the_request_after_a_crash_too() -> None:
    async def scenario(world: World) -> None:
        forked = await world.client.fork(world.job, (await world.point("fixer begins")).seq, prompt="briefly")
        await world.relay.lose(forked.job, [])
        await world.relay.wake(forked.job)
        await world.relay.drain()
        assert [one.messages[0].text.startswith("repair it\n\nbriefly") for one in world.model.requests] == [True, True]

    on_world(scenario)


def test_a_follow_up_behind_an_answer_goes_on_with_it() -> None:
    async def scenario(world: World) -> None:
        world.relay = Relay(world.stores, TEAM, Replies({"fixer": [*FIXER, said("Shorter.")]}))
        forked = await world.forked("fixer has answered in turn 2", prompt="shorter")
        story = await world.relay.story(forked.job)
        assert story.end.answer == "Shorter."
        messages = await world.stores.sessions.messages(forked.job.partition(".")[0])
        assert [one.message.text for one in messages] == ["repair it\n\nshorter", "Shorter."]

    on_world(scenario)


def test_before_the_routing_a_prompt_and_an_agent_take_the_place_of_what_was_asked() -> None:
    async def scenario(world: World) -> None:
        forked = await world.forked("the routing", prompt="write it", agent="writer")
        story = await world.relay.story(forked.job)
        assert story.chain == ["writer"]
        request = story.of(JobRequested)[0]
        assert (request.prompt, request.agent) == ("write it", "writer")
        with pytest.raises(UnknownAgent, match="writer"):
            await world.forked("the routing", agent="wirter")

    on_world(scenario)


def test_another_agent_is_put_in_charge_with_what_was_said_so_far() -> None:
    async def scenario(world: World) -> None:
        forked = await world.forked("lead makes the calls of turn 3: look", agent="writer", prompt="write a report")
        story = await world.relay.story(forked.job)
        assert story.chain == ["lead", "writer"]
        assert world.ran == []
        (asked,) = world.model.requests
        assert "the user has put it in charge" in text_of(asked.messages)
        assert asked.messages[0].text.startswith("repair it\n\nwrite a report")
        with pytest.raises(UnknownAgent):
            await world.forked("lead begins turn 2", agent="nobody")

    on_world(scenario)


def test_other_agent_files_count_for_the_fork_alone() -> None:
    async def scenario(world: World) -> None:
        edited = team({"name": "lead"}, {"name": "fixer", "prompt": "Repair it, and be polite."})
        in_force = await world.stores.catalogs.current()
        await world.forked("fixer begins", catalog=edited)
        assert world.model.requests[0].instructions.startswith("Repair it, and be polite.")
        assert await world.stores.catalogs.current() == in_force
        with pytest.raises(InvalidRequest, match="the dispatcher routes by the catalog in force"):
            await world.forked("the routing", catalog=edited)
        with pytest.raises(UnknownAgent, match="fixer"):
            await world.forked("fixer begins", catalog=team({"name": "lead"}))

    on_world(scenario)


def test_other_files_raise_their_own_limits_of_the_job_and_none_of_the_settings() -> None:
    def catalog(most: int) -> Catalog:
        return team({"name": "lead", "handoffs": ["fixer"], "limits": {"job": {"max_turns": most}}}, {"name": "fixer"})

    async def limits(world: World) -> dict[str, float]:
        forked = await world.client.fork(world.job, (await world.point("fixer begins")).seq, catalog=catalog(90))
        return {name: used.most for name, used in (await world.stores.jobs.job(forked.job)).limits.items()}

    async def scenario(stores: Stores) -> None:
        world = await World(stores, catalog(20)).run()
        assert await limits(world) == {"max_turns": 90}
        raw: Any = stores.client
        await raw.hset(keys.job(world.job), mapping={"max_turns": 15, "max_tokens": 5000})  # as the settings have it
        assert await limits(world) == {"max_turns": 15, "max_tokens": 5000}
        await raw.delete(keys.catalog(catalog(20).digest))
        assert await limits(world) == {"max_turns": 15, "max_tokens": 5000}

    on_server(scenario)


def test_a_job_whose_agents_are_gone_says_what_to_do_and_goes_on_with_other_files() -> None:
    async def scenario(world: World) -> None:
        await world.stores.client.delete(keys.catalog(TEAM.digest))
        with pytest.raises(NoCatalog, match="name a folder with agent files by --catalog"):
            await world.forked("fixer begins")
        forked = await world.forked("fixer begins", catalog=team({"name": "lead"}, {"name": "fixer"}))
        assert (await world.relay.story(forked.job)).end.answer == "It is repaired."

    on_world(scenario)


def test_a_fork_of_a_job_that_still_runs_leaves_it_alone() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores)
        world.job = await world.relay.submit("repair it", agent="lead")
        await world.relay.step()
        await world.relay.step()  # the lead has handed over; nobody has the fixer's leg yet
        before = await world.entries()
        forked = await world.client.fork(world.job, (await world.point("fixer begins")).seq)
        assert await world.entries() == before
        await world.relay.drain()
        assert (await world.relay.story(world.job)).end.answer == "It is repaired."
        assert (await world.relay.story(forked.job)).end.answer == "It is repaired."

    on_server(scenario)


def test_a_failed_jobs_fork_counts_its_limits_anew() -> None:
    tight = team({"name": "lead", "limits": {"max_turns": 3, "grace_seconds": 0}})

    async def scenario(stores: Stores) -> None:
        world = await World(stores, tight).run()
        assert (await world.relay.story(world.job)).end.reason == "MAX_TURNS"
        forked = await world.forked("lead begins turn 4")
        story = await world.relay.story(forked.job)
        assert (story.end.reason, len(world.model.requests)) == ("MAX_TURNS", 3)

    on_server(scenario)


def test_session_variables_are_as_they_were_and_can_be_set() -> None:
    async def write(args: What, context: ToolContext) -> str:
        context.state.set("x", args.what)
        context.state.set("y", "written")
        return "ok"

    async def scenario(stores: Stores) -> None:
        world = World(stores, tools=[tool_named("look", write), tool_named("write")])
        await world.run(state={"z": 1})
        session = world.job.partition(".")[0]
        assert await stores.sessions.state(session) == {"x": "", "y": "written", "z": 1}
        forked = await world.client.fork(world.job, (await world.point("lead begins")).seq)
        assert await stores.sessions.state(forked.job.partition(".")[0]) == {"z": 1}
        forked = await world.client.fork(world.job, (await world.point("lead begins turn 3")).seq, state={"x": "mine"})
        assert await stores.sessions.state(forked.job.partition(".")[0]) == {"x": "mine", "y": "written", "z": 1}

    on_server(scenario)


def test_a_fork_has_what_was_said_in_the_session_before_the_job_and_not_after() -> None:
    async def scenario(stores: Stores) -> None:
        world = await World(stores).run("first")
        session = world.job.partition(".")[0]
        await world.run("second", session=session)
        second = world.job
        await world.run("third", session=session)
        world.job = second
        forked = await world.client.fork(second, 1)
        said_there = await stores.sessions.messages(forked.job.partition(".")[0])
        assert [one.message.text for one in said_there] == ["first", "It is repaired."]
        assert forked.job.endswith(".2")

    on_server(scenario)


def test_no_approval_of_the_job_counts_in_its_fork() -> None:
    async def scenario(world: World) -> None:
        forked = await world.client.fork(world.job, 1)
        request = (await world.stores.jobs.journal(forked.job))[0].record
        assert isinstance(request, JobRequested)
        assert request.approve == ()
        forked = await world.client.fork(world.job, 1, approve=LOW, when_asked="deny")
        request = (await world.stores.jobs.journal(forked.job))[0].record
        assert isinstance(request, JobRequested)
        assert (request.approve, request.when_asked) == (("low",), "deny")

    on_world(scenario, approve=("low", "high"))


def test_what_a_person_has_approved_for_the_job_is_asked_again_in_the_fork() -> None:
    rule = Rule("ask", "the table", "the table", ("look",), reason="it must be asked")

    async def scenario(stores: Stores) -> None:
        world = World(stores, policy=Policy((rule,)))
        world.job = await world.relay.submit("repair it", agent="lead")
        await world.relay.drain()
        assert await approved(world, world.job) == ["look", "write"]
        whats = [point.what for point in await world.client.fork_points(world.job)]
        assert whats[2:5] == [
            "lead makes the calls of turn 1: look",
            "lead begins turn 2",
            "lead makes the calls of turn 2: look",
        ]
        forked = await world.forked("lead begins turn 3")
        assert [one.id for one in await stores.jobs.waiting(forked.job)] == [f"{forked.job}:2"]
        assert await approved(world, forked.job) == ["look", "write"]
        assert (await world.relay.story(forked.job)).end.answer == "It is repaired."

    on_server(scenario)


async def approved(world: World, job: str) -> list[str]:
    """Approve for the whole job whatever it asks, until it ends; return of which tools."""
    client, tools = Client("redis://127.0.0.1:1"), list[str]()
    client._stores = world.stores
    while waiting := await world.stores.jobs.waiting(job):
        tools.append(waiting[0].tool)
        await client.answer(waiting[0].id, Answer("approved", waiting[0].digest, always_for_job=True))
        await world.relay.drain()
    return tools


def test_control_comes_back_in_a_fork_to_who_waits_and_who_waits_must_be_there() -> None:
    catalog = team({"name": "lead", "handoffs": [{"to": "fixer", "return": True}]}, {"name": "fixer"})

    async def scenario(stores: Stores) -> None:
        model = Replies({"lead": [calls(handing_over("h", "fixer")), said("So it is.")], "fixer": [said("Fixed.")]})
        world = World(stores, catalog)
        world.relay, world.model = Relay(stores, catalog, model), model
        await world.run()
        forked = await world.forked("fixer begins")
        assert (await world.relay.story(forked.job)).end.answer == "So it is."
        with pytest.raises(UnknownAgent, match="lead"):
            await world.forked("fixer begins", catalog=team({"name": "fixer"}))

    on_server(scenario)


def test_a_delegated_job_is_refused_with_where_its_caller_can_be_forked() -> None:
    catalog = team({"name": "lead", "subagents": ["fixer"]}, {"name": "fixer"})

    async def scenario(stores: Stores) -> None:
        world = World(stores, catalog)
        model = Replies(
            {
                "lead": [calls(call("d", "delegate_to_fixer", objective="fix")), said("So be it.")],
                "fixer": [said("Fixed.")],
            }
        )
        world.relay = Relay(stores, catalog, model)
        await world.run()
        with pytest.raises(InvalidRequest, match=rf"works for job '{world.job}', which delegated it at step \d+"):
            await world.client.fork_points(f"{world.job}.1")
        whats = [point.what for point in await world.client.fork_points(world.job)]
        assert whats[-3:] == [
            "lead makes the calls of turn 1: delegate_to_fixer",
            "lead begins turn 2",
            "lead has answered in turn 2",
        ]
        forked = await world.forked("lead makes the calls of turn 1: delegate_to_fixer")
        assert (await stores.jobs.job(f"{forked.job}.1")).status == "done"
        forked = await world.forked("lead begins turn 2")
        assert (await world.relay.story(forked.job)).end.answer == "So be it."

    on_server(scenario)


def test_a_graph_goes_on_in_a_fork_from_every_step_that_nothing_is_under_way_at() -> None:
    steps = graph("one", "two", "three", {"name": "four", "agent": "four", "join": "all"}, edges=[
        edge("one", "two"), edge("one", "three"), edge("two", "four"), edge("three", "four"), edge("four", "END")
    ])  # fmt: skip
    names = ("one", "two", "three", "four")
    catalog = team(steps, *({"name": name} for name in names))

    async def scenario(stores: Stores) -> None:
        world = World(stores, catalog)
        world.model = Replies({name: [said(f"{name} is done")] for name in names})
        world.relay = Relay(stores, catalog, world.model)
        world.job = await world.relay.submit("go", agent="flow")
        await world.relay.drain()
        answer, asked = (await world.relay.story(world.job)).end.answer, {}
        for point in await world.client.fork_points(world.job):
            world.forget()
            forked = await world.client.fork(world.job, point.seq)
            await world.relay.drain()
            assert (await world.relay.story(forked.job)).end.answer == answer, point
            asked[point.what] = sorted(request.agent for request in world.model.requests)
        assert asked["one begins"] == sorted(names)
        assert asked["four begins"] == ["four"]

    on_server(scenario)


def test_a_fork_in_a_graph_wants_agent_files_with_the_graph_and_its_nodes() -> None:
    plain = ({"name": "one"}, {"name": "two"})
    catalog = team(graph("one", "two", edges=[edge("one", "two")]), *plain)
    without = {
        "'flow', which the agent files have no more": team(*plain),
        "'flow', which is no graph in the agent files": team({"name": "flow"}, *plain),
        "node 'two'": team(graph("one", {"name": "second", "agent": "two"}, edges=[edge("one", "second")]), *plain),
    }

    async def scenario(stores: Stores) -> None:
        world = World(stores, catalog)
        world.model = Replies({name: [said("done")] for name in ("one", "two")})
        world.relay = Relay(stores, catalog, world.model)
        world.job = await world.relay.submit("go", agent="flow")
        await world.relay.drain()
        at = (await world.point("two begins")).seq
        for why, other in without.items():
            with pytest.raises(InvalidRequest, match=why):
                await world.client.fork(world.job, at, catalog=other)
        edges = [edge("one", "two"), edge("two", "three")]
        other = team(graph("one", "two", {"name": "three", "agent": "one"}, edges=edges), *plain)
        world.model = Replies({"one": [said("done"), said("done")], "two": [said("done")]})
        world.relay = Relay(stores, catalog, world.model)
        forked = await world.forked("two begins", catalog=other)
        assert (await world.relay.story(forked.job)).view.status == "done"

    on_server(scenario)


def test_a_fork_tells_whether_the_agent_files_are_those_that_the_job_has() -> None:
    async def scenario(world: World) -> None:
        files = team({"name": "lead", "handoffs": ["fixer"], "prompt": "Be polite."}, {"name": "fixer"})
        at = (await world.point("lead begins")).seq
        assert not (await world.client.fork(world.job, at)).has_same_agents
        assert not (await world.client.fork(world.job, at, catalog=files)).has_same_agents
        assert (await world.client.fork(world.job, at, catalog=TEAM)).has_same_agents

    on_world(scenario)


def test_a_worker_that_dies_in_a_fork_loses_nothing() -> None:
    async def scenario(world: World) -> None:
        forked = await world.client.fork(world.job, (await world.point("fixer begins")).seq)
        entries = await world.entries()
        reply = next(one.record for one in entries if isinstance(one.record, ModelReplied) and one.record.leg == 2)
        await world.relay.lose(forked.job, [reply])
        await world.relay.wake(forked.job)
        await world.relay.drain()
        assert len(world.model.requests) == 1
        assert (await world.relay.story(forked.job)).end.answer == "It is repaired."

    on_world(scenario)


def test_a_forked_job_can_be_forked(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        first = await world.forked("fixer begins")
        world.job, world.client = first.job, Forker(world.stores)
        world.forget()
        second = await world.forked("fixer begins turn 2")
        assert (second.point.replies, len(world.model.requests)) == (7, 1)
        story = await world.relay.story(second.job)
        assert [one.job for one in story.of(Forked)][-1] == first.job
        assert not story.of(ApprovalAsked)
        assert len(story.of(ToolFinished)) == 7

    on_world(scenario)


PII = {"name": "no_pii", "validator": "custom"}
MAIL = "write to joe.doe@gmail.com"


@pytest.mark.parametrize("where", ["the routing", "lead begins", "lead begins turn 3", "fixer begins"])
@pytest.mark.parametrize("whose", ["operator", "agent"])
def test_what_a_fork_adds_is_judged_as_the_request_is(where: str, whose: str) -> None:
    guarded = [] if whose == "operator" else [{**PII, "on": "input"}]
    agents = team(
        {"name": "lead", "handoffs": ["fixer"], "guardrails": guarded}, {"name": "fixer", "guardrails": guarded}
    )

    async def scenario(stores: Stores) -> None:
        world = await World(stores, agents, request_rails=[PII] if whose == "operator" else ()).run()
        story = await world.relay.story((await world.forked(where, prompt=MAIL)).job)
        assert (story.view.reason, world.model.requests, world.ran) == ("GUARDRAIL", [], [])
        assert (await world.relay.story((await world.forked(where, prompt="in German")).job)).view.status == "done"

    on_server(scenario)


def test_what_a_fork_of_a_fork_adds_in_the_same_turn_is_judged_too() -> None:
    agents = team({"name": "lead", "handoffs": ["fixer"], "guardrails": [{**PII, "on": "input"}]}, {"name": "fixer"})

    async def scenario(stores: Stores) -> None:
        world = await World(stores, agents, request_rails=[PII]).run()
        forked = await world.forked("lead makes the calls of turn 2: look", prompt="in German")
        world.job = forked.job
        story = await world.relay.story((await world.forked("lead begins turn 3", prompt=MAIL)).job)
        assert story.view.reason == "GUARDRAIL"

    on_server(scenario)


@pytest.mark.parametrize("where", ["the routing", "lead begins turn 3"])
def test_session_variables_that_a_fork_sets_are_judged_by_the_operators_guardrails(where: str) -> None:
    async def scenario(stores: Stores) -> None:
        world = await World(stores, request_rails=[PII]).run()
        story = await world.relay.story((await world.forked(where, state={"note": MAIL})).job)
        assert (story.view.reason, world.model.requests) == ("GUARDRAIL", [])
        assert (await world.relay.story((await world.forked(where, state={"note": "Ada"})).job)).view.status == "done"

    on_server(scenario)


@pytest.mark.parametrize("where", ["lead begins turn 3", "fixer begins"])
@pytest.mark.parametrize("name", ["note", "other"])
def test_session_variables_that_a_fork_of_a_fork_sets_are_judged_too(where: str, name: str) -> None:
    async def scenario(stores: Stores) -> None:
        world = await World(stores, request_rails=[PII]).run()
        world.job = (await world.forked("lead begins turn 2", state={"note": "Ada"})).job
        world.forget()
        story = await world.relay.story((await world.forked(where, state={name: MAIL})).job)
        assert (story.view.reason, world.model.requests) == ("GUARDRAIL", [])
        story = await world.relay.story((await world.forked(where, state={name: "Bob"})).job)
        assert story.view.status == "done"

    on_server(scenario)


@pytest.mark.parametrize("where", ["lead begins", "lead begins turn 3"])
def test_hooks_before_an_agent_are_asked_with_what_a_fork_adds(where: str) -> None:
    seen: list[str] = []

    async def scenario(stores: Stores) -> None:
        world = await World(stores, hooks=[Saying("BeforeAgent", lambda event: seen.append(event.prompt))]).run()
        seen.clear()
        await world.forked(where, prompt="in German")
        assert seen[0] == "repair it\n\nin German"

    on_server(scenario)


SEEN_BY = {
    "its request": {"agent": "b"},
    "an expression": {"agent": "b", "inputs": {"objective": "task.prompt"}},
    "an item of a list": {"agent": "b", "for_each": "[1]", "inputs": {"objective": "task.prompt + string(item)"}},
}


@pytest.mark.parametrize("node", SEEN_BY.values(), ids=SEEN_BY)
def test_what_a_fork_adds_reaches_nodes_that_run_side_by_side(node: dict[str, Any]) -> None:
    edges = [edge("s", "a"), edge("s", "b"), edge("a", "c"), edge("b", "c")]
    agents = [graph("s", "a", {"name": "b", **node}, "c", edges=edges), *({"name": name} for name in "sabc")]

    async def scenario(stores: Stores) -> None:
        world = World(stores, team(*agents))
        world.model = Replies({name: [said(name), said(name)] for name in "sabc"})
        world.relay = Relay(stores, team(*agents), world.model)
        world.job = await world.relay.submit("repair it", agent="flow")
        await world.relay.drain()
        world.forget()
        await world.forked("s begins", prompt="in German")
        read = {one.agent: text_of(one.messages) for one in world.model.requests}
        assert {name for name, text in read.items() if "in German" in text} == set("sabc")

    on_server(scenario)


def test_what_a_fork_adds_is_the_objective_and_the_request_of_who_begins_then() -> None:
    lead = {"name": "lead", "handoffs": ["fixer"]}
    fixer = {"name": "fixer", "inputs": {"objective": {"type": "string"}}, "prompt": "Do this: ${objective}."}
    asked: list[str] = []
    hook = Saying("AfterAgent", lambda event: asked.append(event.prompt))

    async def scenario(stores: Stores) -> None:
        world = await World(stores, team(lead, fixer), hooks=[hook]).run()
        await world.forked("lead begins turn 6", prompt="in German")
        fixers = [one.instructions for one in world.model.requests if one.agent == "fixer"]
        assert "Do this: repair it\n\nin German." in fixers[0]
        assert asked[-1] == "repair it\n\nin German"

    on_server(scenario)
