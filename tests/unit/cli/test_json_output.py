"""``--json`` is one object a line, on every command that lists or shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.shared.memory.base import Namespace
from ekiden.shared.stores.opening import Stores
from tests.contract.test_approvals import parked
from tests.unit.cli.test_jobs import there

LOOKING = {
    "usage",
    "list",
    "show",
    "get",
    "env",
    "history",
    "jobs",
    "status",
    "models",
    "state",
    "chain",
    "events",
    "artifacts",
}
"""What commands are called that list or show something."""
HERE = {
    "agents config": ["routing"],
    "agents list": [],
    "agents show": ["debugger"],
    "agents suggest": ["debugger"],
    "agents validate": ["debugger"],
    "config env": [],
    "config get": ["ekiden.lease_s"],
    "config list": [],
    "mcp list": [],
    "models": [],
    "policy check": ["bash", "ls"],
    "route ask": ["the tests fail with a TypeError"],
    "team show": [],
    "trust": ["--list"],
}
ON_A_SERVER = {
    "approvals list": [],
    "approvals show": ["APPROVAL"],
    "catalog history": [],
    "doctor": [],
    "job artifacts": ["JOB"],
    "job chain": ["JOB"],
    "job events": ["JOB"],
    "job show": ["JOB"],
    "jobs": [],
    "memory list": [],
    "memory show": ["noon", "--shared", "shop"],
    "sessions list": [],
    "sessions show": ["SESSION"],
    "sessions state": ["SESSION"],
    "status": [],
    "trace show": ["JOB"],
    "usage": [],
}
OF_ONE_JOB = ("job chain", "job show", "jobs", "trace show")
"""Each object is a job, whose name is ``id`` there; elsewhere ``job`` is the one that something belongs to."""
ALSO_CALLED = {("agents", "route"), ("agents", "trace"), ("agents", "handoff-chain")}
"""Other names of commands, as gemini-cli has them."""
ELSEWHERE = {
    "agents run", "agents suggest", "approvals answer", "approvals approve", "approvals deny", "catalog diff",
    "catalog publish", "catalog rollback", "catalog show", "job follow", "job result", "init", "memory search",
    "job fork", "job retry", "mcp test", "route learn", "policy replay", "policy test", "route eval",
    "guardrails test",
    "agents graph visualize", "graph show",
    "run", "submit", "trace replay", "agents graph replay", "job rerun", "eval run",
}  # fmt: skip
"""They change something, need files, pools or an end, or write events; their own tests read what they write."""


def leaves(command: Any, ctx: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of ``ekiden --help`` and below, with its words."""
    if not (names := getattr(command, "list_commands", None)):
        yield " ".join(path), command
        return
    for name in names(ctx):
        below = command.get_command(ctx, name)
        if (*path, name) in ALSO_CALLED:
            continue
        inner = below.make_context(name, ["--help-is-not-asked-for"], parent=ctx, resilient_parsing=True)
        yield from leaves(inner.command, inner, (*path, name))


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    group = typer.main.get_command(app)
    return dict(leaves(group, group.make_context("ekiden", [], resilient_parsing=True)))


def has_json(command: Any) -> bool:
    return any("--json" in option.opts for option in command.params)


def test_every_command_that_lists_or_shows_has_it_and_is_looked_at_below(commands: dict[str, Any]) -> None:
    assert [path for path, one in commands.items() if path.split()[-1] in LOOKING and not has_json(one)] == []
    known = {*HERE, *ON_A_SERVER, *ELSEWHERE}
    assert {path for path, one in commands.items() if has_json(one)} == known


def objects(path: str, *args: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, [*path.split(), *args, "--json"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(line, dict) for line in lines), done.output
    assert done.exit_code in (0, 1), done.output
    return lines


def names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield name
            yield from names_in(below)
    elif isinstance(value, list):
        for one in value:
            yield from names_in(one)


@pytest.mark.parametrize("path", HERE)
def test_it_is_one_object_a_line(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert objects(path, *HERE[path]) or path in ("mcp list", "trust")


GEMINIS = {"agentName", "conversationHistory", "startedAt", "lastActiveAt"}
"""What gemini-cli calls the fields of a conversation: programs that read its files read ours."""


def test_it_is_one_object_a_line_of_what_is_on_a_server(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client) -> str:
        await client.add_note(Namespace("shared", "shop"), "Parcels leave at noon.", key="noon")
        return await parked(stores)

    job = there(valkey_url, scenario)
    words = {"JOB": job, "APPROVAL": f"{job}:1", "SESSION": job.partition(".")[0]}
    for path, args in ON_A_SERVER.items():
        lines = objects(path, *(words.get(arg, arg) for arg in args), "--redis", valkey_url)
        assert lines or path in ("catalog history", "job artifacts", "usage")
        assert all(line["id"] == job for line in lines if path in OF_ONE_JOB), path
        named = {name for line in lines for name in names_in(line)}
        foreign = GEMINIS if path == "sessions show" else set()
        assert {name for name in named if re.search(r"_at$|_time$|[A-Z]", name)} == foreign, path
