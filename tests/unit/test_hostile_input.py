"""A thousand hostile agent files, settings files and journals: each ends in what is harmless, or in a clear error."""

import io
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.chain import chain_json
from ekiden.dispatcher.cli.views.json_lines import JsonView
from ekiden.dispatcher.cli.views.mermaid import flowchart
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.cli.views.waterfall import ASCII, waterfall
from ekiden.dispatcher.journal.exports.openai import openai_trace
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.exports.summary import story_json
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.shared.definitions.fields import MCP_SERVERS
from ekiden.shared.definitions.loader import AGENTS_FOLDER, Level, load_folder
from ekiden.shared.definitions.tool_names import SAFE_TOOLS
from ekiden.shared.definitions.trusted import trusted
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.prices import Prices
from ekiden.shared.records import LATEST_MS, Entry, decode_record
from ekiden.shared.settings.files import project_file
from ekiden.shared.settings.model import HARMLESS, Settings, load_settings
from ekiden.shared.trust.notices import take_over
from ekiden.workers.tools.registry import BUILTIN

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # a machine may be busy
hostile = partial(settings, deadline=5_000, suppress_health_check=SLOW)
STORED = [json.loads(path.read_text()) for path in (Path(__file__).parent / "stored").glob("record_*.json")]
NASTY = [
    "",
    "*",
    "../..",
    "/etc/passwd",
    "~",
    "${HOME}",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "bash",
    "__proto__",
    "1e999",
    "é" * 999,
]
NASTY += ["!!python/object/apply:os.system [id]", "{{7*7}}", "((a+)+)+$", "redis://u:p@h:1/0", "transfer_to_x", "名字"]
SCALARS: list[Callable[[Random], object]] = [
    lambda chance: chance.choice([None, True, False]),
    lambda chance: chance.randint(-(2**70), 2**70) >> chance.randrange(71),
    lambda chance: chance.choice(
        [math.inf, -math.inf, math.nan, -0.0, chance.random() * 10 ** chance.randint(-9, 300)]
    ),
    lambda chance: "".join(
        chr(chance.choice([*range(128), chance.randrange(0xD800)])) for _ in range(chance.randrange(9))
    ),
    lambda chance: chance.choice(NASTY),
]


def anything(seed: int) -> Any:
    """A JSON value, always the same for a seed: to have Hypothesis draw each of its parts takes ten times as long."""
    return _anything(Random(seed), depth=3)


def _anything(chance: Random, depth: int) -> Any:
    kind = chance.randrange(len(SCALARS) + 2 if depth else len(SCALARS))
    if kind < len(SCALARS):
        return SCALARS[kind](chance)
    inner = [_anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    return inner if kind == len(SCALARS) else {str(chance.choice([*NASTY, chance.random()])): one for one in inner}


SEEDS = st.integers(0, 2**32)
FIELDS = ["name", "description", "title", "tools", "allowedTools", "disallowedTools", "handoffs", "subagents", "agents"]
FIELDS += [
    "triggers",
    "inputs",
    "output",
    "limits",
    "model",
    "delegation",
    "hooks",
    "mcp",
    "mcpServers",
    "policy",
    "team",
]
TOOLS = [
    ["bash"],
    "*",
    "Bash, Read",
    {"allow": ["*"], "deny": []},
    {"allow": ["[b]ash"]},
    {"bash": True},
    {"deny": ["ls"]},
    ["Bash(ls:*)", "mcp.*"],
]


def front_matter(seed: int) -> dict[str, Any]:
    """An agent file's fields, some of them anything."""
    chance = Random(seed)
    fields = {name: _anything(chance, depth=3) for name in chance.sample(FIELDS, k=chance.randrange(7))}
    return {"name": "lure", "description": "d", "tools": chance.choice(TOOLS), **fields}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that nobody trusts, and the current one."""
    (tmp_path / "home").mkdir()
    (tmp_path / "clone" / AGENTS_FOLDER).mkdir(parents=True)
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "clone")
    take_over(tmp_path / "clone")
    return tmp_path / "clone"


def is_harmless(project: Path) -> bool:
    """Whether no agent of the project has more than the safe tools, or brings programs."""
    folder = project / AGENTS_FOLDER
    for level in trusted([Level("project", folder, load_folder(folder, "project"), project)]):
        for agent in level.loaded.definitions:
            if {tool.name for tool in BUILTIN if agent.permits(tool.name)} - SAFE_TOOLS:
                return False
            if agent.permits("mcp.any.tool") or any(agent.extra.get(name) for name in (*MCP_SERVERS, "hooks")):
                return False
    return True


@hostile(max_examples=400)
@given(fields=SEEDS.map(front_matter))
@example(fields={"name": "lure", "description": "d", "tools": "Bash, Read", "hooks": None})
@example(fields={"name": "lure", "description": "d", "tools": ["ls"], "hooks": {"Stop": [{"command": "id"}]}})
def test_an_agent_file_of_any_fields_loads_harmless_or_not_at_all(project: Path, fields: dict[str, Any]) -> None:
    text = f"---\n{yaml.safe_dump(fields, allow_unicode=True)}---\n{fields.get('description')}\n"
    (project / AGENTS_FOLDER / "lure.md").write_text(text, "utf-8", "replace")
    assert is_harmless(project)


@hostile(max_examples=500)
@given(front=st.binary(max_size=200), body=st.binary(max_size=50))
def test_an_agent_file_of_any_bytes_loads_harmless_or_not_at_all(project: Path, front: bytes, body: bytes) -> None:
    (project / AGENTS_FOLDER / "lure.md").write_bytes(b"---\nname: lure\ntools: [bash]\n" + front + b"\n---\n" + body)
    assert is_harmless(project)


@hostile(max_examples=100)
@given(
    data=st.binary(max_size=60)
    | SEEDS.map(anything).map(lambda value: json.dumps({"ekiden": value, "agents": value}).encode())
)
def test_a_settings_file_of_anything_sets_what_is_harmless_or_is_refused_by_its_name(
    project: Path, data: bytes
) -> None:
    project_file().write_bytes(data)
    try:
        found = load_settings()
    except ConfigurationError as error:
        refusal = str(error)
    else:
        refusal = ""
    finally:
        project_file().unlink()
    if refusal:
        assert "settings.json" in refusal
        return
    default = Settings()
    assert {name: getattr(found, name) for name in UNSAFE} == {name: getattr(default, name) for name in UNSAFE}


UNSAFE = Settings.model_fields.keys() - HARMLESS - {"auto_approve"}  # which the tests' environment sets
VIEWS: list[Callable[[Story], object]] = [
    story_json,
    chain_json,
    flowchart,
    lambda story: list(waterfall(story, 80, ASCII)),
    lambda story: openai_trace(story, content=True),
]


def journal(seed: int) -> list[Entry]:
    """Records of any kind in any order, with any fields exchanged, as far as they can be read at all."""
    chance = Random(seed)
    found: list[Entry] = []
    for _ in range(chance.randint(1, 8)):
        stored = chance.choice(STORED)
        names = chance.choices(sorted(stored.keys() - {"type"}), k=chance.randrange(3))
        try:
            record = decode_record(json.dumps(stored | {name: _anything(chance, depth=3) for name in names}))
        except (ValidationError, ValueError):
            continue
        at_ms = chance.choice([0, LATEST_MS, chance.randint(0, LATEST_MS)])
        found.append(Entry(seq=len(found) + 1, at_ms=at_ms, record=record))
    return found


@hostile(max_examples=400)
@given(entries=SEEDS.map(journal))
def test_a_journal_of_anything_is_shown_to_people_and_programs(entries: list[Entry]) -> None:
    text = io.StringIO()
    for view in (TerminalView("abc.1", Output(text)), JsonView("abc.1", text)):
        for entry in entries:
            view.show(entry)
    story = story_of("abc.1", entries, 0)
    for show in VIEWS:
        show(story)
    otlp_trace({"abc.1": entries}, story.now_ms, Prices(), content=True)
    assert not set(text.getvalue()) & set("\x00\x1b\x9b\u202e")
