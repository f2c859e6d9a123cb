"""Delegation, returns, completion and state through the real runner and stores."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.shared.records import Delegated, HandedOff, Nudged, StateChanged, ToolFinished
from ekiden.shared.relay.sweeper import end_overdue
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.builtin.state import set_state
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, Said, call, calls, said, tool_named

LEAD = {"name": "lead", "subagents": ["scout", "tester"]}
SCOUT: dict[str, Any] = {"name": "scout"}
TESTER: dict[str, Any] = {"name": "tester"}


def told(
    replies: Mapping[str, Sequence[Said]], *agents: Mapping[str, Any], tools: Sequence[str] = (), agent: str = "lead"
) -> tuple[Story, Replies]:
    """Run a job of a team to its end."""
    model = Replies(replies)

    async def scenario(stores: Stores) -> Story:
        has = [set_state if name == "set_state" else tool_named(name) for name in tools]
        return await Relay(stores, team(*agents), model, tools=has).told("do it", agent=agent)

    return on_server(scenario), model


def given(content: str) -> str:
    """What stands between the marks of a child's result."""
    first, *lines, last = content.split("\n")
    assert first.startswith("«fence ")
    assert last.startswith("«end of fence ")
    return "\n".join(lines)


def delegate(id_: str, agent: str, objective: str = "look") -> Any:
    """A call of an agent's own tool."""
    return call(id_, f"delegate_to_{agent}", objective=objective)


def test_children_run_and_their_results_come_in_call_order() -> None:
    story, model = told(
        {
            "lead": [calls(delegate("c1", "scout"), delegate("c2", "tester", "test it")), said("all is well")],
            "scout": [said("found it")],
            "tester": [said("it works")],
        },
        LEAD,
        SCOUT,
        TESTER,
    )
    assert (story.view.status, story.view.result) == ("done", "all is well")
    assert [(one.call_id, one.agent) for one in story.of(Delegated)] == [("c1", "scout"), ("c2", "tester")]
    assert [given(one.result.content) for one in story.of(ToolFinished)] == ["found it", "it works"]
    [child] = model.asked("tester")
    assert "test it" in child.messages[0].text
    assert "do it" not in child.messages[0].text, "a child knows what it was given and nothing else"


def test_the_single_tool_delegates_too() -> None:
    asked = call("c1", "delegate_to_agent", agent_name="scout", objective="look")
    story, model = told({"lead": [calls(asked), said("done")], "scout": [said("found")]}, LEAD, SCOUT, TESTER)
    assert given(story.results["c1"]) == "found"
    assert {"delegate_to_scout", "delegate_to_tester"} <= {tool.name for tool in model.asked("lead")[0].tools}
    single = {**LEAD, "transfer": "single"}
    _, model = told({"lead": [calls(asked), said("done")], "scout": [said("found")]}, single, SCOUT, TESTER)
    assert [tool.name for tool in model.asked("lead")[0].tools] == ["delegate_to_agent"]


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("delegate_to_nobody", {"objective": "x"}, "'scout', 'tester' are there"),
        ("delegate_to_scout", {}, "'objective' is a required property"),
        ("delegate_to_agent", {"agent_name": "lead", "objective": "x"}, "'scout', 'tester' are there"),
    ],
)
def test_a_delegation_that_cannot_be_is_answered_with_what_can(name: str, args: dict[str, Any], says: str) -> None:
    story, _ = told({"lead": [calls(call("c1", name, **args)), said("alone, then")]}, LEAD, SCOUT, TESTER)
    assert says in story.results["c1"]
    assert story.view.result == "alone, then"


def test_a_childs_failure_is_a_result_with_its_reason() -> None:
    weak = {**SCOUT, "limits": {"max_turns": 1, "grace_seconds": 0}}
    story, _ = told(
        {
            "lead": [calls(delegate("c1", "scout"), delegate("c2", "tester")), said("half")],
            "scout": [calls(call("t1", "read", what="x"))],
            "tester": [said("fine")],
        },
        LEAD,
        weak,
        TESTER,
        tools=["read"],
    )
    failed, fine = story.of(ToolFinished)
    assert failed.result.is_error
    assert "MAX_TURNS" in failed.result.content
    assert not fine.result.is_error


def test_the_first_success_is_enough_where_the_file_says_any() -> None:
    hasty = {**LEAD, "delegation": {"join": "any"}}
    story, _ = told(
        {
            "lead": [calls(delegate("c1", "scout"), delegate("c2", "tester")), said("one is enough")],
            "scout": [said("found")],
            "tester": [said("late")],
        },
        hasty,
        SCOUT,
        TESTER,
    )
    assert story.view.result == "one is enough"
    contents = [one.result.content for one in story.of(ToolFinished)]
    assert sum("Not needed" in content for content in contents) == 1


def test_ordinary_tools_run_before_and_a_transfer_comes_after_the_children() -> None:
    both = {**LEAD, "handoffs": ["tester"]}
    turn = calls(call("h", "transfer_to_tester", reason="go on"), delegate("c1", "scout"), call("t", "read", what="x"))
    story, _ = told(
        {"lead": [turn], "scout": [said("found")], "tester": [said("end")]}, both, SCOUT, TESTER, tools=["read"]
    )
    assert story.chain == ["lead", "tester"]
    assert list(story.results) == ["t", "c1"]


def test_a_child_has_no_tool_that_its_parent_may_not_use_nor_has_who_it_hands_over_to() -> None:
    strict = {**LEAD, "tools": ["inspect"]}
    free = {**SCOUT, "tools": ["inspect", "note_down"], "handoffs": ["tester"]}
    _, model = told(
        {
            "lead": [calls(delegate("c1", "scout")), said("ok")],
            "scout": [calls(call("h", "transfer_to_tester", reason="go on"))],
            "tester": [said("end")],
        },
        strict,
        free,
        TESTER,
        tools=["inspect", "note_down"],
    )
    assert {tool.name for tool in model.asked("scout")[0].tools} == {"inspect", "transfer_to_tester"}
    assert {tool.name for tool in model.asked("tester")[0].tools} == {"inspect"}


def test_delegation_ends_where_the_depth_does() -> None:
    shallow = {"name": "lead", "subagents": ["scout"], "limits": {"max_handoff_depth": 1}}
    deep = {"name": "scout", "subagents": ["tester"], "handoffs": ["tester"]}
    story, model = told(
        {
            "lead": [calls(delegate("c1", "scout")), said("ok")],
            "scout": [
                calls(delegate("d1", "tester")),
                calls(call("h", "transfer_to_tester", reason="go on")),
                said("alone"),
            ],
        },
        shallow,
        deep,
        TESTER,
    )
    assert given(story.results["c1"]) == "alone"
    told_scout = "\n".join(result.content for message in model.asked("scout")[2].messages for result in message.results)
    assert told_scout.count("MAX_DEPTH_EXCEEDED") == 2


def test_too_many_delegations_in_a_turn_wait_for_the_next_one() -> None:
    few = {**LEAD, "delegation": {"max_children": 2}}
    asked = calls(*(delegate(f"c{n}", "scout", f"part {n}") for n in range(3)))
    story, _ = told({"lead": [asked, said("ok")], "scout": [said("a"), said("b")]}, few, SCOUT, TESTER)
    assert "2 delegations in a turn" in story.results["c2"]
    assert story.view.status == "done"


def test_a_structured_result_is_validated_and_comes_back_as_json() -> None:
    schema = {
        "type": "object",
        "properties": {"files": {"type": "array", "items": {"type": "string"}}},
        "required": ["files"],
    }
    strict = {
        **SCOUT,
        "complete_task": True,
        "output": {"name": "report", "schema": schema, "state": {"found": "files.0"}},
    }
    story, model = told(
        {
            "lead": [calls(delegate("c1", "scout")), said("ok")],
            "scout": [
                calls(call("x1", "complete_task", report={"files": ["a.py", 3]})),
                calls(call("x2", "complete_task", report={"files": ["a.py"]})),
            ],
        },
        LEAD,
        strict,
        TESTER,
    )
    assert json.loads(given(story.results["c1"])) == {"files": ["a.py"]}
    mended = model.asked("scout")[1].messages[-1].results[0]
    assert mended.is_error
    assert "files[1]" in mended.content


class Finding(BaseModel):
    file: str


class Report(BaseModel):
    findings: list[Finding]


def test_an_output_may_be_declared_as_pydantic_writes_it() -> None:
    schema = Report.model_json_schema()
    assert "$defs" in schema
    strict = {"name": "solo", "complete_task": True, "output": {"name": "report", "schema": schema}}
    wrong = calls(call("x1", "complete_task", report={"findings": [{"file": 3}]}))
    right = calls(call("x2", "complete_task", report={"findings": [{"file": "a.py"}]}))
    story, model = told({"solo": [wrong, right]}, strict, agent="solo")

    assert (story.view.status, story.view.result) == ("done", '{"findings": [{"file": "a.py"}]}')
    assert (
        "report.findings[0].file: 3 is not of type 'string'" in model.asked("solo")[1].messages[-1].results[0].content
    )


def test_an_agent_that_must_complete_its_task_is_told_once_and_fails_then() -> None:
    must = {"name": "solo", "complete_task": True}
    story, _ = told({"solo": [said("here"), calls(call("c", "complete_task", result="42"))]}, must, agent="solo")
    assert (story.view.status, story.view.result) == ("done", "42")
    assert len(story.of(Nudged)) == 1
    story, _ = told({"solo": [said("here"), said("really"), said("yes")]}, must, agent="solo")
    assert (story.view.status, story.view.reason) == ("failed", "ERROR_NO_COMPLETE_TASK_CALL")


def test_an_agent_that_only_says_it_hands_over_is_nudged_once() -> None:
    lead = {"name": "lead", "handoffs": ["scout"]}
    wordy = said("I will hand this over to the Scout now.")
    story, _ = told(
        {"lead": [wordy, calls(call("h", "transfer_to_scout", reason="go"))], "scout": [said("end")]}, lead, SCOUT
    )
    assert story.chain == ["lead", "scout"]
    story, _ = told({"lead": [wordy, wordy]}, lead, SCOUT)
    assert story.view.result == "I will hand this over to the Scout now."
    assert len(story.of(Nudged)) == 1


@pytest.mark.parametrize("text", ["Done: the total is right now.", "The scout found it.", "我已修复。"])
def test_an_answer_is_not_taken_for_a_handover(text: str) -> None:
    lead = {"name": "lead", "handoffs": ["scout"]}
    story, _ = told({"lead": [said(text)]}, lead, SCOUT)
    assert story.view.result == text
    assert not story.of(Nudged)


def test_control_comes_back_with_the_result_and_costs_no_depth() -> None:
    lead = {"name": "lead", "handoffs": [{"to": "scout", "return": True}], "limits": {"max_handoff_depth": 2}}
    twice = [calls(call(f"h{n}", "transfer_to_scout", reason=f"time {n}"), text=f"try {n}") for n in range(2)]
    story, model = told({"lead": [*twice, said("both done")], "scout": [said("first"), said("second")]}, lead, SCOUT)
    assert (story.view.status, story.view.result) == ("done", "both done")
    assert story.chain == ["lead", "scout", "lead", "scout", "lead"]
    last = model.asked("lead")[-1].messages
    answers = [result.content for message in last for result in message.results]
    assert ["first" in answers[0], "second" in answers[1], len(answers)] == [True, True, 2]


def test_control_comes_back_however_the_target_ends() -> None:
    lead = {"name": "lead", "handoffs": [{"to": "scout", "return": True}]}
    weak = {**SCOUT, "limits": {"max_turns": 1, "grace_seconds": 0}}
    go = calls(call("h", "transfer_to_scout", reason="go"))
    story, model = told(
        {"lead": [go, said("alone, then")], "scout": [calls(call("t", "read", what="x"))]}, lead, weak, tools=["read"]
    )
    assert story.view.result == "alone, then"
    [back] = model.asked("lead")[-1].messages[-1].results
    assert back.is_error
    assert "max_turns" in back.content


def test_exit_ends_the_job_though_somebody_waits() -> None:
    lead = {"name": "lead", "handoffs": [{"to": "scout", "return": True}]}
    go = calls(call("h", "transfer_to_scout", reason="go"))
    story, model = told({"lead": [go], "scout": [calls(call("x", "exit", answer="that is all"))]}, lead, SCOUT)
    assert (story.view.status, story.view.result) == ("done", "that is all")
    assert "exit" in {tool.name for tool in model.asked("scout")[0].tools}
    assert "exit" not in {tool.name for tool in model.asked("lead")[0].tools}


def test_an_agent_that_names_exit_among_its_tools_has_it() -> None:
    solo = {"name": "solo", "tools": ["exit"]}
    story, _ = told({"solo": [calls(call("x", "exit", answer="out"))]}, solo, agent="solo")
    assert story.view.result == "out"


def test_an_automatic_handoff_is_taken_on_completion_when_its_condition_holds() -> None:
    lead = {
        "name": "lead",
        "handoffs": [
            {"to": "tester", "when": "auto", "condition": "state.broken == true"},
            {"to": "scout", "when": "auto"},
        ],
    }
    story, model = told({"lead": [said("my part is done")], "scout": [said("end")]}, lead, SCOUT, TESTER)
    assert story.chain == ["lead", "scout"]
    assert story.of(HandedOff)[-1].call_id is None
    assert not any("transfer" in tool.name for tool in model.asked("lead")[0].tools), "it is not the model's to decide"
    noting = [calls(call("s", "set_state", values={"broken": True})), said("noted")]
    story, _ = told({"lead": noting, "tester": [said("end")]}, lead, SCOUT, TESTER, tools=["set_state"])
    assert story.chain == ["lead", "tester"]


def test_a_refused_automatic_handoff_leaves_the_answer() -> None:
    lead = {"name": "lead", "handoffs": [{"to": "scout", "when": "auto"}], "limits": {"max_handoff_depth": 0}}
    story, _ = told({"lead": [said("the answer")]}, lead, SCOUT)
    assert (story.view.status, story.view.result) == ("done", "the answer")
    assert story.codes == ["MAX_DEPTH_EXCEEDED"]


def test_variables_are_seen_by_the_next_agent_and_kept_with_the_session() -> None:
    lead = {"name": "lead", "handoffs": [{"to": "scout", "when": "state.ready == true"}]}
    noting = [
        calls(call("s", "set_state", values={"ready": True, "n": 1})),
        calls(call("h", "transfer_to_scout", reason="go")),
    ]
    model = Replies({"lead": noting, "scout": [said("end")]})

    async def scenario(stores: Stores) -> tuple[Story, dict[str, Any]]:
        relay = Relay(stores, team(lead, SCOUT), model, tools=[set_state])
        job = await relay.submit("do it", agent="lead", state={"given": "文"})
        await relay.drain()
        return await relay.story(job), await stores.sessions.state(job.partition(".")[0])

    story, state = on_server(scenario)
    assert story.chain == ["lead", "scout"]
    assert state == {"given": "文", "n": 1, "ready": True}
    assert [record.changes for record in story.of(StateChanged)] == [{"ready": True, "n": 1}]
    offered = [{tool.name for tool in request.tools} for request in model.asked("lead")]
    assert [("transfer_to_scout" in names) for names in offered] == [False, True], "the gate opens when it holds"


def test_a_cancelled_parent_takes_its_children_along() -> None:
    model = Replies({"lead": [calls(delegate("c1", "scout"), delegate("c2", "tester"))]})

    async def scenario(stores: Stores) -> list[str]:
        relay = Relay(stores, team(LEAD, SCOUT, TESTER), model)
        job = await relay.submit("do it", agent="lead")
        await relay.step()
        await relay.step()
        await stop_job(stores.jobs, job, "user")
        assert await end_overdue(stores.jobs) == 2
        await relay.drain()
        return [(await stores.jobs.job(one)).status for one in (job, f"{job}.1", f"{job}.2")]

    assert on_server(scenario) == ["cancelled"] * 3


def test_the_budget_of_the_root_stops_its_children() -> None:
    poor = {**LEAD, "limits": {"max_tokens": 10}}
    spent = said("found").model_copy(update={"usage": said("x").usage.model_copy(update={"input_tokens": 12})})
    story, _ = told(
        {"lead": [calls(delegate("c1", "scout")), said("all there is")], "scout": [spent]}, poor, SCOUT, TESTER
    )
    assert (story.view.status, story.view.reason, story.end.recovered) == ("done", "MAX_TOKENS", True)


def test_who_could_not_do_the_task_says_so_instead_of_a_result() -> None:
    must = {"name": "solo", "complete_task": True, "output": {"name": "report", "schema": Report.model_json_schema()}}
    gives_up = call("c2", "complete_task", status="unfinished", why="nobody may read x.py")
    replies = [calls(call("c1", "complete_task", status="unfinished")), calls(gives_up)]
    story, model = told({"solo": replies}, must, agent="solo")
    assert (story.view.status, story.view.reason) == ("unfinished", "GOAL_NOT_REACHED")
    assert story.view.result == "nobody may read x.py"
    assert "'why' is a required property" in model.asked("solo")[1].messages[-1].results[0].content


def test_an_output_may_have_the_name_of_the_status() -> None:
    named = {"name": "solo", "complete_task": True, "output": {"name": "status"}}
    story, _ = told({"solo": [calls(call("c1", "complete_task", status="unfinished"))]}, named, agent="solo")
    assert (story.view.status, story.view.result) == ("done", "unfinished")


def test_a_parent_reads_that_a_child_has_not_finished_and_does_not_count_it_as_a_success() -> None:
    child = {**SCOUT, "complete_task": True}
    first = {**LEAD, "delegation": {"join": "any"}}
    gives_up = calls(call("x1", "complete_task", status="unfinished", why="there is no map"))
    asked = calls(delegate("c1", "scout"), delegate("c2", "tester"))
    replies = {"lead": [asked, said("ok")], "scout": [gives_up], "tester": [said("it works")]}
    story, _ = told(replies, first, child, TESTER)
    assert given(story.results["c1"]) == "unfinished: there is no map"
    assert given(story.results["c2"]) == "it works"
    assert [one.result.is_error for one in story.of(ToolFinished)] == [True, False]
