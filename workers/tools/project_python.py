"""The project's own Python: the environment in which its commands find ``python``, ``pytest`` and what they import."""

import base64
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.project_folders import project_of
from ekiden.shared.trust.grants import stands_by
from ekiden.workers.sandbox.view import Readable, interpreter_of
from ekiden.workers.tools.base import ToolContext

__all__ = ["ProjectPython", "not_installed", "python_for", "where_looked"]

_NAMES = (".venv", "venv")
"""Where ``python -m venv``, uv, and poetry with ``virtualenvs.in-project`` put an environment."""
_MISSING = re.compile(
    r"^(?:\S*python[\d.]*: No module named (?P<module>[\w.]+)"
    r"|\S*sh: (?:(?:line )?\d+: )?(?P<program>[\w.+-]+): (?:command )?not found)$",
    re.MULTILINE,
)
_UNSAFE = re.compile(r'[ $`!*@"\\\r\n\t]')


@dataclass(frozen=True)
class ProjectPython:
    """A virtual environment of the project in a folder. ``readable``: what commands must see of it elsewhere."""

    folder: Path
    project: Path
    readable: Sequence[Readable] = ()

    @property
    def bin(self) -> Path:
        """Where its programs are."""
        return self.folder / "bin"


def python_for(context: ToolContext) -> ProjectPython | None:
    """Return the environment of the project nearest to the job's folder, no higher than the workspace; None: no one's.

    Whoever wrote the project says what its programs do, and could call one ``git``: they come first only where commands
    are confined, or the user stands by the project.
    """
    found = _nearest(context)
    return found if found and (context.sandbox.holds or stands_by(project_of(found.project))) else None


def where_looked(context: ToolContext) -> str:
    """Say where a program was looked for that is not installed."""
    if (python := _nearest(context)) is None:
        return "this worker has it not, and the project has no environment (.venv, venv, poetry's)"
    if python_for(context) is None:
        return f"the project's {python.folder.name} is not used, for commands are not confined here: `ekiden trust`"
    return f"the project's environment {python.folder.name} has it not, nor has this worker"


def not_installed(output: str) -> str:
    """Return the program that a command's output says nobody could start, or the module; empty: none."""
    found = list(_MISSING.finditer(output))
    return (found[-1]["module"] or found[-1]["program"]) if found else ""


def _nearest(context: ToolContext) -> ProjectPython | None:
    root, cwd = Path(os.path.realpath(context.root)), Path(os.path.realpath(context.cwd))
    folders = [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(root)]
    return next((found for folder in folders for found in _in_project(folder, root, context.env)), None)


def _in_project(folder: Path, root: Path, env: Mapping[str, str]) -> Iterator[ProjectPython]:
    """Yield the environments of the project in ``folder``. A link out of the workspace leads to none."""
    for name in _NAMES:
        real = Path(os.path.realpath(folder / name))
        if _is_environment(real) and real.is_relative_to(root):
            yield ProjectPython(folder / name, folder)
    for found in _of_poetry(folder, env):
        yield ProjectPython(found, folder, (Readable(found, found), *interpreter_of(found, root)))


def _of_poetry(folder: Path, env: Mapping[str, str]) -> list[Path]:
    """Return poetry's environments of a project, the newest Python's first, named as its ``EnvManager`` does."""
    name = _name_in(folder / "pyproject.toml") if (folder / "poetry.lock").is_file() else ""
    home = env.get("HOME")
    if not name or not home:
        return []
    mac = Path(home, "Library", "Caches")
    cache = mac if sys.platform == "darwin" else Path(env.get("XDG_CACHE_HOME") or Path(home, ".cache"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(os.fsencode(folder)).digest()).decode()[:8]
    known = f"{_UNSAFE.sub('_', name.lower())[:42]}-{digest}-py"
    below = cache / "pypoetry" / "virtualenvs"
    with suppress(OSError):
        there = [path for path in below.iterdir() if path.name.startswith(known) and _is_environment(path)]
        return sorted(there, key=lambda path: [*map(int, re.findall(r"\d+", path.name[len(known) :]))], reverse=True)
    return []


def _name_in(pyproject: Path) -> str:
    with suppress(OSError, ValueError):
        said = tomllib.loads(pyproject.read_text(encoding="utf-8"))
        for table in (said.get("project"), said.get("tool", {}).get("poetry")):
            if isinstance(table, dict) and isinstance(name := table.get("name"), str):
                return name
    return ""


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file() and os.access(folder / "bin" / "python", os.X_OK)
