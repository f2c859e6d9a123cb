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


def broken(file: str, problem: str = "no name") -> dict[str, str]:
    return {"event": "agent_file", "level": "error", "at": f"{file}:1", "problem": problem}


def told_by(data_dir: Path, *entries: dict[str, str], in_full: bool = False) -> list[str]:
    """What a command tells whose dispatcher logs these lines, one more from look to look."""
    stack, told = Stack("unix:///s", data_dir, data_dir), list[str]()
    for number in range(len(entries) + 2):
        stack.children["dispatcher"] = cast(Any, Dispatcher(*entries[: number + 1]))
        stack.tell_problems(told.append, in_full=in_full)
    return told


def test_broken_agent_files_are_told_in_full_once_and_counted_later_as_long_as_they_are_the_same(
    tmp_path: Path,
) -> None:
    first = ["agent file a.md:1: no name", "agent file b.md:1: no name"]
    counted = "2 agent files have the errors that were told before: `ekiden agents validate` tells of them again"
    assert told_by(tmp_path, broken("a.md"), broken("b.md")) == first
    assert told_by(tmp_path, broken("a.md"), broken("b.md")) == [counted]
    assert told_by(tmp_path, broken("a.md"), broken("b.md"), in_full=True) == first
    assert told_by(tmp_path, broken("a.md", "no description"), broken("b.md")) == [
        "agent file a.md:1: no description",
        "an agent file has the error that was told before: `ekiden agents validate` tells of them again",
    ]
    assert told_by(tmp_path, broken("a.md")) == ["agent file a.md:1: no name"]


def test_a_folder_that_cannot_be_written_is_told_of_broken_files_each_time(tmp_path: Path) -> None:
    (tmp_path / "agent_files.told").mkdir()
    for _ in range(2):
        assert told_by(tmp_path, broken("a.md")) == ["agent file a.md:1: no name"]
