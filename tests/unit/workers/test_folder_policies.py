"""A folder's rules are read beside the loop, once a second at most, and a change counts from then on."""

import asyncio
import json
import threading
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


def test_legs_that_ask_together_wait_for_one_reading_and_go_on_when_one_of_them_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, read = FolderPolicies(Policy()), list[Path]()
    began, goes_on = threading.Event(), threading.Event()

    def slowly(policy: Policy, folder: Path) -> Policy:
        read.append(folder)
        began.set()
        assert goes_on.wait(60)
        return policy

    monkeypatch.setattr(folder_policies, "folders_policy", slowly)
    monkeypatch.setattr(folder_policies, "FRESH_S", 60.0)

    async def scenario() -> None:
        first, *others = [asyncio.create_task(policies.of(tmp_path)) for _ in range(5)]
        await asyncio.to_thread(began.wait, 10)
        first.cancel()
        goes_on.set()
        assert await asyncio.gather(*others) == [Policy()] * 4
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(scenario())
    assert read == [tmp_path]
