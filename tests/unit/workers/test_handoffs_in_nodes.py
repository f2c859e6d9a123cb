"""What the agent of a node hands over within its node is judged by the files of the graphs around it, too."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.records import Delegated, Guarded, HandedOff, Refused, Repairing, ToolFinished
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.workers.repairs import REPAIRER
from tests.scenarios.relay import ASKS_NOBODY, Relay, Story, on_server, team
from tests.unit.workers.helped import Helped
from tests.unit.workers.test_graph_guardrails import CLEAN, SECRET, flow
from tests.unit.workers.test_graphs import agent, edge
from tests.unit.workers.world import Said, call, calls, handing_over, said

GUARDED = {"guardrails": [CLEAN | {"on": "handoff", "policy": "reject"}]}
INNER = flow("a", edges=[]) | {"name": "inner"}
LEAKING = [calls(handing_over("t1", "helper", summary=SECRET)), calls(handing_over("t2", "helper", summary="clean"))]
SHAPES: dict[str, list[dict[str, Any]]] = {
    "a step": [flow("a", edges=[], beside=GUARDED)],
    "a child job": [flow({"name": "a", "agent": "a", "retry": 1}, edges=[], beside=GUARDED)],
    "an item": [flow({"name": "a", "agent": "a", "for_each": "['x']"}, edges=[], beside=GUARDED)],
    "a graph in a step": [flow({"name": "i", "graph": "inner"}, edges=[], beside=GUARDED), INNER],
    "a graph beside": [flow({"name": "i", "graph": "inner", "timeout": 60}, edges=[], beside=GUARDED), INNER],
}
AGENTS = (agent("a", handoffs=["helper"]), agent("helper"))


async def told(
    stores: Stores, agents: Sequence[dict[str, Any]], says: Mapping[str, Sequence[Said]], *repairs: Said
) -> list[Story]:
    """The stories of a job of ``flow`` and of all below it."""
    relay = Relay(stores, team(*agents), Helped(says, {REPAIRER: repairs}), policy=ASKS_NOBODY)
    found, left = list[Story](), [await relay.submit("go", agent="flow")]
    await relay.drain()
    while left:
        found.append(await relay.story(left.pop(0)))
        entries = await journal_of(stores.jobs, found[-1].view.id)
        left += [one.record.child for one in entries if isinstance(one.record, Delegated)]
    return found


def of(stories: Sequence[Story], kind: Any) -> list[Any]:
    return [one for story in stories for one in story.of(kind)]


@pytest.mark.parametrize("graphs", SHAPES.values(), ids=SHAPES.keys())
def test_what_the_graph_does_not_let_pass_is_not_handed_over_and_the_agent_mends_it(
    graphs: list[dict[str, Any]],
) -> None:
    says = {"a": LEAKING, "helper": [said("helped")]}
    stories = on_server(lambda stores: told(stores, [*graphs, *AGENTS], says))
    assert stories[0].view.status == "done", stories[0].view.result
    assert [(one.at, one.status) for one in of(stories, Guarded)] == [("handoff", "failed"), ("handoff", "passed")]
    assert of(stories, Guarded)[0].call_id == "edge:flow: a → helper (t1)"
    refused = [one.result for one in of(stories, ToolFinished) if one.result.call_id == "t1"]
    refused += [one for one in of(stories, Refused) if one.call_id == "t1"]
    assert "the guardrail 'clean' does not let it pass" in str(refused[0])
    moved = [one.context.summary for one in of(stories, HandedOff) if one.context.to_agent == "helper"]
    assert moved == ["clean"]


def test_both_files_judge_it_the_agents_own_first() -> None:
    own = {"name": "own", "validator": "no_secrets", "on": "handoff", "policy": "warn"}
    agents = [*SHAPES["a step"], agent("a", handoffs=["helper"], guardrails=[own]), agent("helper")]
    stories = on_server(lambda stores: told(stores, agents, {"a": LEAKING, "helper": [said("helped")]}))
    said_by = [(one.rail, one.status) for one in of(stories, Guarded)]
    assert said_by == [("own", "warned"), ("clean", "failed"), ("own", "passed"), ("clean", "passed")]


def test_what_it_repairs_goes_with_control() -> None:
    repairing = {"guardrails": [CLEAN | {"on": "handoff", "policy": "repair"}]}
    mended = said('{"reason": "go on", "summary": "no key"}')
    agents = [flow("a", edges=[], beside=repairing), *AGENTS]
    stories = on_server(lambda stores: told(stores, agents, {"a": LEAKING[:1], "helper": [said("helped")]}, mended))
    assert of(stories, Repairing)
    moved = [one.context.summary for one in of(stories, HandedOff) if one.context.to_agent == "helper"]
    assert moved == ["no key"]


def test_a_job_that_is_delegated_from_a_node_has_handoffs_of_its_own() -> None:
    says = {"a": [calls(call("d1", "delegate_to_b", objective="do it")), said("done")], "b": LEAKING[:1]}
    agents = [
        *SHAPES["a step"],
        agent("a", subagents=["b"]),
        agent("b", handoffs=["helper"]),
        agent("helper"),
    ]
    stories = on_server(lambda stores: told(stores, agents, says | {"helper": [said("helped")]}))
    assert [one.context.summary for one in of(stories, HandedOff) if one.context.to_agent == "helper"] == [SECRET]
    assert not of(stories, Guarded)


def test_what_goes_along_an_edge_is_judged_there_as_before() -> None:
    graphs = [flow("a", "b", edges=[edge("a", "b")], beside=GUARDED)]
    says = {"a": LEAKING[1:], "helper": [said("helped")], "b": [said("over")]}
    stories = on_server(lambda stores: told(stores, [*graphs, *AGENTS, agent("b")], says))
    assert [one.call_id for one in of(stories, Guarded)] == ["edge:flow: a → helper (t2)", "edge:flow: a → b"]
