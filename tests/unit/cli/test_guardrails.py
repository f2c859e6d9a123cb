"""``ekiden guardrails test``: what the guardrails of a file would have said of what is in the journals."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands.guardrails import app
from ekiden.shared.errors import EkidenError, InvalidRequest, ToolError
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.tools.base import ToolContext
from tests.scenarios.relay import Relay, team
from tests.unit.workers.world import Replies, What, call, calls, handing_over, said, tool_named

KEY = "sk-proj-0123456789abcdef0123"
FILE = """---
name: a
description: d
guardrails:
- {name: short, max_length: 10, on: [input, output, tool_input, tool_output, handoff, delegation]}
- {name: no_secrets, validator: custom, on: [input, output]}
- {name: mine, validator: custom, max_length: 10, on: tool_input, tools: [put]}
---
You.
"""


def guardrails(*args: str) -> Result:
    result = CliRunner().invoke(app, args)
    if isinstance(result.exception, EkidenError):
        raise result.exception
    return result


def test_each_place_is_held_against_what_the_agent_did_and_secrets_are_not_shown(
    valkey_url: str, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(FILE)
    agent = {"name": "a", "handoffs": ["b"], "subagents": ["b"]}
    turns = {
        "a": [
            calls(call("c1", "put", what="x"), call("c2", "delegate_to_b", objective="look")),
            calls(handing_over("c3", "b")),
            said(f"{KEY}"),
        ],
        "b": [said("fine")],
    }

    async def scenario() -> list[str]:
        stores = open_stores(valkey_url)
        await as_any(stores.client.flushall())
        relay = Relay(stores, team(agent, {"name": "b"}), Replies(turns), tools=[tool_named("put")])
        jobs = [(await relay.submit("go", agent="a"))]
        await relay.drain()
        alone = Relay(stores, team(agent, {"name": "b"}), Replies({"a": [said(KEY)]}), tools=[])
        jobs.append(await alone.submit(f"use {KEY}", agent="a"))
        await alone.drain()
        await stores.close()
        return jobs

    first, second = asyncio.run(scenario())
    result = guardrails("test", str(tmp_path / "a.md"), "--redis", valkey_url, "--json")
    found = json.loads(result.stdout)
    assert {(one["guardrail"], one["at"], one["passed"]): one["count"] for one in found["counts"]} == {
        ("short", "input", True): 1,
        ("short", "input", False): 1,
        ("short", "output", False): 1,
        ("short", "tool_input", False): 2,
        ("short", "tool_output", True): 1,
        ("short", "delegation", True): 1,
        ("short", "handoff", False): 1,
        ("no_secrets", "input", True): 1,
        ("no_secrets", "input", False): 1,
        ("no_secrets", "output", False): 1,
        ("mine", "tool_input", False): 1,
    }
    assert {one["job"] for one in found["violations"] if one["rail"] == "no_secrets"} == {second}
    assert first in {one["job"] for one in found["violations"]}
    assert KEY not in result.stdout
    assert "the validator 'mine' of 'mine' is not asked here" in result.stderr
    shown = guardrails("test", str(tmp_path / "a.md"), "--redis", valkey_url, "--show", "1").stdout
    assert "12 judgements of agent 'a' in 3 jobs: 8 would not have passed" in shown
    assert "WHAT IS WRONG" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file"),
        ("---\nname: a\ndescription: d\n---\nYou.\n", "agent 'a' has no guardrails: write 'guardrails' in its file"),
        (FILE.replace("short, max", "short, mox"), r"a.md:4: error: 'guardrails': entry 1 has 'mox_length'"),
    ],
)
def test_a_file_that_has_none_or_cannot_be_read_is_an_error(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "a.md").write_text(text)
    with pytest.raises(InvalidRequest, match=said):
        guardrails("test", str(tmp_path / "a.md"))


SECRETS = (
    "---\nname: a\ndescription: d\nguardrails:\n- {name: no_secrets, validator: custom, on: [tool_output, output]}\n"
)


def test_what_tools_say_in_place_of_a_result_is_looked_at_and_what_was_never_run_or_is_gone_is_not(
    valkey_url: str, tmp_path: Path
) -> None:
    rails = "- {name: kind, prompt: It scolds nobody.}\n- {name: json, validator: custom, on: tool_output}\n---\nYou.\n"
    (tmp_path / "a.md").write_text(SECRETS + rails)

    async def fail(args: What, context: ToolContext) -> str:
        raise ToolError(args.what)

    async def scenario() -> None:
        stores = open_stores(valkey_url)
        await as_any(stores.client.flushall())
        turn = calls(
            call("c1", "fail", what=f"no {KEY}"), call("c2", "nosuch", what=KEY), call("c3", "put", what="ink")
        )
        relay = Relay(
            stores,
            team({"name": "a"}),
            Replies({"a": [turn, said("ok")]}),
            tools=[tool_named("fail", fail), tool_named("put")],
        )
        await relay.told("go", agent="a")
        guarded = team({"name": "a", "guardrails": [{"name": "x", "validator": "no_secrets", "on": "tool_output"}]})
        turn = calls(call("c1", "put", what=KEY))
        await Relay(stores, guarded, Replies({"a": [turn, said("ok")]}), tools=[tool_named("put")]).told(
            "again", agent="a"
        )
        await stores.close()

    asyncio.run(scenario())
    result = guardrails("test", str(tmp_path / "a.md"), "--redis", valkey_url, "--json")
    found = json.loads(result.stdout)
    assert {(one["guardrail"], one["at"], one["passed"]): one["count"] for one in found["counts"]} == {
        ("no_secrets", "tool_output", False): 1,
        ("no_secrets", "tool_output", True): 1,
        ("no_secrets", "output", True): 2,
        ("json", "tool_output", True): 1,
        ("json", "tool_output", False): 1,
    }
    assert found["not_asked"] == ["kind"]
    assert "no model is asked here about the prompt of 'kind'" in result.stderr


@pytest.mark.parametrize(
    ("graph", "counts"),
    [
        (
            "graph: {entry: a, nodes: [a, b], edges: [{from: a, to: b}]}\n",
            {("input", True): 1, ("handoff", False): 1, ("output", True): 1},
        ),
        ("", {("input", True): 1, ("handoff", False): 1}),
    ],
    ids=["the file of the graph", "the file of its first node"],
)
def test_what_went_along_edges_of_a_graph_is_looked_at_as_what_was_handed_over(
    graph: str, counts: dict[tuple[str, bool], int], valkey_url: str, tmp_path: Path
) -> None:
    rails = "guardrails: [{name: short, max_length: 40, on: [input, output, handoff]}]"
    file = f"---\nname: {'flow' if graph else 'a'}\ndescription: d\n{graph}{rails}\n---\n{'' if graph else 'You.'}\n"
    (tmp_path / "x.md").write_text(file)
    flow = {"name": "flow", "graph": {"entry": "a", "nodes": ["a", "b"], "edges": [{"from": "a", "to": "b"}]}}

    async def scenario() -> None:
        stores = open_stores(valkey_url)
        await as_any(stores.client.flushall())
        replies = Replies({"a": [said("word " * 10)], "b": [said("fine")]})
        await Relay(stores, team(flow, {"name": "a"}, {"name": "b"}), replies).told("go", agent="flow")
        await stores.close()

    asyncio.run(scenario())
    result = guardrails("test", str(tmp_path / "x.md"), "--redis", valkey_url, "--json")
    found = json.loads(result.stdout)
    assert {(one["at"], one["passed"]): one["count"] for one in found["counts"]} == counts
