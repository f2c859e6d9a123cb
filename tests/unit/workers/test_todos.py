"""The plan of an agent: what it writes is there for everybody, whoever goes on with the job."""

from typing import Any

import pytest

from ekiden.dispatcher.cli.views.chain import chain_json, show_chain
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.shared.records import ModelReplied
from ekiden.shared.stores.opening import Stores
from ekiden.shared.todos import Todo, listed, todos_in
from ekiden.workers.tools.builtin.todos import write_todos
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, call, calls, handing_over, said

PLAN = [{"description": "找出原因", "status": "completed"}, {"description": "repair it", "status": "in_progress"},
        {"description": "test it", "status": "pending"}]  # fmt: skip
LISTED = "1. [completed] 找出原因\n2. [in_progress] repair it\n3. [pending] test it"
TEAM = ({"name": "lead", "handoffs": ["fixer", {"to": "stranger", "include_context": False}]},
        {"name": "fixer", "handoffs": ["lead"]}, {"name": "stranger"})  # fmt: skip


def plan(call_id: str, *todos: dict[str, str]) -> Any:
    return call(call_id, "write_todos", todos=list(todos))


def told(**replies: Any) -> tuple[Story, Replies]:
    model = Replies(replies)

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, team(*TEAM), model, tools=[write_todos], cycles="limit:3").told("x", agent="lead")

    return on_server(scenario), model


def plan_of(story: Story) -> tuple[Todo, ...]:
    return todos_in(reversed(story.records))


def test_the_list_is_the_calls_result_and_the_last_one_holds() -> None:
    story, _ = told(lead=[calls(plan("p1", *PLAN)), calls(plan("p2", *PLAN[:2])), said("ok")])
    assert story.results["p1"] == f"The list is now:\n{LISTED}"
    assert listed(plan_of(story)) == LISTED.rpartition("\n")[0]
    story, _ = told(lead=[calls(plan("p1", *PLAN)), calls(plan("p2")), said("ok")])
    assert plan_of(story) == ()


@pytest.mark.parametrize(
    ("todos", "why"),
    [
        ([PLAN[1], PLAN[1]], "steps 1, 2 are in_progress, one at most may be"),
        ([{"description": "x", "status": "done"}], "status"),
        ([{"description": " \n", "status": "pending"}], "it is empty"),
        ([{"description": "x" * 1_001, "status": "pending"}], "at most 1000 characters"),
        ([PLAN[0]] * 101, "at most 100"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_and_the_one_before_holds(todos: Any, why: str) -> None:
    story, _ = told(lead=[calls(plan("p1", *PLAN)), calls(plan("p2", *todos)), said("ok")])
    assert why in story.results["p2"]
    assert listed(plan_of(story)) == LISTED


def test_who_takes_the_job_over_reads_the_plan_and_goes_on_with_it() -> None:
    done = [{**todo, "status": "completed"} for todo in PLAN]
    lead = [calls(plan("p1", *PLAN), handing_over("h1", "fixer")), said("all done")]
    fixer = [calls(plan("p2", *done)), calls(handing_over("h2", "lead"))]
    story, model = told(lead=lead, fixer=fixer)
    assert LISTED in model.asked("fixer")[0].messages[-1].text
    assert "plan so far" in model.asked("fixer")[0].messages[-1].text
    assert "3. [completed] test it" in model.asked("lead")[-1].messages[-1].text
    assert [todo.status for todo in plan_of(story)] == ["completed"] * 3


def test_a_handoff_without_history_shares_no_plan() -> None:
    _, model = told(lead=[calls(plan("p1", *PLAN), handing_over("h", "stranger"))], stranger=[said("ok")])
    assert "repair it" not in str(model.asked("stranger")[0].messages)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_plan_outlives_its_worker(cut: int) -> None:
    """Behind the reply, the call's start, its result."""
    replies = {"lead": [calls(plan("p1", *PLAN)), said("ok")]}
    records = [record for record in told(**replies)[0].records if record.leg == 1][1:-1]

    async def resumed(stores: Stores) -> Story:
        relay = Relay(stores, team(*TEAM), Replies(replies), tools=[write_todos])
        job = await relay.submit("x", agent="lead")
        await relay.step()
        await relay.lose(job, records[:cut])
        await relay.drain()
        return await relay.story(job)

    story = on_server(resumed)
    assert (listed(plan_of(story)), len(story.of(ModelReplied))) == (LISTED, 2)


def test_job_show_has_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(stores: Stores) -> None:
        model = Replies({"lead": [calls(plan("p1", *PLAN)), said("ok")]})
        job = (await Relay(stores, team(*TEAM), model, tools=[write_todos]).told("x", agent="lead")).view.id
        story = job_tree_story(job, {job: await stores.jobs.journal(job)})
        assert chain_json(story)["todos"] == PLAN
        show_chain(story)

    on_server(scenario)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[-3:]] == LISTED.splitlines()
