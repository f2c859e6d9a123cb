"""Whose Python a project's commands find first."""

import base64
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.workers.sandbox.sandbox import Sandbox
from ekiden.workers.tools import project_python
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.project_python import not_installed, python_for, where_looked


@pytest.fixture
def confined(context: ToolContext) -> ToolContext:
    return replace(context, sandbox=Sandbox("bubblewrap"))


def environment_in(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder


def test_the_nearest_environment_up_to_the_workspace_root_is_the_projects(confined: ToolContext) -> None:
    assert python_for(confined) is None
    assert "the project has no environment" in where_looked(confined)
    environment_in(confined.root.parent / ".venv")
    assert python_for(confined) is None, "what lies above the workspace is nobody's"
    above = environment_in(confined.root / "venv")
    assert (found := python_for(confined)) is not None
    assert found.folder == above
    near = environment_in(confined.cwd / ".venv")
    assert (found := python_for(confined)) is not None
    assert (found.folder, found.bin, found.readable) == (near, near / "bin", ())


@pytest.mark.parametrize("lacks", ["pyvenv.cfg", "bin/python"])
def test_a_folder_that_is_called_so_is_no_environment(confined: ToolContext, lacks: str) -> None:
    (environment_in(confined.cwd / ".venv") / lacks).unlink()
    assert python_for(confined) is None


def test_a_link_out_of_the_workspace_leads_to_none(confined: ToolContext) -> None:
    (confined.cwd / ".venv").symlink_to(environment_in(confined.root.parent / "outside" / "venv"))
    assert python_for(confined) is None


def test_poetrys_environment_is_found_where_poetry_keeps_it(
    confined: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    (confined.cwd / "pyproject.toml").write_text('[project]\nname = "My Shop"\n')
    digest = base64.urlsafe_b64encode(hashlib.sha256(os.fsencode(os.path.realpath(confined.cwd))).digest()).decode()
    kept = tmp_path / "home" / ".cache" / "pypoetry" / "virtualenvs"
    for version in ("3.9", "3.12"):
        environment_in(kept / f"my_shop-{digest[:8]}-py{version}")
    environment_in(kept / "my_shop-00000000-py3.13")
    context = replace(confined, env={"HOME": str(tmp_path / "home")})
    assert python_for(context) is None, "which the project does not use"
    (confined.cwd / "poetry.lock").touch()
    assert (found := python_for(context)) is not None
    assert found.folder.name == f"my_shop-{digest[:8]}-py3.12"
    assert found.readable[0].path == found.folder


def test_unconfined_commands_find_its_programs_first_only_where_the_user_stands_by_the_folder(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment_in(context.cwd / ".venv")
    monkeypatch.setattr(project_python, "stands_by", lambda folder: False)
    assert python_for(context) is None, "it could have a program called git"
    assert where_looked(context).startswith("the project's .venv is not used")
    monkeypatch.setattr(project_python, "stands_by", lambda folder: folder == context.cwd)
    assert python_for(context) is not None


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("/x/.venv/bin/python3: No module named pytest\n", "pytest"),
        ("/bin/bash: line 1: pytest: command not found\n", "pytest"),
        ("sh: 1: ruff: not found\n", "ruff"),
        ("ModuleNotFoundError: No module named 'shop'\n", ""),  # which may be the project's own
        ("make: pytest: No such file or directory\n", ""),
    ],
)
def test_what_could_not_be_started_is_told_by_what_the_starter_says(output: str, name: str) -> None:
    assert not_installed(output) == name
