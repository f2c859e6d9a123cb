"""Plays debugger, code-fixer and reviewer in a loop, with real tools in a folder: the relay without its queue."""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from ekiden.shared.llm.base import ModelRequest, ToolSpec
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.messages import ToolCall, ToolResult, answered, user_message
from ekiden.shared.packs import shipped_agents_dir
from ekiden.workers.tools.builtin.diff import short_difference
from ekiden.workers.tools.project_python import not_installed

TRANSFERS = {"debugger": ("code-fixer",), "code-fixer": ("reviewer",), "reviewer": ()}
TOOLS = ("ls", "glob", "grep", "read_file", "edit_file", "bash")
MAX_TURNS = 30


@dataclass
class Story:
    """What happened: who answered, with what, after which calls."""

    chain: list[str] = field(default_factory=list)
    answer: str = ""
    finish: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class Play(Protocol):
    """Runs the agents until one answers."""

    def __call__(self, folder: Path, request: str, agent: str = "debugger", python: str = sys.executable) -> Story: ...


@pytest.fixture
def play() -> Play:
    def run(folder: Path, request: str, agent: str = "debugger", python: str = sys.executable) -> Story:
        return asyncio.run(_play(folder, request, agent, python))

    return run


async def _play(folder: Path, request: str, agent: str, python: str) -> Story:
    model = ScriptedModel.from_folders(shipped_agents_dir() / "_scripts")
    story = Story(chain=[agent])
    messages = [user_message(request)]
    for _ in range(MAX_TURNS * 3):
        agent = story.chain[-1]
        reply = await model.reply(ModelRequest(agent, "scripted", "", tuple(messages), _specs(agent)))
        story.texts.append(reply.message.text)
        calls = reply.message.calls
        story.calls += calls
        if not calls:
            story.answer, story.finish = reply.message.text, reply.finish
            return story
        if calls[0].name.startswith("transfer_to_"):
            story.chain.append(calls[0].name.removeprefix("transfer_to_").replace("_", "-"))
            messages = [user_message(_brief(request, agent, calls[0].args))]
            continue
        messages += [reply.message, answered([_result(call, folder, python) for call in calls])]
        assert sum(message.role == "model" for message in messages) < MAX_TURNS, story.texts
    raise AssertionError(f"no end: {story.texts}")


def _specs(agent: str) -> tuple[ToolSpec, ...]:
    names = TOOLS + tuple(f"transfer_to_{target.replace('-', '_')}" for target in TRANSFERS[agent])
    return tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in names)


def _brief(request: str, agent: str, args: dict[str, Any]) -> str:
    told = "\n".join(f"{key.capitalize()}: {args[key]}" for key in ("reason", "summary", "context"))
    return f"{request}\n\n```brief\nFrom agent: {agent}\n{told}\n```"


def _result(call: ToolCall, folder: Path, python: str) -> ToolResult:
    try:
        content, failed = _run(call.name, call.args, folder, python), False
    except (OSError, ValueError) as error:
        content, failed = str(error), True
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=failed)


def _run(name: str, args: dict[str, Any], folder: Path, python: str) -> str:
    match name:
        case "ls":
            return "\n".join(sorted(path.name for path in (folder / args["path"]).iterdir()))
        case "glob":
            return "\n".join(sorted(str(path.relative_to(folder)) for path in folder.glob(args["pattern"])))
        case "read_file":
            lines = _text(folder / args["path"]).split("\n")
            lines = lines[:-1] if lines[-1] == "" else lines
            return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        case "edit_file":
            return _edit(folder / args["path"], args["old"], args["new"])
        case "bash":
            return _bash(args, folder, python)
    raise ValueError(f"no tool {name!r}")


def _text(path: Path) -> str:
    return path.read_bytes().decode()


def _edit(path: Path, old: str, new: str) -> str:
    text = _text(path)
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times")
    path.write_bytes(text.replace(old, new).encode())
    return f"edited\n{short_difference(text, text.replace(old, new), path.name)}"


def _bash(args: dict[str, Any], folder: Path, python: str) -> str:
    command = args["command"].replace("python3", python)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # where the scripts choose pytest: ours, which take a second to load
    try:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=args["timeout_s"], check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError("the command took too long") from None
    lacks = not_installed(done.stdout)
    note = f"({lacks} is not installed here: nowhere)\n" if lacks and done.returncode else ""
    return f"{done.stdout.rstrip()}\n{note}exit code: {done.returncode}"
