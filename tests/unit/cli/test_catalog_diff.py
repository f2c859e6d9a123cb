"""``ekiden catalog diff``: what edited agent files would decide otherwise about jobs that there are."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.catalog_replay import Comparison, compared
from ekiden.dispatcher.journal.job_changes import JobChanges
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.policy.engine import Policy
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.builtin.asking import ask_user
from tests.scenarios.relay import Relay, team
from tests.unit.cli.graph_jobs import AGENTS, says
from tests.unit.cli.test_jobs import ekiden, there
from tests.unit.workers.test_graphs import ByLeg, edge, graph
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named

LEAD: Mapping[str, Any] = {
    "name": "lead",
    "handoffs": ["fixer"],
    "subagents": ["scout"],
    "triggers": {"keywords": ["tests"]},
    "limits": {"max_turns": 5},
}
FIXER: Mapping[str, Any] = {"name": "fixer"}
SCOUT: Mapping[str, Any] = {"name": "scout", "triggers": {"keywords": ["parcel"]}}
MODEL: Mapping[str, Sequence[Any]] = {
    "lead": [
        calls(call("d", "delegate_to_scout", objective="look")),
        calls(call("t1", "write"), call("t2", "write")),
        calls(handing_over("h", "fixer")),
    ],
    "scout": [said("It is cart.py.")],
    "fixer": [said("Repaired.")],
}


def changes(
    url: str, *edited: Mapping[str, Any], prompt: str = "the tests fail", agent: str | None = None
) -> JobChanges:
    """What the edited team would decide otherwise about a job of the team."""

    async def scenario(stores: Stores, client: Client) -> JobChanges:
        job = await ran(stores, prompt, agent)
        return await comparison(client, team(*edited)).changes(job)

    return there(url, scenario)


async def ran(stores: Stores, prompt: str = "the tests fail", agent: str | None = None) -> str:
    relay = Relay(stores, team(LEAD, FIXER, SCOUT), Replies(MODEL), tools=[tool_named("write")])
    story = await relay.told(prompt, agent=agent)
    assert story.end.status == "done"
    return story.view.id


def comparison(client: Client, catalog: Catalog) -> Comparison:
    return Comparison(client, catalog, load_settings(), Policy())


def said_of(found: JobChanges) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.agent, one.was, one.would_be) for one in found.changes]


def test_the_same_files_change_nothing_and_every_prompt_is_the_same(valkey_url: str) -> None:
    found = changes(valkey_url, LEAD, FIXER, SCOUT)
    assert (found.changes, found.replies, found.other_prompts, found.is_known) == ([], 5, 0, True)


def test_other_words_alone_are_another_prompt_and_no_other_decision(valkey_url: str) -> None:
    found = changes(valkey_url, {**LEAD, "prompt": "Be polite."}, FIXER, SCOUT)
    assert (found.changes, found.other_prompts) == ([], 3)


def test_an_edge_that_is_gone_a_sub_agent_that_is_gone_and_a_right_that_is_gone(valkey_url: str) -> None:
    found = changes(valkey_url, {**LEAD, "handoffs": [], "subagents": [], "tools": ["ls"]}, FIXER, SCOUT)
    assert said_of(found) == [
        ("handoff", "lead", "delegated to scout", "refused"),
        ("tool", "lead", "write_file: allow", "deny"),
        ("handoff", "lead", "handed over to fixer", "refused"),
    ]
    assert [one.count for one in found.changes] == [1, 2, 1]


def test_an_agent_that_is_gone_leaves_its_jobs_to_nobody(valkey_url: str) -> None:
    found = changes(valkey_url, FIXER, SCOUT, agent="lead")
    assert ("route", "router", "lead (by agent)", "nobody") in said_of(found)
    assert {one.why for one in found.changes} == {"there is no agent 'lead'"}


def test_a_job_that_other_triggers_would_route_elsewhere(valkey_url: str) -> None:
    edited = {**LEAD, "triggers": {}}, {**FIXER, "triggers": {"keywords": ["tests"]}}, SCOUT
    assert said_of(changes(valkey_url, *edited)) == [("route", "router", "lead (by rule)", "fixer")]
    assert said_of(changes(valkey_url, *edited, agent="lead")) == []


def test_limits_that_would_end_a_leg_and_limits_that_would_not_have_ended_it(valkey_url: str) -> None:
    assert said_of(changes(valkey_url, {**LEAD, "limits": {"max_turns": 2}}, FIXER, SCOUT)) == [
        ("limit", "lead", "took 2 before its last turn", "ended before")
    ]
    tight = {**LEAD, "limits": {"max_turns": 1, "grace_seconds": 0}}

    async def scenario(stores: Stores, client: Client) -> JobChanges:
        story = await Relay(stores, team(tight, FIXER, SCOUT), Replies(MODEL)).told("x", agent="fixer")
        assert story.end.status == "done"
        story = await Relay(stores, team(tight, FIXER, SCOUT), Replies({**MODEL, "lead": [*MODEL["lead"][1:]]})).told(
            "y", agent="lead"
        )
        assert story.end.reason == "MAX_TURNS"
        return await comparison(client, team(LEAD, FIXER, SCOUT)).changes(story.view.id)

    assert said_of(there(valkey_url, scenario)) == [("limit", "lead", "ended by max_turns 1", "would go on")]


def test_another_condition_of_an_edge_is_not_decided(valkey_url: str) -> None:
    edge = {"to": "fixer", "condition": "state.ready == true"}
    found = changes(valkey_url, {**LEAD, "handoffs": [edge]}, FIXER, SCOUT)
    assert said_of(found) == [("handoff", "lead", "handed over to fixer", "not decided")]


def test_the_same_graphs_change_nothing_whatever_their_nodes_are(valkey_url: str) -> None:
    inner = {**graph("one", "two", edges=[edge("one", "two")]), "name": "inner"}
    nodes = ["one", {"name": "in", "graph": "inner"}, {"name": "many", "agent": "two", "for_each": "[1, 2]"}]
    outer = graph(*nodes, {"name": "four", "agent": "one"}, edges=[
        edge("one", "in"), edge("one", "many"), edge("in", "four"), edge("many", "four")
    ])  # fmt: skip
    catalog = team(outer, inner, {"name": "one"}, {"name": "two"})

    async def scenario(stores: Stores, client: Client) -> list[tuple[str, str, str, str]]:
        model = Replies({name: [said("done")] * 9 for name in ("one", "two")})
        story = await Relay(stores, catalog, model).told("go", agent="flow")
        assert story.end.status == "done"
        found = await comparison(client, catalog).changes(story.view.id)
        return said_of(found)

    assert there(valkey_url, scenario) == []


def test_another_graph_is_told_of_and_not_followed(valkey_url: str) -> None:
    steps, others = graph("one", "two", edges=[edge("one", "two")]), ({"name": "one"}, {"name": "two"})

    async def scenario(stores: Stores, client: Client) -> list[str]:
        model = Replies({name: [said("done")] for name in ("one", "two")})
        story = await Relay(stores, team(steps, *others), model).told("go", agent="flow")
        edited = [
            graph("one", "two", edges=[edge("one", "two", "state.ready")]),
            graph("one", {"name": "two", "agent": "one"}, edges=[edge("one", "two")]),
            graph("one", "two", {"name": "three", "agent": "one"}, edges=[edge("one", "two"), edge("two", "three")]),
            {**steps, "graph": {**steps["graph"], "max_rounds": 7}},
        ]
        found = [await comparison(client, team(one, *others)).changes(story.view.id) for one in (steps, *edited)]
        assert [said_of(one) for one in found[1:]] == [
            [("handoff", "flow", "took a step of its graph", "not decided")] for _ in edited
        ]
        return [change.why.partition(": ")[2] for one in found for change in one.changes]

    assert there(valkey_url, scenario) == [
        "edge one → two has another condition",
        "node two has another agent",
        "node three is new",
        "it has another max_rounds",
    ]


def test_the_same_files_in_another_folder_are_the_same_prompts_and_nodes_that_are_tools_ask_nobody(
    valkey_url: str,
) -> None:
    agents = [{**one, "scope": "project"} for one in AGENTS]
    elsewhere = [{**one, "scope": "global"} for one in AGENTS]

    async def scenario(stores: Stores, client: Client) -> tuple[int, int]:
        relay = Relay(stores, team(*agents), ByLeg(says()), tools=[tool_named("measure"), ask_user])
        story = await relay.told("write", agent="flow")
        assert story.end.status == "done"
        found = await comparison(client, team(*elsewhere)).changes(story.view.id)
        return found.replies, found.other_prompts

    assert there(valkey_url, scenario) == (10, 0)


def test_where_the_old_files_are_gone_what_happened_stands_for_them(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client) -> JobChanges:
        job = await ran(stores)
        await stores.client.delete(keys.catalog((await stores.jobs.job(job)).catalog))
        return await comparison(client, team({**LEAD, "tools": ["ls"]}, FIXER, SCOUT)).changes(job)

    found = there(valkey_url, scenario)
    assert not found.is_known
    assert said_of(found) == [("tool", "lead", "write_file: allow", "deny")]


def test_only_the_newest_jobs_are_read_and_it_is_said_that_there_are_more(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client) -> tuple[int, bool, int]:
        for prompt in ("the tests fail", "the tests fail again"):
            await ran(stores, prompt)
        found = await compared(comparison(client, team(FIXER, SCOUT)), client, since_s=60, limit=1)
        none = await compared(comparison(client, team(FIXER, SCOUT)), client, since_s=0, limit=1)
        return found.jobs, found.is_cut, none.jobs

    assert there(valkey_url, scenario) == (1, True, 0)


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A folder with an edited agent file."""
    (tmp_path / "lead.md").write_text(
        "---\nname: lead\ndescription: Leads.\ntools: [read_file]\nhandoffs: [debugger]\n---\nYou lead.\n"
    )
    return tmp_path


def test_the_command_lists_a_line_each_and_a_summary(valkey_url: str, edited: Path) -> None:
    there(valkey_url, lambda stores, _: ran(stores))
    text = ekiden(valkey_url, "catalog", "diff", "--catalog", str(edited))
    assert "lead delegates to scout no more" in text or "there is no agent 'scout'" in text
    assert "1 of 1 jobs would be decided otherwise" in text
    assert "the prompt differs: what would be said to that is not known" in text
    found = json.loads(ekiden(valkey_url, "catalog", "diff", "--catalog", str(edited), "--json"))
    assert (found["jobs"], found["changed"]) == (1, 1)
    assert {one["kind"] for one in found["list"][0]["changes"]} >= {"handoff", "tool"}
    assert asyncio.run(_in_force(valkey_url)) == ["fixer", "lead", "scout"]


def test_one_job_is_looked_at_with_the_files_of_a_folder_and_runs_nowhere(valkey_url: str, edited: Path) -> None:
    job = there(valkey_url, lambda stores, _: ran(stores))
    result = CliRunner().invoke(app, ["job", "rerun", "--catalog", str(edited), "--json", "--redis", valkey_url])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [one["job"] for one in found["list"]] == [job]
    result = CliRunner().invoke(app, ["job", "rerun", "--catalog", str(edited), "--from", "3", "--redis", valkey_url])
    assert isinstance(result.exception, InvalidRequest)


async def _in_force(url: str) -> list[str]:
    async with Client(url) as client:
        return await client.agents()


def test_a_folder_that_is_none_and_a_time_that_is_none_are_refused(valkey_url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no such folder"):
        ekiden(valkey_url, "catalog", "diff", "--catalog", str(tmp_path / "none"))
    with pytest.raises(InvalidRequest, match="--since"):
        ekiden(valkey_url, "catalog", "diff", "--since", "soon")
