"""What ``ekiden run`` and ``ekiden up`` tell of their dispatcher's log."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from ekiden.dispatcher.local.stack import Stack


class Dispatcher:
    """A child that has logged these lines."""

    def __init__(self, *entries: dict[str, str]) -> None:
        self.lines = ["no JSON", "[]", *map(json.dumps, entries)]

    def tail(self, lines: int) -> str:
        return "\n".join(self.lines)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"event": "agent_file", "level": "error", "at": "a.md:4", "problem": "no"}, "agent file a.md:4: no"),
        (
            {"event": "catalog_not_published", "level": "error", "error": "c2 is in force"},
            "the agent files are not in force: c2 is in force",
        ),
        (
            {"event": "catalog_differs", "level": "warning", "files": "added z", "hint": "rolled back"},
            "the agent files are not in force (added z): rolled back",
        ),
    ],
)
def test_what_keeps_agent_files_from_being_in_force_is_told_once(
    entry: dict[str, str], text: str, tmp_path: Path
) -> None:
    warning = {"event": "agent_file", "level": "warning", "at": "a.md:1", "problem": "odd"}
    stack = Stack("unix:///s", tmp_path, tmp_path)
    stack.children["dispatcher"] = cast(Any, Dispatcher(warning, entry, {"event": "catalog_read", "level": "info"}))
    told: list[str] = []
    for _ in range(2):
        stack.tell_problems(told.append)
    assert told == [text]


def test_what_becomes_of_saved_files_is_told_each_time(tmp_path: Path) -> None:
    published = {"event": "agents_published", "level": "warning", "changes": "changed a"}
    entries = [{**published, "timestamp": "1"}, {**published, "timestamp": "2"}]
    entries.append({"event": "agent_kept", "level": "warning", "agent": "a", "file": "a.md"})
    stack = Stack("unix:///s", tmp_path, tmp_path)
    stack.children["dispatcher"] = cast(Any, Dispatcher(*entries))
    told: list[str] = []
    for _ in range(2):
        stack.tell_problems(told.append)
    assert told == [
        *["agent files changed, and are in force: changed a"] * 2,
        "agent a stays as it was, until a.md is mended",
    ]


def test_what_either_pool_could_not_load_is_told_once(tmp_path: Path) -> None:
    both, tools = ({"event": "plugin", "level": "error", "problem": text} for text in ("models: x", "tools: y"))
    stack = Stack("unix:///s", tmp_path, tmp_path)
    stack.children |= {"dispatcher": cast(Any, Dispatcher(both)), "worker": cast(Any, Dispatcher(both, tools))}
    told: list[str] = []
    stack.tell_problems(told.append)
    assert told == ["plug-in not loaded: models: x", "plug-in not loaded: tools: y"]
