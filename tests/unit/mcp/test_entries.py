"""What files say of MCP servers: each form is read, and nothing that could restrict is passed over."""

import json
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.mcp_use import own_servers, permits_tool, servers_used
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.mcp.entries import filled, server_of
from ekiden.shared.mcp.names import model_names
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.trust.store import remember


@pytest.mark.parametrize(
    ("said", "transport", "address"),
    [
        ({"command": "uvx", "args": ["mcp-server-time"]}, "stdio", "uvx"),
        ({"httpUrl": "https://example.com/mcp"}, "http", "https://example.com/mcp"),
        ({"url": "https://example.com/sse"}, "either", "https://example.com/sse"),
        ({"type": "http", "url": "http://127.0.0.1/mcp"}, "http", "http://127.0.0.1/mcp"),
        ({"type": "sse", "url": "http://127.0.0.1/sse"}, "sse", "http://127.0.0.1/sse"),
        ({"type": "stdio", "command": "npx", "description": "files"}, "stdio", "npx"),
    ],
)
def test_each_form_says_how_the_server_is_reached(said: dict[str, Any], transport: str, address: str) -> None:
    entry = server_of("one", said)
    assert (entry.transport, entry.address) == (transport, address)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "must be an object"),
        ({}, "give one of 'command'"),
        ({"command": "x", "url": "http://h"}, "give one of 'command'"),
        ({"command": " "}, "give one of 'command'"),
        ({"url": "ftp://h"}, "must begin with http:// or https://"),
        ({"command": "x", "headers": {"a": "b"}}, "'headers' goes with an address only"),
        ({"url": "http://h", "env": {"A": "b"}}, "'env' goes with a program only"),
        ({"url": "http://h", "sandbox": True}, "'sandbox' goes with a program only"),
        ({"command": "x", "type": "http"}, "does not go with its address"),
        ({"command": "x", "type": "pipe"}, "expected stdio, http"),
        ({"command": "x", "timeout": "soon"}, "'timeout'"),
        ({"command": "x", "onlyFor": ["me"]}, "'onlyFor' is no field that Ekiden knows of an MCP server"),
        ({"command": "x", "expect": {"digest": "1"}}, "'expect.digest'"),
        ({"command": "x", "trust": "maybe"}, "'trust'"),
    ],
)
def test_an_entry_that_cannot_be_held_to_is_refused_with_its_field(said: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=r"MCP server 'one'") as refused:
        server_of("one", said)
    assert why in str(refused.value)


def test_a_refusal_tells_no_value() -> None:
    with pytest.raises(ConfigurationError) as refused:
        server_of("one", {"command": "x", "env": {"TOKEN": ["hunter2"]}})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a*", "a/b", "x" * 65])
def test_a_name_that_rules_could_misread_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="a name has no spaces"):
        server_of(name, {"command": "x"})


def test_variables_are_filled_in_from_the_workers_environment_and_never_guessed() -> None:
    said = {"command": "$TOOL", "args": ["--key=${KEY}", "${MODE:-fast}", "$5"], "env": {"A": "${KEY}"}}
    entry = filled(server_of("one", said), {"TOOL": "x", "KEY": '"}\\'})
    assert (entry.command, entry.args, entry.env) == ("x", ('--key="}\\', "fast", "$5"), {"A": '"}\\'})
    with pytest.raises(ConfigurationError, match="has no KEY: set it"):
        filled(server_of("one", said), {"TOOL": "x"})


def test_tools_are_included_and_excluded_as_gemini_cli_writes_them() -> None:
    entry = server_of("one", {"command": "x", "includeTools": ["read", "write(path)"], "excludeTools": ["write"]})
    assert [tool for tool in ("read", "write", "drop") if entry.offers(tool)] == ["read"]


def test_names_for_models_are_plain_short_and_never_shared() -> None:
    pairs = [("git-hub", "issue.create"), ("git_hub", "issue_create"), ("时间", "现在"), ("s", "x" * 128), ("a", "b")]
    names = model_names(pairs)
    assert len(set(names.values())) == len(pairs)
    assert all(len(name) <= 64 and name.isascii() and name.isidentifier() for name in names.values())
    assert names["a", "b"] == "mcp_a_b"
    assert model_names(pairs[::-1]) == names


def test_no_server_gets_a_tool_the_name_of_another_servers() -> None:
    own, others = ("git_hub", "x"), ("git", "hub_x")
    name = model_names([own, others])[own]
    imitating = ("git", name.removeprefix("mcp_git_"))
    assert model_names([own, others, imitating])[imitating] != name
    assert model_names([own], ["git", "git_hub"])[own] == name, "nor while the other one is down"
    assert model_names([others], ["git", "git_hub"])[others] != model_names([own])[own]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, folder = tmp_path / "home", tmp_path / "work"
    for place in (home / ".gemini", folder / ".gemini"):
        place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.chdir(folder)
    return project_of(folder)


def write(path: Path, servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def test_the_nearest_file_counts_and_a_project_only_as_far_as_it_is_trusted(project: Path) -> None:
    write(Path.home() / ".gemini" / "settings.json", {"a": {"command": "mine"}, "b": {"command": "mine"}})
    write(project / ".mcp.json", {"b": {"command": "claude"}, "c": {"command": "claude"}})
    write(project / ".gemini" / "settings.json", {"c": {"command": "gemini"}})
    assert {name: one.command for name, one in configured_servers(project).servers.items()} == {
        "a": "mine",
        "b": "mine",
    }
    assert {name: path.name for name, path in configured_servers(project).held.items()} == {
        "b": ".mcp.json",
        "c": "settings.json",
    }
    wanted = project_trust_of(project).wanted
    assert {right.subject for right in wanted} == {"MCP server b", "MCP server c"}
    remember(project, granted=wanted)
    found = configured_servers(project)
    assert {name: one.command for name, one in found.servers.items()} == {"a": "mine", "b": "claude", "c": "gemini"}
    assert found.origins["b"].name == ".mcp.json"


def test_a_wrong_entry_is_told_with_its_file_and_hides_no_other_server(project: Path) -> None:
    path = Path.home() / ".gemini" / "settings.json"
    write(path, {"good": {"command": "x"}, "bad": {"command": "x", "allowedTools": []}})
    found = configured_servers(project)
    assert list(found.servers) == ["good"]
    [problem] = found.problems
    assert problem.startswith(f"{path}:1: MCP server 'bad': 'allowedTools'")


def test_an_agent_uses_the_servers_that_its_file_names_describes_or_takes_tools_of() -> None:
    fields = {"mcp": {"servers": ["git"]}, "mcp-servers": [{"own": {"command": "x"}}], "tools": ["ls", "mcp.crm.*"]}
    agent = definition_from({"name": "a", "description": "d", **fields}, "You.")
    assert set(servers_used(agent)) == {"git", "own", "crm"}
    assert list(own_servers(agent)) == ["own"]
    assert permits_tool(agent, "git", "mcp.git.log", only_reads=False)
    assert permits_tool(agent, "crm", "mcp.crm.list", only_reads=False)
    assert not permits_tool(agent, "other", "mcp.other.list", only_reads=False)


def test_tools_of_a_named_server_are_narrowed_by_what_the_file_allows_and_denies() -> None:
    narrowed = {"mcp": {"servers": ["git"]}, "tools": {"allow": ["mcp.git.log"], "deny": []}}
    denied = {"mcp": {"servers": ["git"]}, "tools": {"deny": ["mcp.git.push"]}}
    agents = [definition_from({"name": "a", "description": "d", **fields}, "You.") for fields in (narrowed, denied)]
    allowed = [
        [tool for tool in ("log", "push") if permits_tool(a, "git", f"mcp.git.{tool}", only_reads=False)]
        for a in agents
    ]
    assert allowed == [["log"], ["log"]]
