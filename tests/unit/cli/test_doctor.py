"""What the doctor thinks of what it finds."""

import asyncio
import socket
from pathlib import Path

import pytest

from dispatcher.cli.doctor_here import agent_files, collector, mcp_servers, models
from dispatcher.cli.doctor_server import agents_served, clock, queues_served, versions
from shared.settings import load_settings
from shared.stores.base import PoolView
from shared.stores.pools import QueueView
from shared.version import VERSION


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty project with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def pool(*queues: str, version: str = VERSION) -> PoolView:
    return PoolView("vm.1", "worker", queues, in_flight=2, version=version)


def test_clocks_that_differ_are_a_warning_that_says_which_way() -> None:
    assert clock(-400).status == "ok"
    assert "behind" in clock(5_000).text
    assert "ahead" in clock(-5_000).text
    assert clock(5_000).status == "warning"
    assert clock(5_000).remedy


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


def test_agent_files_are_valid_until_one_is_not(elsewhere: Path) -> None:
    assert agent_files().status == "ok"
    folder = elsewhere / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "broken.md").write_text("---\nname: broken\n---\nno description\n")
    found = agent_files()
    assert found.status == "error"
    assert "broken.md" in found.text
    assert "validate" in found.remedy


def test_a_stand_in_model_is_a_warning_and_an_unusable_default_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert models(load_settings(), {}).status == "warning"
    assert models(load_settings(), {"GEMINI_API_KEY": "x"}).status == "ok"
    assert models(load_settings(model="gemini-2.5-pro"), {}).status == "error"


def test_mcp_servers_are_named(elsewhere: Path) -> None:
    assert mcp_servers().text == "none configured"
    (elsewhere / ".gemini").mkdir()
    (elsewhere / ".gemini" / "settings.json").write_text('{"mcpServers": {"github": {}}}')
    assert "github" in mcp_servers().text


def test_the_collector_is_asked_only_where_one_is_named() -> None:
    def examined(address: str) -> tuple[str, str]:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": address} if address else {}
        found = asyncio.run(collector(env))
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
