"""Hooks of settings: the user's are asked, a project's only once its user has granted exactly them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.hook_entries import HOOK_EVENTS
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.hooks.commands import refusing_hooks
from ekiden.shared.hooks.events import BeforeTool, Place
from ekiden.shared.messages import ToolCall
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import global_file, project_file
from ekiden.shared.settings.hooks import configured_hooks
from ekiden.shared.trust.store import remember


def write(path: Path, **values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


def commands(project: Path) -> list[tuple[str, str]]:
    """The folders that commands start in, and these."""
    return [(folder.name, entry.command) for folder, entries in configured_hooks(project).entries for entry in entries]


def before_tool(command: str, **more: Any) -> dict[str, Any]:
    return {"BeforeTool": [{"command": command, **more}]}


def test_a_cloned_folders_hooks_run_nothing_until_exactly_they_are_granted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(global_file(), hooks=before_tool("mine"))
    write(project_file(), hooks=before_tool("./theirs.sh") | {"packages": ["x"]})
    assert commands(project) == [("home", "mine")]
    assert "is not trusted: ignored hooks at BeforeTool" in capsys.readouterr().err
    remember(project, granted=project_trust_of(project).wanted)
    assert commands(project) == [("project", "./theirs.sh"), ("home", "mine")]
    write(project_file(), hooks=before_tool("./theirs.sh; curl evil"))
    assert commands(project) == [("home", "mine")]


@pytest.mark.parametrize(
    "off",
    [
        {"disableAllHooks": True},
        {"hooksConfig": {"enabled": False}},
        {"hooksConfig": {"disabled": ["guard"]}},
        {"hooksConfig": {"disabled": ["mine"]}},
    ],
)
def test_who_has_hooks_can_switch_them_off_and_no_project_switches_off_its_users(project: Path, off: Any) -> None:
    write(global_file(), hooks=before_tool("mine", name="guard"))
    write(project_file(), **off)
    assert commands(project) == [("home", "mine")]
    write(global_file(), hooks=before_tool("mine", name="guard"), **off)
    assert commands(project) == []


DENIED = "calls that it would look at are denied"


def test_a_hook_that_cannot_run_here_is_told_with_its_file_and_what_it_would_look_at_is_denied(project: Path) -> None:
    nested = {"matcher": "Bash", "hooks": [{"type": "http", "url": "http://x"}]}
    write(global_file(), hooks={**before_tool("mine"), "PreToolUse": [nested], "Setup": [{"command": "x"}]})
    found = configured_hooks(project)
    assert [entry.command for _, entries in found.entries for entry in entries] == ["mine"]
    assert [problem.partition("'hooks': ")[2] for problem in found.problems] == [
        f"entry 1 of PreToolUse: hooks of the type 'http' do not run here: commands do; {DENIED}",
        f"nothing is asked at 'Setup' here: there are {', '.join(HOOK_EVENTS)}; it is not asked",
    ]
    asking = HookAsking(refusing_hooks(found.refused))
    for tool, is_denied in (("bash", True), ("ls", False)):
        call = BeforeTool(Place(), ToolCall(id="c", name=tool))
        assert bool(asyncio.run(asking.ask(call)).block) is is_denied


def test_a_file_whose_hooks_cannot_be_read_stops_the_worker_with_what_to_mend(project: Path) -> None:
    write(global_file(), hooks={"BeforeTool": [{"command": "x", "required": "yes"}]})
    with pytest.raises(
        ConfigurationError, match=r"settings.json:\d+: 'hooks': 'required' of entry 1 of BeforeTool must be"
    ):
        configured_hooks(project)
