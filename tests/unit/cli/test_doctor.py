"""What the doctor thinks of what it finds."""

import asyncio
import json
import socket
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.doctor.durability_checks import losses
from ekiden.dispatcher.cli.doctor.local_checks import (
    agent_files,
    collector,
    hooks,
    mcp_servers,
    models,
    scripts,
    settings_files,
)
from ekiden.dispatcher.cli.doctor.sandbox_checks import sandbox_here, sandboxes_there
from ekiden.dispatcher.cli.doctor.server_checks import (
    agents_served,
    clock,
    own_files,
    queues_served,
    stuck_tools,
    versions,
)
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.clock import Jump
from ekiden.shared.stores.durability import Durability
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView
from ekiden.shared.version import VERSION


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty project with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def pool(*queues: str, version: str = VERSION) -> PoolView:
    return PoolView("vm.1", "worker", queues, in_flight=2, version=version)


def test_clocks_that_differ_are_a_warning_that_says_which_way() -> None:
    assert clock(-400, None).status == "ok"
    assert "behind" in clock(5_000, None).text
    assert "ahead" in clock(-5_000, None).text
    assert clock(5_000, None).status == "warning"
    assert clock(5_000, None).remedy


def test_a_jump_of_the_servers_clock_is_told_with_its_way_and_that_it_had_no_effect() -> None:
    at_ms = round(datetime(2026, 11, 28, 10, 0, 0).astimezone().timestamp() * 1000)
    back = clock(0, Jump(-3_600_000, at_ms, 1))
    assert back.status == "ok"
    assert "the server's went 1h00m back to 2026-11-28 10:00:00: leases, timers and deadlines took no" in back.text
    assert "192h00m forward to 2026-11-28 10:00:00 (jump 3)" in clock(5_000, Jump(8 * 86_400_000, at_ms, 3)).text


def test_no_pools_are_a_warning_with_the_command() -> None:
    (found,) = agents_served(["debugger"], [])
    assert found.status == "warning"
    assert "ekiden up" in found.remedy


def test_agents_without_a_worker_are_named_with_the_command() -> None:
    found = agents_served(["debugger", "reviewer"], [pool("ekiden.dispatch", "ekiden.agent.debugger")])
    assert [one.status for one in found] == ["ok", "warning"]
    assert found[1].remedy == "ekiden worker --agents reviewer"


def test_a_missing_dispatcher_is_an_error() -> None:
    found = agents_served(["debugger"], [pool("ekiden.agent.debugger")])
    assert [(one.check, one.status) for one in found] == [("pools", "ok"), ("dispatcher", "error"), ("workers", "ok")]


def test_messages_that_nobody_waits_for_are_an_error_with_the_command() -> None:
    queues = [
        QueueView("ekiden.agent.debugger", 3, ()),
        QueueView("ekiden.dispatch", 1, ()),
        QueueView("ekiden.agent.reviewer", 0, ()),
    ]
    found = queues_served(queues)
    assert [one.status for one in found] == ["error", "error"]
    assert [one.remedy for one in found] == ["ekiden worker --agents debugger", "ekiden dispatcher"]
    assert queues_served([QueueView("q", 3, ("p",))])[0].status == "ok"


def test_pools_of_another_version_are_a_warning() -> None:
    assert versions([pool("q")]).status == "ok"
    found = versions([pool("q"), pool("q", version="0.0.9")])
    assert found.status == "warning"
    assert "0.0.9" in found.text


def test_own_agent_files_that_are_not_in_force_are_a_warning(elsewhere: Path) -> None:
    shipped = build_catalog(open_agents(()).in_force.values())[0].manifest()
    assert own_files({"other": "d"}) == [], "there are none of one's own here"
    folder = elsewhere / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text("---\nname: mine\ndescription: Mine.\n---\nWork.\n")
    own = build_catalog(open_agents(()).in_force.values())[0].manifest()
    assert own_files(own) == []
    assert own_files({}) == [], "nothing is in force"
    [found] = own_files({**shipped, "theirs": "d", "reviewer": "d"})
    assert found.status == "warning"
    assert found.text.endswith(": added mine; removed theirs; changed reviewer")
    assert "ekiden catalog publish" in found.remedy


def test_agent_files_are_valid_until_one_is_not(elsewhere: Path) -> None:
    assert agent_files().status == "ok"
    folder = elsewhere / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text("---\nname: mine\ndescription: Mine.\n---\nWork.\n")
    assert agent_files().text.startswith("1 here, and ")
    (folder / "broken.md").write_text("---\nname: broken\n---\nno description\n")
    found = agent_files()
    assert found.status == "error"
    assert "broken.md" in found.text
    assert "validate" in found.remedy


def test_scripts_of_the_stand_in_are_fine_until_one_is_not(elsewhere: Path) -> None:
    assert scripts(load_settings()) == []
    settings = load_settings(scripts_dir=elsewhere)
    (elsewhere / "s.yaml").write_text("agents:\n  a: [{name: n, say: hi}]\n")
    assert [found.status for found in scripts(settings)] == ["ok"]
    (elsewhere / "s.yaml").write_text("agents:\n  a: [{name: n, say: no}]\n")
    [found] = scripts(settings)
    assert found.status == "error"
    assert (
        found.text == f"{elsewhere / 's.yaml'}:2: error: agent 'a', rule 'n': say: must be a string: put it in quotes"
    )


def test_a_stand_in_model_is_a_warning_and_an_unusable_default_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert models(load_settings(), {}).status == "warning"
    assert models(load_settings(), {"GEMINI_API_KEY": "x"}).status == "ok"
    assert models(load_settings(model="gemini-2.5-pro"), {}).status == "error"


def test_commands_that_are_hooks_are_named_and_so_is_what_is_wrong_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hooks().text == "no commands"
    (tmp_path / ".gemini").mkdir()
    for block, text in [
        ({"BeforeTool": [{"command": "guard", "matcher": "bash"}]}, "BeforeTool guard"),
        ({"Setup": [{"command": "x"}]}, "nothing is asked at 'Setup' here"),
        ({"BeforeTool": [{"command": 5}]}, "settings.json:1: 'hooks': entry 1 of BeforeTool needs a 'command'"),
    ]:
        (tmp_path / ".gemini" / "settings.json").write_text(json.dumps({"hooks": block}), "utf-8")
        assert text in hooks().text


def test_what_waits_for_the_users_trust_is_no_nothing(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    (elsewhere / ".gemini").mkdir()
    asked = {"hooks": {"BeforeTool": [{"command": "guard"}]}, "mcpServers": {"files": {"command": "x"}}}
    (elsewhere / ".gemini" / "settings.json").write_text(json.dumps(asked), "utf-8")
    for found, name in ((hooks(), "BeforeTool"), (mcp_servers(), "files")):
        assert (found.status, found.remedy) == ("warning", "ekiden trust")
        assert f"{name} wait until you trust it" in found.text


def test_mcp_servers_are_named(elsewhere: Path) -> None:
    assert mcp_servers().text == "none configured"
    (elsewhere / ".gemini").mkdir()
    (elsewhere / ".gemini" / "settings.json").write_text('{"mcpServers": {"github": {}}}')
    assert "github" in mcp_servers().text


def test_a_server_whose_program_is_not_here_is_told(elsewhere: Path) -> None:
    def examined(command: str) -> tuple[str, str]:
        (elsewhere / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": {"command": command}}}))
        found = mcp_servers()
        return found.status, found.text

    (elsewhere / "home/.gemini").mkdir(parents=True)
    assert examined("sh") == ("ok", "configured: files")
    assert examined("no-such-program") == ("warning", "programs that are not here: files: no-such-program")
    assert examined("/bin/no-such-program")[0] == "warning"
    assert examined("${FILES_SERVER}")[0] == "ok"


def test_the_collector_is_asked_only_where_one_is_named() -> None:
    def examined(address: str) -> tuple[str, str]:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": address} if address else {}
        return looked_at(env)

    def looked_at(env: dict[str, str]) -> tuple[str, str]:
        found = asyncio.run(collector(load_settings(), env))
        return found.status, found.text

    assert examined("")[0] == "ok"
    assert examined("http://")[0] == "error"
    assert examined("http://localhost:no")[0] == "error"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert examined(f"http://127.0.0.1:{port}")[0] == "ok"
    status, text = examined(f"http://127.0.0.1:{port}")
    assert status == "error"
    assert f"127.0.0.1:{port}" in text
    grpc = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}
    assert looked_at(grpc)[0] == "error"
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'" in looked_at(grpc)[1]
    assert looked_at({"OTEL_TRACES_EXPORTER": "zipkin"})[0] == "error"


@pytest.mark.parametrize("address", ["http://me:p@planted/w#rd@127.0.0.1:1", "http://me:pw@planted/x@127.0.0.1:1"])
def test_a_collectors_address_that_is_ambiguous_is_not_looked_up_nor_shown(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "open_connection", lambda *_: pytest.fail("looked up"))
    found = asyncio.run(collector(load_settings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": address}))
    assert found.status == "error"
    assert "planted" not in f"{found}"


KEPT = Durability(
    appendonly=True,
    fsync="everysec",
    syncs_in_rewrites=True,
    snapshots="",
    replicas=0,
    min_replicas=0,
    max_lag_s=10,
)
PAIRED = replace(KEPT, replicas=1, behind_bytes=70, min_replicas=1)


def lost(server: Durability, wait_replicas: int = 0) -> dict[str, tuple[str, str]]:
    return {one.check: (one.status, one.text) for one in losses(server, wait_replicas)}


@pytest.mark.parametrize(
    ("server", "status", "said"),
    [
        (KEPT, "ok", "a server that is killed loses nothing, a host that goes down 1 s at most (appendfsync everysec)"),
        (replace(KEPT, fsync="always"), "ok", "a host that goes down nothing either (appendfsync always)"),
        (replace(KEPT, fsync="no"), "warning", "up to half a minute"),
        (replace(KEPT, fsync=None), "warning", "unknown"),
        (replace(KEPT, syncs_in_rewrites=False), "warning", "more while the file is rewritten"),
        (replace(KEPT, appendonly=False), "warning", "keeps nothing on disk"),
        (replace(KEPT, appendonly=False, snapshots="3600 1"), "warning", "all since the last one is lost"),
        (replace(KEPT, appendonly=False, snapshots=None), "warning", "snapshots only (when is unknown)"),
        (Durability(), "warning", "unknown"),
    ],
)
def test_what_a_crash_loses_is_said(server: Durability, status: str, said: str) -> None:
    found = lost(server)["crash"]
    assert found[0] == status
    assert said in found[1]


@pytest.mark.parametrize(
    ("server", "wanted", "status", "said"),
    [
        (KEPT, 0, "ok", "as safe as this server's disk"),
        (KEPT, 1, "error", "0 replicas are connected, 1 are waited for"),
        (PAIRED, 0, "warning", "1 replicas are connected, 70 bytes behind just now: a failover loses what"),
        (PAIRED, 1, "ok", "what was confirmed survives: 1 of 1 replicas"),
        (PAIRED, 2, "error", "every submission ends as not confirmed"),
        (replace(PAIRED, replicas=2), 1, "ok", "the one furthest ahead must be promoted"),
        (Durability(), 0, "warning", "unknown"),
        (Durability(), 1, "warning", "unknown"),
    ],
)
def test_what_a_failover_loses_is_said(server: Durability, wanted: int, status: str, said: str) -> None:
    found = lost(server, wanted)["failover"]
    assert found[0] == status
    assert said in found[1]


def test_whether_a_primary_without_its_replicas_takes_writes_is_said_where_there_are_some() -> None:
    assert "cut-off primary" not in lost(KEPT)
    assert lost(replace(PAIRED, min_replicas=0))["cut-off primary"][0] == "warning"
    assert lost(replace(PAIRED, min_replicas=None))["cut-off primary"][0] == "warning"
    assert lost(PAIRED)["cut-off primary"] == ("ok", "it takes no writes after 10 s (min-replicas-to-write 1)")


def test_a_key_of_ours_that_is_no_setting_is_told_and_others_keys_are_not(elsewhere: Path) -> None:
    assert settings_files().status == "ok"
    (elsewhere / ".gemini").mkdir()
    (elsewhere / ".gemini" / "settings.json").write_text(
        '{"ekiden": {"modle": "x", "lease_s": 3, "prices": {"a": [1, 2]}}, "ui": {"theme": "dark"},'
        ' "agents": {"autoRoute": true, "overrides": {"a": {}}, "routing": {"rule": {"threshold": 3}}}}'
    )
    found = settings_files()
    assert found.status == "warning"
    assert "ekiden.modle in " in found.text
    assert "'ekiden.model'" in found.text
    assert "agents.routing.rule.threshold" in found.text
    assert not any(key in found.text for key in ("autoRoute", "lease_s", "prices", "theme", "overrides"))


def test_many_calls_that_never_returned_are_told() -> None:
    told = stuck_tools([PoolView(name, "worker", (), extra={"stuck_tools": count}) for name, count in
                        (("fine", "4"), ("bad", "5"))] + [PoolView("old", "worker", ())])  # fmt: skip
    assert [(one.check, one.text) for one in told] == [("tools", "5 calls never returned in bad")]


def test_what_would_confine_commands_here_is_tried_and_a_secret_on_the_way_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EKIDEN_TOOLS_SANDBOX", "off")
    found = asyncio.run(sandbox_here())
    assert (found.check, found.status) == ("sandbox", "warning")
    assert "no sandbox (tools.sandbox is 'off'); open: network open" in found.text
    assert "install bubblewrap" in found.remedy
    monkeypatch.setenv("EKIDEN_TOOLS_SANDBOX", "gaol")
    wrong = asyncio.run(sandbox_here())
    assert wrong.status == "error"
    assert "'tools.sandbox'" in wrong.text


def test_pools_whose_commands_are_not_fully_confined_are_named() -> None:
    closed, opened = (replace(pool("q"), id=name, sandbox=told) for name, told in (
        ("one", "bubblewrap"), ("two", "landlock (no bubblewrap: no bwrap); open: network open")
    ))  # fmt: skip
    [found] = sandboxes_there([closed, opened, pool("ekiden.dispatch")])
    assert found.status == "warning"
    assert found.text.startswith("commands of two run in landlock")
