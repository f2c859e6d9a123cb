"""``ekiden mcp``: what it says of servers, and of entries that do not fit them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.workers.mcp.cli import app
from tests.unit.mcp.test_hub import DOUBLE

Configure = Callable[..., None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Return what writes the entry of a server ``double`` in the user's settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def write(**said: Any) -> None:
        entry = {"command": sys.executable, "args": [str(DOUBLE)], **said}
        (tmp_path / ".gemini").mkdir()
        (tmp_path / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": {"double": entry}}))

    return write


def test_a_server_is_listed_with_its_tools_and_their_risk(configure: Configure) -> None:
    configure(trust=True, includeTools=["echo"], excludeTools=["hang"])
    done = CliRunner().invoke(app, ["test", "double"])
    assert done.exit_code == 0, done.output
    assert "double 1.2: 1 tools in" in done.output
    assert "echo  (safe)" in done.output


def test_a_tool_that_the_entry_names_and_the_server_does_not_have_is_told(configure: Configure) -> None:
    configure(includeTools=["echo", "ecko"], excludeTools=["dye"])
    done = CliRunner().invoke(app, ["test", "double"])
    assert done.exit_code == 1
    assert (
        "'includeTools' of the MCP server 'double' names 'ecko', which is none of its tools: demand, die" in done.output
    )
    assert "'excludeTools' of the MCP server 'double' names 'dye'" in done.output


def test_a_server_that_is_to_be_confined_where_nothing_may_is_not_started(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(sandbox=True)
    monkeypatch.setenv("EKIDEN_TOOLS_SANDBOX", "off")
    done = CliRunner().invoke(app, ["test", "double"])
    assert done.exit_code == 1
    assert "nothing confines programs here (tools.sandbox is 'off')" in done.output
