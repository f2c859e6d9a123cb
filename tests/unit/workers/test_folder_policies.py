"""A folder's rules are read beside the loop, once a second at most, and a change counts from then on."""

import asyncio
import json
from pathlib import Path

import pytest

from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.workers import folder_policies
from ekiden.workers.folder_policies import FolderPolicies

USE = ToolUse("bash", {"command": "ls"}, "a")


def deny_bash(folder: Path) -> None:
    (folder / ".claude").mkdir()
    (folder / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"deny": ["Bash"]}}))


def test_what_was_read_holds_for_a_moment_and_then_the_folder_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = FolderPolicies(Policy())

    async def verdict() -> str:
        return (await policies.of(tmp_path)).decide(USE).verdict

    async def scenario() -> list[str]:
        found = [await verdict()]
        deny_bash(tmp_path)
        found.append(await verdict())
        monkeypatch.setattr(folder_policies, "FRESH_S", 0.0)
        return [*found, await verdict()]

    assert asyncio.run(scenario()) == ["ask", "ask", "deny"]
