"""Graphs, step by step, through the real runner and stores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from ekiden.shared.approvals import Answer as Approved
from ekiden.shared.errors import ModelError, ToolError
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.policy.engine import Policy
from ekiden.shared.records import Delegated, HandedOff, NodeFinished, Noticed, StateChanged
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import Tool, ToolContext
from ekiden.workers.tools.builtin.asking import ask_user
from tests.contract.test_approvals import Inbox
from tests.scenarios.relay import ASKS_NOBODY, Relay, Story, on_server, team, text_of
from tests.unit.workers.world import Replies, Said, What, call, calls, handing_over, said, tool_named

JSON = {"schema": {"type": "object"}}


def agent(name: str, output: str = "", **fields: Any) -> dict[str, Any]:
    """An agent that answers in words, or with an object that conditions know by the name ``output``."""
    return {"name": name, **({"output": {"name": output, **JSON}} if output else {}), **fields}


def gave(**output: Any) -> Said:
    """An object as the answer; ``name`` is what the agent's file calls it."""
    [(name, value)] = output.items()
    return calls(call(f"end-{name}", "complete_task", **{name: value}))


def graph(*nodes: Any, edges: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """An agent ``flow`` that is a graph."""
    entry = more.pop("entry", nodes[0] if isinstance(nodes[0], str) else nodes[0]["name"])
    return {"name": "flow", "graph": {"entry": entry, "nodes": list(nodes), "edges": list(edges), **more}}


def edge(from_: str, to: str, condition: str = "", **more: Any) -> dict[str, Any]:
    return {"from": from_, "to": to, **({"condition": condition} if condition else {}), **more}


class ByLeg(Replies):
    """Gives the replies of an agent one a leg: a step of a graph does not read what was said in another."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.requests.append(request)
        reply = self._by_agent[request.agent][len(self.asked(request.agent)) - 1]
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, ModelReply)
        return reply


def ran(
    *agents: Mapping[str, Any],
    first: str = "flow",
    state: Mapping[str, Any] | None = None,
    says: Mapping[str, Sequence[Said]] | None = None,
    **replies: Sequence[Said],
) -> tuple[Story, Replies]:
    """Run a job that begins with ``first`` to its end; agents say what ``replies`` and ``says`` have for them."""
    model = ByLeg({**replies, **(says or {})})

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(*agents), model)
        job = await relay.submit("repair it", agent=first, state=state)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario), model


REPAIR = graph(
    {"name": "analyzer", "agent": "debug-analyzer"},
    {"name": "fixer", "agent": "code-fixer"},
    {"name": "reviewer", "agent": "code-reviewer"},
    edges=[
        edge("analyzer", "fixer", "analysis.can_auto_fix"),
        edge("fixer", "reviewer", "fix.applied"),
        edge("analyzer", "END", "analysis.needs_human"),
    ],
)
REPAIRERS = (agent("debug-analyzer", "analysis"), agent("code-fixer", "fix"), agent("code-reviewer"))


def test_a_graph_goes_along_the_edges_whose_conditions_hold_and_answers_with_its_last_output() -> None:
    story, _ = ran(
        REPAIR,
        *REPAIRERS,
        says={
            "debug-analyzer": [gave(analysis={"can_auto_fix": True, "needs_human": False})],
            "code-fixer": [gave(fix={"applied": True})],
            "code-reviewer": [said("well done")],
        },
    )
    assert (story.view.status, story.view.result) == ("done", "well done")
    assert story.chain == ["flow", "debug-analyzer", "code-fixer", "code-reviewer"]
    assert [(one.node, one.channel, one.next) for one in story.of(NodeFinished)] == [
        ("analyzer", "analysis", ("fixer",)),
        ("fixer", "fix", ("reviewer",)),
        ("reviewer", "reviewer", ("END",)),
    ]
    assert [record.kind for record in story.of(HandedOff)] == ["route", "edge", "edge", "edge"]
    assert story.of(HandedOff)[2].context.reason == "analyzer → fixer [if: analysis.can_auto_fix]"


def test_a_step_is_one_leg_and_names_the_graph_once_in_the_chain() -> None:
    story, _ = ran(graph("a", "b", edges=[edge("a", "b")]), agent("a"), agent("b"), a=[said("one")], b=[said("two")])
    last = story.of(HandedOff)[-1].context
    assert last.metadata.handoff_chain == ("user", "flow", "b")
    assert (last.metadata.chain_depth, story.view.depth, story.view.leg) == (0, 0, 3)


LOOP = graph(
    "writer",
    "critic",
    edges=[
        edge("writer", "critic"),
        edge("critic", "writer", "!verdict.good"),
        edge("critic", "END", default=True),
    ],
    max_rounds=50,
)


def loop(rounds: int, **more: Any) -> tuple[Story, Replies]:
    """Run a loop that ends in its ``rounds``-th round."""
    verdicts = [gave(verdict={"good": number == rounds}) for number in range(1, rounds + 1)]
    drafts = [said(f"draft {number}") for number in range(1, rounds + 1)]
    return ran(LOOP | more, agent("writer"), agent("critic", "verdict"), writer=drafts, critic=verdicts)


def test_a_loop_goes_round_until_its_condition_holds_and_its_chain_stays_as_long() -> None:
    story, _ = loop(12)
    assert (story.view.status, story.view.depth) == ("done", 0), story.view.result
    assert story.chain.count("writer") == 12
    assert {len(move.context.metadata.handoff_chain) for move in story.of(HandedOff)[1:]} == {3}


def test_each_round_reads_what_the_one_before_gave_and_no_more() -> None:
    _, model = loop(6)
    asked = model.asked("writer")
    assert "good" in text_of(asked[1].messages)
    assert "draft 1" not in text_of(asked[5].messages)
    assert len(asked[1].messages) == len(asked[5].messages)
    assert "Payload: writer: draft 3" in asked_by(model.asked("critic")[2])


def asked_by(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def test_a_node_that_would_begin_more_often_than_the_graph_allows_fails_the_job() -> None:
    story, _ = loop(30, graph={**LOOP["graph"], "max_rounds": 4})
    assert story.view.status == "failed"
    assert "node 'writer' has begun 4 times" in (story.view.result or "")
    assert story.chain.count("writer") == 4


def test_an_edge_holds_no_more_once_it_was_taken_as_often_as_it_may_be() -> None:
    edges = [edge("writer", "writer", max_rounds=2), edge("writer", "END", default=True)]
    story, _ = ran(graph("writer", edges=edges), agent("writer"), writer=[said("one"), said("two"), said("three")])
    assert (story.view.result, story.chain.count("writer")) == ("three", 3)


def test_where_no_edge_holds_the_job_fails_and_shows_each_condition_with_its_values() -> None:
    story, _ = ran(
        REPAIR, *REPAIRERS, says={"debug-analyzer": [gave(analysis={"can_auto_fix": False, "needs_human": False})]}
    )
    told = story.view.result or ""
    assert story.view.status == "failed"
    assert "no edge of node 'analyzer' holds" in told
    assert "analyzer → fixer [if: analysis.can_auto_fix]: false" in told
    assert "analyzer → END [if: analysis.needs_human]: false" in told
    assert '"can_auto_fix": false' in told


def test_a_condition_that_cannot_be_told_does_not_hold_and_says_why() -> None:
    story, _ = ran(REPAIR, *REPAIRERS, says={"debug-analyzer": [gave(analysis={"sure": True})]})
    assert story.view.status == "failed"
    told = story.view.result or ""
    assert '[if: analysis.can_auto_fix]: Key not found in map : "can_auto_fix"; analysis = ' in told


def test_a_condition_that_cannot_be_told_beside_an_edge_that_is_taken_is_said_once() -> None:
    edges = [
        edge("a", "b", "state.tries < 3"),
        edge("a", "a", max_rounds=2, condition="a.contains('again')"),
        edge("a", "END", default=True),
    ]
    story, _ = ran(graph("a", "b", edges=edges), agent("a"), agent("b"), a=[said("again"), said("again"), said("ok")])
    assert story.view.status == "done"
    [told] = story.of(Noticed)
    assert told.text == (
        "graph flow: a → b [if: state.tries < 3] is not taken, since it cannot be told: "
        'Key not found in map : "tries": has(…) asks whether it is there'
    )


def test_a_job_that_failed_where_no_edge_held_goes_on_there_when_it_is_retried() -> None:
    model = ByLeg(
        {
            "debug-analyzer": [gave(analysis={"lost": 1}), gave(analysis={"can_auto_fix": False, "needs_human": True})],
        }
    )

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(REPAIR, *REPAIRERS), model)
        job = await relay.submit("repair it", agent="flow")
        await relay.drain()
        await relay.retry(job)
        return await relay.story(job)

    assert on_server(scenario).view.status == "done"


def test_a_nodes_agent_may_hand_over_and_whoever_answers_then_completes_the_node() -> None:
    story, _ = ran(
        graph("a", "b", edges=[edge("a", "b")]),
        agent("a", handoffs=["helper"]),
        agent("helper"),
        agent("b"),
        a=[calls(handing_over("c1", "helper"))],
        helper=[said("helped")],
        b=[said("done")],
    )
    assert story.chain == ["flow", "a", "helper", "b"]
    assert [(one.node, one.output) for one in story.of(NodeFinished)] == [("a", "helped"), ("b", "done")]
    assert story.of(HandedOff)[-1].context.metadata.handoff_chain == ("user", "flow", "b")
    assert story.view.depth == 0


def test_handoffs_within_a_node_count_for_each_round_alone() -> None:
    """Else the third round would be too deep, and the second say the same again to an agent that had the job."""
    edges = [edge("a", "a", max_rounds=6), edge("a", "END", default=True)]
    story, _ = ran(
        graph("a", edges=edges),
        agent("a", handoffs=["helper"]),
        agent("helper"),
        a=[calls(handing_over("c1", "helper"))] * 7,
        helper=[said("helped")] * 7,
    )
    assert (story.view.status, story.codes, story.chain.count("helper")) == ("done", [], 7)


def test_a_node_that_waits_for_a_helper_goes_on_with_what_that_gives() -> None:
    story, _ = ran(
        graph("a", "b", edges=[edge("a", "b")]),
        agent("a", handoffs=[{"to": "helper", "return": True}]),
        agent("helper"),
        agent("b"),
        a=[calls(handing_over("c1", "helper")), said("with help")],
        helper=[said("helped")],
        b=[said("done")],
    )
    assert story.chain == ["flow", "a", "helper", "a", "b"]
    assert [(one.node, one.output) for one in story.of(NodeFinished)] == [("a", "with help"), ("b", "done")]


def test_who_called_a_graph_gets_its_answer() -> None:
    story, _ = ran(
        agent("lead", handoffs=[{"to": "flow", "return": True}]),
        graph("a", edges=[edge("a", "END")]),
        agent("a"),
        first="lead",
        lead=[calls(handing_over("c1", "flow")), said("thank you")],
        a=[said("from the graph")],
    )
    assert story.chain == ["lead", "flow", "a", "lead"]
    assert story.view.result == "thank you"


def test_automatic_handoffs_of_a_nodes_agent_are_left_to_the_edges() -> None:
    story, _ = ran(
        graph("a", edges=[edge("a", "END")]),
        agent("a", handoffs=[{"to": "b", "when": "auto"}]),
        agent("b"),
        a=[said("one")],
    )
    assert story.chain == ["flow", "a"]


def test_a_graph_within_a_graph_is_a_step_like_any_other() -> None:
    inner = {"name": "inner", "graph": {"entry": "x", "nodes": ["x", "y"], "edges": [edge("x", "y")]}}
    story, _ = ran(
        graph({"name": "first", "graph": "inner"}, "b", edges=[edge("first", "b", "first == 'y said'")]),
        inner,
        *map(agent, ("x", "y", "b")),
        x=[said("x said")],
        y=[said("y said")],
        b=[said("b said")],
    )
    assert story.chain == ["flow", "inner", "x", "y", "b"]
    assert [(one.graph, one.node) for one in story.of(NodeFinished)] == [
        ("inner", "x"), ("inner", "y"), ("flow", "first"), ("flow", "b")
    ]  # fmt: skip
    assert story.view.result == "b said"
    assert story.of(HandedOff)[3].context.metadata.handoff_chain == ("user", "flow", "inner", "y")


@pytest.mark.parametrize("entry", [["x"], ["x", "z"]])
def test_a_graph_in_a_graph_reads_what_its_node_is_given(entry: list[str]) -> None:
    last = {"name": "y", "agent": "y", "inputs": {"path": "task.inputs.path"}}
    takes: dict[str, Any] = {"inputs": {"path": {"type": "string"}}}
    inner = graph(*entry, last, entry=entry, edges=[edge(name, "y") for name in entry]) | {"name": "inner", **takes}
    _, model = ran(
        graph("a", {"name": "i", "graph": "inner", "inputs": {"path": "a.path"}}, edges=[edge("a", "i")]),
        inner,
        agent("a", "a"),
        *(agent(name, **takes) for name in "xyz"),
        says={"a": [gave(a={"path": "tea.py"})], **{name: [said(f"{name} said")] for name in "xyz"}},
    )
    for name in (*entry, "y"):
        [request] = model.asked(name)
        assert "path: tea.py" in request.messages[0].text


def test_inputs_of_a_node_are_what_its_agent_is_called_with() -> None:
    node = {"agent": "b", "inputs": {"file": "found.path", "times": "state.tries + 1"}}
    body: dict[str, Any] = {
        "inputs": {"file": {}, "times": {"type": "integer"}},
        "prompt": "Mend ${file}, try ${times}.",
    }
    story, model = ran(
        graph("a", node, edges=[edge("a", "b")], state={"tries": 2}),
        agent("a", "found"),
        agent("b", **body),
        a=[gave(found={"path": "a.py"})],
        b=[said("ok")],
    )
    [asked] = model.asked("b")
    assert "Mend a.py, try 3." in asked.instructions
    assert "file: a.py\ntimes: 3" in asked_by(asked)
    assert story.of(StateChanged)[0].changes == {"tries": 2}


def test_variables_that_the_session_has_already_stay_as_they_are_when_a_graph_begins() -> None:
    edges = [edge("a", "END", "state.tries == 7")]
    story, _ = ran(graph("a", edges=edges, state={"tries": 2}), agent("a"), state={"tries": 7}, a=[said("one")])
    assert story.view.status == "done"


def test_an_input_without_a_value_fails_the_job_and_names_it() -> None:
    node = {"agent": "b", "inputs": {"file": "found.path"}}
    story, _ = ran(
        graph("a", node, edges=[edge("a", "b")]),
        agent("a", "found"),
        agent("b", inputs={"file": {}}),
        a=[gave(found={"no": 1})],
    )
    assert story.view.status == "failed"
    assert "input 'file' of node 'b'" in (story.view.result or "")


def test_what_ends_a_job_at_once_ends_it_in_a_graph_too() -> None:
    story, _ = ran(
        graph("a", "b", edges=[edge("a", "b")]),
        agent("a", tools=["exit"]),
        agent("b"),
        a=[calls(call("c1", "exit", answer="enough"))],
    )
    assert (story.view.status, story.chain) == ("done", ["flow", "a"])


@pytest.mark.parametrize("form", ["sequential", "loop"])
def test_the_short_forms_run_as_the_graphs_that_they_are(form: str) -> None:
    flow = {"name": "flow", "orchestrate": form, "agents": ["a", "b"]}
    more = {"until": "b.good", "max_rounds": 5} if form == "loop" else {}
    story, _ = ran(
        flow | more,
        agent("a"),
        agent("b", "b"),
        a=[said("one"), said("two")],
        b=[gave(b={"good": form == "sequential"}), gave(b={"good": True})],
    )
    assert story.chain == ["flow", *["a", "b"] * (2 if form == "loop" else 1)]
    assert story.end.output == {"good": True}


def test_a_loop_that_ends_by_its_rounds_says_what_it_went_round_for_and_the_last_values() -> None:
    flow = {"name": "flow", "orchestrate": "loop", "agents": ["a", "b"], "until": "b.good", "max_rounds": 2}
    bad = {"good": False, "why": "too long"}
    story, _ = ran(flow, agent("a"), agent("b", "b"), a=[said("one"), said("two")], b=[gave(b=bad), gave(b=bad)])
    assert (story.view.status, story.end.output) == ("done", bad)
    [notice] = story.of(Noticed)
    assert notice.text == (
        "graph flow: 'until' has not held in as many rounds as 'max_rounds' allows (2): b.good; "
        'b = {"good": false, "why": "too long"}'
    )


def test_an_edge_that_still_holds_and_is_not_taken_any_more_is_told_of() -> None:
    edges = [edge("a", "a", "!a.good", max_rounds=1), edge("a", "END", default=True)]
    story, _ = ran(graph("a", edges=edges), agent("a", "a"), a=[gave(a={"good": False}), gave(a={"good": False})])
    [notice] = story.of(Noticed)
    assert notice.text == (
        "graph flow: a → a [if: !a.good] holds, but was taken as often as 'max_rounds' allows (1); "
        'a = {"good": false}'
    )
    story, _ = ran(graph("a", edges=edges), agent("a", "a"), a=[gave(a={"good": False}), gave(a={"good": True})])
    assert not story.of(Noticed)


def test_several_edges_that_hold_run_side_by_side_and_a_join_gets_what_all_of_them_gave() -> None:
    edges = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d")]
    story, model = ran(
        graph("a", "b", "c", "d", edges=edges),
        *map(agent, "abcd"),
        a=[said("split")],
        b=[said("left")],
        c=[said("right")],
        d=[said("both")],
    )
    assert (story.view.status, story.view.result) == ("done", "both")
    assert [record.call_id for record in story.of(Delegated)] == ["b#1", "c#1"]
    assert story.chain == ["flow", "a", "flow", "d"]
    [asked] = model.asked("d")
    assert "Payload: b: left\nc: right" in asked_by(asked)
    assert "objective: repair it\na: split" in asked_by(model.asked("b")[0])


def test_a_branch_goes_on_while_another_one_still_runs_and_the_join_waits_for_both() -> None:
    """``b`` is followed by ``e`` before ``c`` has ended; ``d`` begins once, behind both."""
    edges = [edge("a", "b"), edge("a", "c"), edge("b", "e"), edge("e", "d"), edge("c", "d")]
    story, model = ran(
        graph("a", "b", "c", "e", "d", edges=edges),
        *map(agent, "abcde"),
        says={name: [said(f"{name} said")] for name in "abcde"},
    )
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert [record.call_id for record in story.of(Delegated)] == ["b#1", "c#1", "e#1"]
    assert len(model.asked("d")) == 1


def test_where_one_branch_is_enough_the_others_are_given_up() -> None:
    nodes = ("a", "b", {"name": "d", "agent": "d", "join": "any"})
    story, _ = ran(
        graph(*nodes, edges=[edge("a", "d"), edge("b", "d")], entry=["a", "b"]),
        *map(agent, "abd"),
        says={name: [said(f"{name} said")] for name in "abd"},
    )
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert [one.node for one in story.of(NodeFinished) if not one.error] == ["a", "d"]


def test_a_quorum_goes_on_without_the_branches_that_failed() -> None:
    nodes = ("a", "b", "c", {"name": "d", "agent": "d", "join": "quorum:2"})
    story, model = ran(
        graph(*nodes, edges=[edge(name, "d") for name in "abc"], entry=list("abc")),
        *map(agent, "abcd"),
        a=[ModelError("broken")],
        says={name: [said(f"{name} said")] for name in "bcd"},
    )
    assert (story.view.status, story.view.result) == ("done", "d said")
    assert "b: b said\nc: c said" in asked_by(model.asked("d")[0])


def test_a_quorum_that_cannot_come_together_any_more_fails_the_job_and_says_why() -> None:
    nodes = ("a", "b", {"name": "d", "agent": "d", "join": "quorum:2"})
    story, _ = ran(
        graph(*nodes, edges=[edge(name, "d") for name in "ab"], entry=list("ab")),
        *map(agent, "abd"),
        a=[ModelError("broken")],
        b=[said("b said")],
    )
    assert story.view.status == "failed"
    told = story.view.result or ""
    assert "node 'd' waits for 1 more branches (join: quorum:2), and none can come to it any more" in told
    assert "- a: broken" in told


def test_a_branch_that_fails_fails_the_graph() -> None:
    story, _ = ran(
        graph("a", "b", "c", edges=[edge("a", "c"), edge("b", "c")], entry=["a", "b"]),
        *map(agent, "abc"),
        a=[ModelError("broken")],
        b=[said("b said")],
    )
    assert story.view.status == "failed"
    assert "node 'a' has failed: broken" in (story.view.result or "")


def test_a_job_whose_branch_failed_begins_what_had_not_ended_anew_when_it_is_retried() -> None:
    model = ByLeg({"a": [ModelError("broken"), said("a said")], "b": [said("b said")], "c": [said("c said")]})
    flow = graph("a", "b", "c", edges=[edge("a", "c"), edge("b", "c")], entry=["a", "b"])

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(flow, *map(agent, "abc")), model)
        job = await relay.submit("repair it", agent="flow")
        await relay.drain()
        await relay.retry(job)
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.view.status, story.view.result) == ("done", "c said")


@pytest.mark.parametrize(
    ("merge", "output"), [({"merge": "list"}, ["a said", {"x": 1}]), ({}, {"a": "a said", "b": {"x": 1}})]
)
def test_branches_that_end_by_themselves_give_one_answer(merge: dict[str, str], output: Any) -> None:
    flow = {"name": "flow", "orchestrate": "parallel", "agents": ["a", "b"], **merge}
    story, _ = ran(flow, agent("a"), agent("b", "b"), a=[said("a said")], b=[gave(b={"x": 1})])
    assert (story.view.status, story.end.output) == ("done", output)


def test_parallel_results_may_be_put_together_by_an_agent() -> None:
    flow = {"name": "flow", "orchestrate": "parallel", "agents": ["a", "b"], "merge": {"agent": "c"}}
    story, model = ran(flow, *map(agent, "abc"), a=[said("a said")], b=[said("b said")], c=[said("together")])
    assert story.view.result == "together"
    assert "a: a said\nb: b said" in asked_by(model.asked("c")[0])


@pytest.mark.parametrize("fails", [2, 3])
def test_a_node_is_tried_again_as_often_as_its_file_says(fails: int) -> None:
    broken: list[Said] = [ModelError("broken")] * fails
    story, _ = ran(
        graph({"name": "a", "agent": "a", "retry": 2}, "b", edges=[edge("a", "b")]),
        *map(agent, "ab"),
        a=[*broken, said("at last")],
        b=[said("b said")],
    )
    assert story.view.status == ("done" if fails == 2 else "failed")
    assert [record.call_id for record in story.of(Delegated)] == ["a#1", "a#1/2", "a#1/3"]
    if fails == 3:
        assert "node 'a' has failed 3 times: broken" in (story.view.result or "")


def test_a_graph_runs_as_a_branch_of_another_one() -> None:
    inner = {"name": "inner", "graph": {"entry": "x", "nodes": ["x", "y"], "edges": [edge("x", "y")]}}
    story, _ = ran(
        graph({"name": "i", "graph": "inner"}, "a", edges=[], entry=["i", "a"]),
        inner,
        *map(agent, "xya"),
        says={name: [said(f"{name} said")] for name in "xya"},
    )
    assert story.end.output == {"i": "y said", "a": "a said"}


def listing(**more: Any) -> dict[str, Any]:
    """A graph that lists files, looks at each and ends with what was found."""
    each = {"name": "look", "agent": "look", "for_each": "files.names", "inputs": {"file": "item"}, **more}
    return graph("find", each, edges=[edge("find", "look")])


LOOKERS = (agent("find", "files"), agent("look", inputs={"file": {}}))


def named(request: ModelRequest) -> str:
    """The file that an item is about."""
    return asked_by(request).split("file: ")[1].split("\n")[0]


class Looks(ByLeg):
    """Looks at files: at those whose names begin with ``bad`` in vain."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if request.agent != "look":
            return await super().reply(request, on_delta)
        self.requests.append(request)
        if named(request).startswith("bad"):
            raise ModelError("broken")
        reply = said(f"saw {named(request)}")
        assert isinstance(reply, ModelReply)
        return reply


def looked(names: Sequence[str], **more: Any) -> tuple[Story, Looks]:
    model = Looks({"find": [gave(files={"names": list(names)})]})

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(listing(**more), *LOOKERS), model)
        return await relay.told("look at all", agent="flow")

    return on_server(scenario), model


def test_a_node_runs_for_each_item_and_gives_the_list_of_results_in_their_order() -> None:
    story, _ = looked(["a.py", "bad.py", "c.py"])
    assert story.view.status == "done"
    [a, bad, c] = story.end.output
    assert (a, c) == ("saw a.py", "saw c.py")
    assert "broken" in bad["error"]


def test_three_hundred_items_of_which_five_fail_give_as_many_results() -> None:
    names = [f"{'bad' if number % 60 == 7 else ''}{number}.py" for number in range(300)]
    story, model = looked(names)
    saw = [f"saw {name}" if not name.startswith("bad") else None for name in names]
    assert [None if isinstance(one, dict) else one for one in story.end.output] == saw
    assert sum(isinstance(one, dict) and "error" in one for one in story.end.output) == 5
    assert len(model.asked("look")) == 300


def test_a_list_without_items_gives_none() -> None:
    story, _ = looked([])
    assert (story.view.status, story.end.output) == ("done", [])


def test_a_node_has_failed_when_all_of_its_items_have() -> None:
    story, _ = looked(["bad.py", "bad.rs"])
    assert story.view.status == "failed"
    assert "node 'look' has failed: all 2 items have failed, the first by: broken" in (story.view.result or "")


def test_items_that_fail_are_tried_again_and_no_others() -> None:
    _, model = looked(["a.py", "bad.py"], retry=2)
    assert [named(one) for one in model.asked("look")] == ["a.py", "bad.py", "bad.py", "bad.py"]


def test_a_list_whose_items_have_all_failed_as_often_as_they_may_is_not_tried_again() -> None:
    story, model = looked(["bad.py"], retry=2)
    assert story.view.status == "failed"
    assert len(model.asked("look")) == 3


def test_what_is_no_list_fails_the_job_and_is_shown() -> None:
    story, _ = looked(["a.py"], for_each="files")
    assert story.view.status == "failed"
    assert "'for_each' of node 'look' is {" in (story.view.result or "")


def used(*tools: Tool, answer: str = "", policy: Policy = ASKS_NOBODY, **flow: Any) -> Story:
    """Run a graph of tools and questions; ``answer`` is what a person says: empty, no."""

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team({"name": "flow", **flow}), ByLeg({}), tools=[ask_user, *tools], policy=policy)
        job = await relay.submit("look", agent="flow")
        await relay.drain()
        for view in await stores.jobs.waiting(job):
            said_of_it = Approved("answered", view.digest, answer=answer) if answer else Approved("denied", view.digest)
            await Inbox(stores).answer(view.id, replace(said_of_it, by="anna"))
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario)


def tool_graph(*nodes: Mapping[str, Any], edges: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"entry": nodes[0]["name"], "nodes": list(nodes), "edges": list(edges)}


def test_a_tool_is_a_node_whose_arguments_are_filled_in() -> None:
    look = {"name": "first", "tool": "look", "args": {"what": "the ${task.prompt}"}}
    again = {"name": "again", "tool": "look", "args": {"what": "${first}"}}
    story = used(tool_named("look"), graph=tool_graph(look, again, edges=[edge("first", "again")]), tools=["look"])
    assert (story.view.status, story.view.result) == ("done", "look(look(the look))")


def test_a_graphs_own_calls_are_no_turns_of_a_job_that_is_limited_in_them() -> None:
    nodes = [{"name": name, "tool": "look", "args": {"what": name}} for name in ("a", "b")]
    flow, limits = tool_graph(*nodes, edges=[edge("a", "b")]), {"job": {"max_turns": 1}}
    assert used(tool_named("look"), tools=["look"], graph=flow, limits=limits).view.status == "done"


def test_a_tool_that_fails_fails_its_node_and_is_tried_again_where_the_file_says_so() -> None:
    ran_for: list[str] = []

    async def fail(args: What, context: ToolContext) -> str:
        raise ToolError(f"no {args.what}")

    node = {"name": "look", "tool": "look", "args": {"what": "x"}, "retry": 1}
    story = used(tool_named("look", fail, ran=ran_for), graph=tool_graph(node), tools=["look"])
    assert story.view.status == "failed"
    assert "node 'look' has failed 2 times: no x" in (story.view.result or "")
    assert len(ran_for) == 2


def test_a_question_waits_for_a_person_and_its_answer_is_the_output() -> None:
    ask = {"name": "ask", "ask_user": "Which one of ${task.prompt}?"}
    look = {"name": "look", "tool": "look", "args": {"what": "${ask}"}}
    story = used(
        tool_named("look"), answer="这个", graph=tool_graph(ask, look, edges=[edge("ask", "look")]), tools=["look"]
    )
    assert (story.view.status, story.view.result) == ("done", "look(这个)")


def test_a_list_whose_items_are_given_too_much_together_begins_none_of_them() -> None:
    story, model = looked([f"{number:0400}.py" for number in range(120)], inputs={"file": "files.names"})
    assert model.asked("look") == []
    said = "what node 'look' gives to its 120 items has more than 5,000,000 characters together"
    assert said in (story.view.result or "")


def test_a_tool_runs_for_each_item() -> None:
    node = {"name": "look", "tool": "look", "for_each": "['a', 'b']", "args": {"what": "${item} at ${index}"}}
    story = used(tool_named("look"), graph=tool_graph(node), tools=["look"])
    assert story.end.output == ["look(a at 0)", "look(b at 1)"]


def test_rules_hold_for_a_graphs_calls_as_for_an_agents() -> None:
    node = {"name": "look", "tool": "look", "args": {"what": "x"}}
    story = used(tool_named("look"), graph=tool_graph(node), tools=["look"], policy=Policy(auto_approve=frozenset()))
    assert "node 'look' has failed: Tool execution denied by user" in (story.view.result or "")


def test_branches_within_a_loop_begin_together_in_each_round_and_are_joined_in_it() -> None:
    """Round a loop every node comes to every other: who waited for all that can come would begin them one by one."""
    edges = [
        *(edge("a", name) for name in "bc"),
        *(edge(name, "d") for name in "bc"),
        edge("d", "a", "!verdict.good"),
        edge("d", "END", default=True),
    ]
    story, model = ran(
        graph("a", "b", "c", "d", edges=edges),
        *map(agent, "abc"),
        agent("d", "verdict"),
        says={name: [said(f"{name} said")] * 2 for name in "abc"},
        d=[gave(verdict={"good": False}), gave(verdict={"good": True})],
    )
    assert story.view.status == "done"
    assert [len(list(run)) for kind, run in groupby(story.records, type) if kind is Delegated] == [2, 2]
    assert len(model.asked("d")) == 2


def test_a_join_waits_for_a_branch_that_goes_back_and_comes_again() -> None:
    edges = [
        edge("a", "b"),
        edge("a", "c", "outputs['b'] == null"),
        edge("b", "a", max_rounds=1),
        edge("b", "d", default=True),
        edge("c", "d"),
    ]
    story, model = ran(
        graph("a", "b", "c", "d", edges=edges),
        *map(agent, "abcd"),
        says={name: [said(f"{name} said")] * 2 for name in "abcd"},
    )
    assert (story.view.status, len(model.asked("d")), len(model.asked("b"))) == ("done", 1, 2)
