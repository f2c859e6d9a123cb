"""Checks of agent files, and the doctor, know the tools that workers have announced."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from redis.asyncio import Redis

from ekiden.dispatcher.cli.agents.checks import Checker
from ekiden.dispatcher.cli.agents.discovery import AgentFile
from ekiden.dispatcher.cli.agents.tools import KnownTools, known_tools, tools_of
from ekiden.dispatcher.cli.doctor.plugs import allowed_here, loaded_there
from ekiden.dispatcher.cli.doctor.server_checks import servers_there
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.mcp.entries import identity_of, server_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any, connect
from ekiden.shared.stores.views import PoolView, ToolView
from tests.unit.conftest import Install

POOLS = [
    PoolView("vm.1", "worker", (), tools=(ToolView("count_words", "d1", "my-tools", "1.2"), ToolView("set_state"))),
    PoolView("vm.2", "worker", (), problems=("tools: broken 0.1 (broken:x) cannot be loaded: ImportError: no",)),
    PoolView("vm.3", "dispatcher", (), strategies=("rule",)),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def findings(tmp_path: Path, tools: str, known: KnownTools, servers: Sequence[str] | None = None) -> list[str]:
    path = tmp_path / "mine.md"
    path.write_text(f"---\nname: mine\ndescription: x\ntools: {tools}\n---\nDo it.\n", "utf-8")
    definition, problems = load_file(path, "project")
    file = AgentFile("mine", path, "project", definition, tuple(problems))
    found = Checker({}, servers, tools=known).report(file)
    return [finding.message for check in found.checks for finding in check.findings]


def test_a_tool_that_a_worker_has_announced_is_there_and_one_that_none_has_is_not(tmp_path: Path) -> None:
    known = tools_of(POOLS)
    assert findings(tmp_path, "[count_words, set_state]", known) == []
    (said,) = findings(tmp_path, "[count_wods]", known)
    assert said.startswith("no worker that runs has the tool 'count_wods': the agent works without")
    assert said.endswith("Did you mean 'count_words'?")
    (said,) = findings(tmp_path, "[bash]", known)
    assert "no worker that runs has the tool 'bash': the agent waits" in said, "these workers have no workspace"


def test_what_nodes_give_a_tool_that_a_worker_has_announced_is_checked_by_its_schema(tmp_path: Path) -> None:
    takes = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    pool = PoolView("vm.1", "worker", (), tools=(ToolView("count_words", "d1", "my-tools", "1.2", parameters=takes),))
    path = tmp_path / "flow.md"
    node = "    - {name: count, tool: count_words, args: {txt: hello}}\n"
    path.write_text(
        f"---\nname: flow\ndescription: x\ntools: [count_words]\ngraph:\n  entry: count\n  nodes:\n{node}---\n", "utf-8"
    )
    definition, problems = load_file(path, "project")
    assert definition is not None
    file = AgentFile("flow", path, "project", definition, tuple(problems))
    report = Checker({"flow": definition}, tools=tools_of([pool])).report(file)
    found = [(one.severity, one.line, one.message) for check in report.checks for one in check.findings]
    said = "the node 'count' calls 'count_words' with"
    assert found == [
        ("warning", 8, f"{said} an argument 'txt' that it does not take. Did you mean 'text'?"),
        ("warning", 8, f"{said}out the argument 'text', which it needs. Add it to 'args'"),
    ]


def test_a_server_that_some_worker_knows_is_none_to_complain_about_and_one_that_fails_everywhere_is_told(
    tmp_path: Path,
) -> None:
    pools = [
        PoolView("vm.1", "worker", (), servers={"time": "", "crm": "there is no program 'crm' here", "own": "refused"}),
        PoolView("vm.2", "worker", (), servers={"own": ""}),
    ]

    def said(tools: str, servers: Sequence[str] | None = ()) -> list[str]:
        return findings(tmp_path, tools, tools_of(pools), servers)

    assert said("[mcp.time.now, mcp.own.*]") == []
    assert said("[mcp.crm.list]") == ["MCP server 'crm' is there and does not work: there is no program 'crm' here"]
    assert said("[mcp.linear.list]")[0].startswith("MCP server not configured: linear")
    assert said("[mcp.linear.list]", ["linear"]) == []
    assert said("[mcp.linear.list]", None) == [], "who publishes need not know what workers will have"


def test_a_tool_that_its_server_does_not_have_is_told_by_what_workers_have_left_word_of(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {name: server_of(name, {"command": name}) for name in ("time", "never-listed")}
    listing = {"tools": [{"name": "now"}, {"name": "convert"}], "dropped": {"odd": "no schema"}}

    async def listed(client: Redis) -> None:
        await as_any(client.flushall())
        await Stores.on(client).listings.put(identity_of("time", entries["time"]), json.dumps(listing))
        await client.aclose()

    asyncio.run(listed(connect(valkey_url)))
    monkeypatch.setenv("EKIDEN_REDIS_URL", valkey_url)
    known = known_tools(load_settings(), entries)

    def said(tools: str) -> list[str]:
        return findings(tmp_path, tools, known, list(entries))

    assert said("[mcp.time.now, mcp.time.odd, mcp.time.conv*, mcp.never-listed.x, mcp.time.read_mcp_resource]") == []
    assert said("[mcp.time.convrt]") == [
        "the MCP server 'time' has no tool 'mcp.time.convrt'. Did you mean 'mcp.time.convert'?"
    ]


def test_the_doctor_tells_which_servers_fail_where() -> None:
    pools = [PoolView("vm.1", "worker", (), servers={"time": "", "crm": "it does not answer within 20 s"})]
    assert [(one.status, one.text) for one in servers_there(pools)] == [
        ("warning", "crm at vm.1: it does not answer within 20 s")
    ]


def test_to_forbid_what_another_worker_may_have_is_no_mistake(tmp_path: Path) -> None:
    assert findings(tmp_path, "{deny: [bash, count_words]}", tools_of(POOLS)) == []


def test_the_workers_of_the_configured_server_are_asked(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def announce(client: Redis) -> None:
        await as_any(client.flushall())
        for pool in POOLS:
            await Stores.on(client).pools.announce(pool)
        await client.aclose()

    asyncio.run(announce(connect(valkey_url)))
    monkeypatch.setenv("EKIDEN_REDIS_URL", valkey_url)
    known = known_tools(load_settings())
    assert known.is_announced
    assert known.names == {"count_words", "set_state"}
    assert known.problems == POOLS[1].problems


def test_without_workers_the_names_of_allowed_entry_points_count_and_nothing_is_loaded(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("my-tools", "raise SystemExit('loaded')", tools={"count_words": "x"})
    monkeypatch.setenv("EKIDEN_REDIS_URL", "redis://127.0.0.1:1")
    known = known_tools(load_settings(tools_packages=["my-tools"]))
    assert (known.names, known.is_announced) == (BUILTIN_TOOLS | {"count_words"}, False)


def test_the_doctor_tells_what_pools_could_not_load_and_where_they_differ() -> None:
    newer = PoolView("vm.4", "worker", (), tools=(ToolView("count_words", "d2", "my-tools", "1.3"),))
    broken, differs = loaded_there([*POOLS, newer])
    assert (broken.status, broken.text) == ("error", f"vm.2: {POOLS[1].problems[0]}")
    assert differs.status == "warning"
    assert "'count_words' is not the same everywhere: my-tools 1.2 at vm.1, my-tools 1.3 at vm.4" in differs.text
    assert loaded_there(POOLS[:1]) == []


def test_the_doctor_says_that_nothing_is_allowed() -> None:
    assert [(one.status, one.text) for one in allowed_here(load_settings())] == [("ok", "none are allowed")]


def test_the_doctor_judges_what_is_allowed_here_and_loads_no_tools_for_it(install: Install) -> None:
    install("my-tools", "raise SystemExit('loaded')", tools={"count_words": "x"})
    fine = load_settings(tools_packages=["my-tools"])
    assert [(one.status, one.text) for one in allowed_here(fine)] == [("ok", "allowed: tools my-tools")]
    install("broken", "raise ImportError('no')", models={"x": "x"}, routers={"x": "x"}, commands={"x": "x"})
    named = {f"{group}_packages": ["broken"] for group in ("models", "routers", "commands")}
    found = allowed_here(load_settings(tools_packages=["elsewhere"], **named))
    assert [one.status for one in found] == ["error", "error", "error", "warning"]
    assert {one.text.partition(":")[0] for one in found} == {"models", "routers", "commands", "tools"}
