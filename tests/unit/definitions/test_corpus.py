"""Real agent files of many authors, against what a strict loader was seen to do with each of them."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ekiden.shared.definitions.loader import load_file, load_folder
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.problems import Problem

COUNTS = {
    ("parses", "loads"): 111,
    ("parses", "warning"): 40,
    ("recoverable", "warning"): 24,
    ("UnicodeDecodeError", "warning"): 3,
    ("no-front-matter", "loads"): 1,  # blank lines before it
    ("no-front-matter", "refused"): 2,
    ("not-a-mapping:NoneType", "refused"): 1,
    ("unterminated-front-matter", "loads"): 1,  # the line ends of old Macs
    ("unterminated-front-matter", "warning"): 2,  # more than three dashes
    ("incomplete", "warning"): 6,  # no name
    ("incomplete", "refused"): 1,  # neither name nor description
    ("unsafe", "refused"): 2,
}
UNSAFE = {"derived/python-tag__debugger.md", "derived/yaml-anchor-bomb__debugger.md"}


@pytest.fixture
def agents(corpus: Path) -> Path:
    return corpus / "agents"


@pytest.fixture
def entries(agents: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((agents / "expectations.json").read_text(encoding="utf-8"))
    return found


@cache
def loaded(path: Path) -> tuple[AgentDefinition | None, list[Problem]]:
    return load_file(path, "project")


def class_of(entry: dict[str, Any]) -> str:
    if entry["path"] in UNSAFE:
        return "unsafe"
    if entry["parses"]:
        return "parses" if entry["name"] and entry["has_description"] else "incomplete"
    return "recoverable" if entry.get("recoverable_description") else str(entry["error_kind"])


def outcome_of(definition: AgentDefinition | None, problems: list[Problem]) -> str:
    if definition is None:
        return "refused"
    return "warning" if problems else "loads"


def test_every_file_fares_as_its_class_says(agents: Path, entries: list[dict[str, Any]]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        definition, problems = loaded(agents / entry["path"])
        outcome = outcome_of(definition, problems)
        counts[class_of(entry), outcome] += 1
        if outcome == "refused":
            assert all(problem.severity == "error" for problem in problems)
            assert all(problem.line for problem in problems if problem.aspect == "front matter"), entry["path"]
    printed = "\n".join(f"{count:4} {kind}: {outcome}" for (kind, outcome), count in sorted(counts.items()))
    assert counts == COUNTS, printed


def test_what_parses_has_the_name_and_the_description_that_were_seen(
    agents: Path, entries: list[dict[str, Any]]
) -> None:
    for entry in entries:
        if class_of(entry) == "parses":
            definition, _ = loaded(agents / entry["path"])
            assert definition is not None, entry["path"]
            assert definition.name == entry["name"].strip()
            if entry["has_description"]:
                assert abs(len(definition.description) - entry["description_chars"]) <= 2, entry["path"]


def test_what_is_recoverable_has_its_name_and_its_tools(agents: Path, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        if class_of(entry) == "recoverable":
            definition, problems = loaded(agents / entry["path"])
            assert definition is not None, entry["path"]
            assert definition.name == entry["recoverable_name"] or "'name' is missing" in str(problems)
            assert len(definition.description) > 20
            has_list = definition.tools is not None and definition.tools.allow is not None
            assert has_list == (entry["recoverable_tools"] is not None), entry["path"]


def test_tools_never_become_more_than_the_file_says(agents: Path, entries: list[dict[str, Any]]) -> None:
    """Only a star is all tools."""
    for entry in entries:
        definition, _ = loaded(agents / entry["path"])
        if definition is not None and entry["tools_form"] in ("comma-string", "string", "list"):
            assert definition.tools is not None
            assert definition.tools.allow is not None
            assert "*" not in definition.tools.allow, entry["path"]


def test_no_file_waits_for_a_tool_that_workers_do_not_ship_with(agents: Path) -> None:
    from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS

    waited = {
        tool
        for definition in load_folder(agents, "project").definitions
        for tool in ((definition.tools.allow or ()) if definition.tools else ())
    }
    assert waited <= BUILTIN_TOOLS | {"*"}


def test_bombs_and_tags_are_harmless(agents: Path) -> None:
    for path in UNSAFE:
        definition, [problem] = loaded(agents / path)
        assert definition is None
        assert problem.line
        assert len(str(problem)) < 1000


WHOLE = {
    "bash": {"*", "bash", "execute", "run_shell_command", "shell"},
    "edit_file": {"*", "edit", "multiedit", "replace", "write", "write_file"},
}
"""What files call the two tools that do more than read, in lower case."""


def forbidden_in(front: dict[str, Any]) -> set[str]:
    """Those of the two tools that a file does not allow, read without any of our code."""
    named = front.get("tools", front.get("allowedTools", []))
    allowed = {
        str(one).strip().lower() for one in (re.split(r",(?![^(]*\))", named) if isinstance(named, str) else named)
    }
    denied = front.get("disallowedTools") or []
    denied = re.findall(r"\w+", str(denied).lower())
    asked = {key.lower() for key, rule in _mapping(front.get("permission")).items() if rule != "allow"}
    hooks = re.findall(
        r"\w+", " ".join(str(one.get("matcher")) for one in _mapping(front.get("hooks")).get("PreToolUse", []))
    )
    listed = front.get("permissions")
    found = set()
    for tool, names in WHOLE.items():
        is_closed = front.get("permissionMode", "default") not in ("default", "acceptEdits", "bypassPermissions")
        is_left_out = isinstance(listed, list) and not names & set(listed)
        if not names & allowed or names & {*denied, *asked, *map(str.lower, hooks)} or is_closed or is_left_out:
            found.add(tool)
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def test_no_agent_may_do_what_its_file_does_not_allow(agents: Path, entries: list[dict[str, Any]]) -> None:
    restricted = 0
    for entry in entries:
        definition, _ = loaded(agents / entry["path"])
        text = (agents / entry["path"]).read_text("utf-8", "replace").lstrip("\ufeff\n").replace("\r", "\n")
        try:
            front = yaml.safe_load(text.split("---", 2)[1])
        except (IndexError, yaml.YAMLError):
            continue
        if definition is not None and isinstance(front, dict):
            forbidden = forbidden_in(front)
            assert [tool for tool in forbidden if definition.permits(tool)] == [], entry["path"]
            restricted += bool(forbidden)
    assert restricted > 80
