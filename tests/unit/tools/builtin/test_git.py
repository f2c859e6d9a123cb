import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin import git
from ekiden.workers.tools.builtin.git import git_commit


def run(cwd: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(git, "vouches_for", lambda project: False)
    run(cwd, "init", "-q", "-b", "main")
    run(cwd, "config", "user.name", "Agent")
    run(cwd, "config", "user.email", "agent@example.org")
    (cwd / "a.txt").write_text("a")
    run(cwd, "add", "a.txt")
    run(cwd, "commit", "-q", "-m", "first")
    return cwd


def commit(context: ToolContext, message: str, *paths: str) -> str:
    return str(asyncio.run(git_commit.function(git_commit.parse({"message": message, "paths": paths}), context)))  # type: ignore[arg-type]


def test_commits_the_paths_and_leaves_the_rest(repository: Path, context: ToolContext) -> None:
    (repository / "b.txt").write_text("b")
    (repository / "c.txt").write_text("c")
    (repository / "a.txt").unlink()
    assert "second" in commit(context, "--second: what and why", "b.txt", "a.txt")
    assert run(repository, "show", "--name-status", "--format=%s").split() == [
        "--second:", "what", "and", "why", "D", "a.txt", "A", "b.txt"
    ]  # fmt: skip
    assert run(repository, "status", "--short") == "?? c.txt\n"
    commit(context, "third")
    assert run(repository, "status", "--short") == ""


def test_a_hook_of_a_folder_that_nobody_trusts_does_not_run(
    repository: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    (repository / "b.txt").write_text("b")
    commit(context, "second", "b.txt")
    assert not (repository / "ran").exists()
    monkeypatch.setattr(git, "vouches_for", lambda project: True)
    (repository / "b.txt").write_text("bb")
    commit(context, "third", "b.txt")
    assert (repository / "ran").exists()


@pytest.mark.parametrize(
    "setting", ["filter.x.clean", "core.fsmonitor", "gpg.program", "include.path", "core.hooksPath", "diff.external"]
)
def test_settings_that_may_run_a_program_are_refused_where_nobody_trusts_the_folder(
    setting: str, repository: Path, context: ToolContext
) -> None:
    run(repository, "config", setting, "touch ran")
    (repository / ".gitattributes").write_text("* filter=x\n")
    with pytest.raises(ToolError, match=f"git setting '{setting.lower()}' may run a program"):
        commit(context, "second")
    assert not (repository / "ran").exists()


def test_submodules_of_a_folder_that_nobody_trusts_are_refused(repository: Path, context: ToolContext) -> None:
    head = run(repository, "rev-parse", "HEAD").strip()
    run(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    with pytest.raises(ToolError, match="submodules"):
        commit(context, "second")


def test_a_repository_outside_the_workspace_is_none_of_ours(repository: Path, context: ToolContext) -> None:
    (repository / "inner").mkdir()
    inside = replace(context, root=repository / "inner", cwd=repository / "inner")
    with pytest.raises(ToolError, match="outside the workspace"):
        commit(inside, "second")


def test_data_of_git_outside_the_workspace_are_none_of_ours(
    repository: Path, context: ToolContext, tmp_path: Path
) -> None:
    (repository / ".git").rename(tmp_path / "outside" / "data")
    (repository / ".git").write_text(f"gitdir: {tmp_path / 'outside' / 'data'}\n")
    with pytest.raises(ToolError, match="outside the workspace"):
        commit(context, "second")


def test_what_git_says_is_told(cwd: Path, repository: Path, context: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"git commit failed \(exit code 1\)"):
        commit(context, "nothing has changed")
    with pytest.raises(ToolError, match="outside the workspace"):
        commit(context, "x", "../../outside")
