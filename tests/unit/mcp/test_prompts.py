"""Prompts of servers, as people who chat list and fill them in."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.running.server_prompts import PromptCommand, prompts_here
from ekiden.shared.errors import InvalidRequest
from ekiden.workers.mcp.listing import ListedArgument, ListedPrompt
from ekiden.workers.mcp.prompts import ServerPrompts, arguments_of
from tests.unit.mcp.test_hub import DOUBLE

pytestmark = pytest.mark.anyio

REVIEW = ListedPrompt("review", "", (ListedArgument("file", is_required=True), ListedArgument("tone")))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerPrompts]:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = {"command": sys.executable, "args": [str(DOUBLE), "library"]}
    servers = {"notes": program, "off": program | {"disabled": True}, "gone": {"command": "/nonexistent/server"}}
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    made = ServerPrompts()
    yield made
    made.close()


async def test_the_prompts_of_all_servers_are_listed_and_those_that_are_not_there_told(
    prompts: ServerPrompts, tmp_path: Path
) -> None:
    first, second = await prompts.lines(tmp_path / "project")
    assert first == "/mcp:notes:review FILE [TONE]  Have a file reviewed."
    assert "the MCP server 'gone' is not there" in second


async def test_a_prompt_is_what_its_server_writes(prompts: ServerPrompts, tmp_path: Path) -> None:
    for typed, written in (("a.py", "Review a.py kindly."), ("tone='very harshly' a.py", "Review a.py very harshly.")):
        assert await prompts.text(tmp_path / "project", "notes", "review", typed) == written


@pytest.mark.parametrize(
    ("server", "prompt", "typed", "why"),
    [
        ("nobody", "review", "", r"MCP server not configured: nobody \(configured are notes, gone\)"),
        ("notes", "sing", "", "has no prompt 'sing': its prompts are review"),
        ("notes", "review", "", r"it needs file. Type /mcp:notes:review FILE \[TONE\]"),
        ("gone", "review", "", "the MCP server 'gone' is not there"),
    ],
)
async def test_what_cannot_be_had_says_what_can(
    prompts: ServerPrompts, tmp_path: Path, server: str, prompt: str, typed: str, why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        await prompts.text(tmp_path / "project", server, prompt, typed)


@pytest.mark.parametrize(
    ("typed", "args"),
    [
        ("a.py", {"file": "a.py"}),
        ("a.py in a friendly way", {"file": "a.py", "tone": "in a friendly way"}),
        ("tone=dry 'a b.py'", {"file": "a b.py", "tone": "dry"}),
        ("a=b.py", {"file": "a=b.py"}),
    ],
)
def test_arguments_are_named_or_stand_in_order(typed: str, args: dict[str, str]) -> None:
    assert arguments_of(REVIEW, typed, "") == args


@pytest.mark.parametrize("typed", ["file=a tone=b more", "'a", "tone=dry"])
def test_arguments_that_do_not_fit_are_refused(typed: str) -> None:
    with pytest.raises(InvalidRequest):
        arguments_of(REVIEW, typed, "/mcp:notes:review FILE [TONE]")


def test_a_line_is_a_prompts_command_or_none() -> None:
    assert PromptCommand.of("/mcp:notes:review a.py  b") == ("notes", "review", "a.py  b")
    assert PromptCommand.of("/mcp:notes:review") == ("notes", "review", "")
    for text in ("/mcp:notes", "/mcp::review", "mcp:notes:review", "/help"):
        assert PromptCommand.of(text) is None


def test_a_chat_finds_them_by_their_entry_point() -> None:
    assert isinstance(prompts_here(), ServerPrompts)
