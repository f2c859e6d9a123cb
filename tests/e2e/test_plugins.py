"""The package that ``docs/plugins.md`` shows, found on the path of the pools' Python, works through the queue."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.distributions import install_wheel, place_distribution
from tests.e2e.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
AGENT = """---
name: counter
description: Counts words.
model: parrot-1
tools: [count_words, where_is]
---
Count.
"""


def example(name: str) -> str:
    found = re.search(rf"<!-- plug-in: {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None, name
    return found[1]


@pytest.fixture
def installed(ekiden: Program, tmp_path: Path) -> Program:
    """The package of the page, allowed beside one that is broken, and an agent that uses it."""
    project = tomllib.loads(example("pyproject.toml"))["project"]
    site = tmp_path / "site"
    site.mkdir()
    text = example("my_plugins.py")
    install_wheel(site, project["name"], text, project["version"], project["entry-points"])
    told = f"__import__('pathlib').Path({str(tmp_path / 'imported')!r}).write_text('')"
    eager = f"{told}\nfrom my_plugins import where_is\n"
    place_distribution(site, "eager", eager, "0.1", {"ekiden.tools": {"y": "eager:where_is"}})
    broken = "import secrets_of_nobody"
    place_distribution(site, "broken", broken, "0.1", {"ekiden.tools": {"x": "broken:x"}})
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    ekiden.env |= {"PYTHONPATH": os.pathsep.join(paths), "PARROT_KEY": "k"}
    ekiden.env |= {f"EKIDEN_{group}_PACKAGES": "my-plugins" for group in ("MODELS", "ROUTERS", "HOOKS", "COMMANDS")}
    agents = ekiden.folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "counter.md").write_text(AGENT, "utf-8")
    return ekiden


def add_hooks(settings: Path, asked: Path) -> Path:
    """Let commands of the user's settings note what they are asked, by dispatcher and worker."""
    note = [{"command": f"cat >> {asked}", "required": True}]
    known = json.loads(settings.read_text("utf-8"))
    hooks = known.get("hooks", {}) | dict.fromkeys(("BeforeRoute", "BeforeTool", "SessionEnd"), note)
    settings.write_text(json.dumps(known | {"hooks": hooks}), "utf-8")
    return asked


def test_no_command_imports_the_tools_of_a_package(installed: Program, tmp_path: Path) -> None:
    assert installed.run("config", "set", "--global", "tools.packages", "eager").returncode == 0
    for words in (["agents", "validate", "--all"], ["agents", "list"], ["doctor"], ["jobs"], ["config", "list"]):
        installed.run(*words)
        assert not (tmp_path / "imported").exists(), words


def test_a_package_of_ones_own_brings_a_tool_a_model_a_router_a_hook_and_a_command(installed: Program) -> None:
    ekiden = installed
    allowed = ekiden.run("config", "set", "--global", "tools.packages", "my-plugins, broken")
    assert allowed.returncode == 0, allowed.stderr
    asked = add_hooks(Path(ekiden.env["HOME"]) / ".gemini" / "settings.json", ekiden.folder / "asked")
    done = ekiden.run("run", "Counter counts one two three", "--strategy", "first-word", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    by_type = {event["type"]: event for event in events if "type" in event}
    assert (by_type["routed"]["agent"], by_type["routed"]["stage"]) == ("counter", "first-word")
    assert by_type["tool_started"]["package"] == "my-plugins 1.2"
    assert re.fullmatch("[0-9a-f]{16}", by_type["tool_started"]["digest"])
    assert by_type["tool_result"]["result"]["content"] == "5"
    assert (by_type["model_reply"]["model"], by_type["model_reply"]["cost_usd"]) == ("parrot-1", 0.0)
    assert by_type["ended"]["answer"] == "5 words"
    log = (ekiden.data / "worker.log").read_text("utf-8")
    assert "tools: broken 0.1 (broken:x) cannot be loaded: ModuleNotFoundError" in log
    assert re.search(r"audit: \S+ has ended after \d+ records", log)
    assert ekiden.run("greet", "--name", "Ada").stdout == "hello, Ada\n"
    events = [json.loads(line)["hook_event_name"] for line in asked.read_text("utf-8").splitlines()]
    assert events == ["BeforeRoute", "BeforeTool", "SessionEnd"]
