"""What of a workspace a command may not change, or not see: the places that are so for file tools, as far as there are.

A sandbox holds what exists when the command starts. The tree is looked through from the top, and not to its end: a look
at each of a hundred thousand folders would cost more than the command.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ekiden.workers.sandbox.view import Place, Readable, interpreter_of
from ekiden.workers.tools.link_targets import led_to_by_git, links_in
from ekiden.workers.tools.protected_paths import DATA_MARKS, Protected, closed_below

__all__ = ["place_of"]

_MOST_FOLDERS = 200
_MOST_ENTRIES = 2_000
"""Of one folder."""
_PASSED_OVER = frozenset({".git", "node_modules", "__pycache__", "site-packages"})
_GIT = ".git"
_GIT_READ_ONLY = ("config", "config.worktree", "modules")
_GIT_HOOKS = "hooks"
_ENVIRONMENT = "pyvenv.cfg"
"""What makes a folder a virtual environment of Python."""


@dataclass
class _Found:
    read_only: list[Path] = field(default_factory=list)
    pinned: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    closed: list[Path] = field(default_factory=list)
    environments: list[Path] = field(default_factory=list)


def place_of(root: Path, cwd: Path, protected: Protected) -> tuple[Place, list[Readable]]:
    """Return where a command works, and what it must read of the Python that environments there were made from.

    Git's own folder stays writable, or nobody could commit, except for what makes it run programs: hooks and settings.
    """
    root, cwd = Path(os.path.realpath(root)), Path(os.path.realpath(cwd))
    found = _Found(closed=closed_below(root))
    way = [root, *(folder for folder in reversed((cwd, *cwd.parents)) if _is_below(folder, root))]
    waiting = list(dict.fromkeys(map(str, way)))
    seen = set(waiting)
    for folder in waiting:  # which grows meanwhile: those that lead to the command's first, then those near the top
        below = _look(folder, root, protected, found)
        if len(waiting) < _MOST_FOLDERS:
            waiting += (new := [path for path in below if path not in seen])
            seen.update(new)
    bases = [one for environment in found.environments for one in interpreter_of(environment, root)]
    return Place(root, cwd, *map(_once, (found.read_only, found.pinned, found.empty, found.closed))), bases


def _look(folder: str, root: Path, protected: Protected, found: _Found) -> list[str]:
    """Note what in a folder is held; return the folders in it."""
    below = []
    for entry in _entries(folder):
        name = entry.name
        if protected.may_hold(name):
            _hold(Path(entry.path), root, protected, found)
        elif name in DATA_MARKS:
            found.closed.append(Path(folder))
        elif name == _ENVIRONMENT:
            found.read_only.append(Path(folder))
            found.environments.append(Path(folder))
        if name not in _PASSED_OVER and entry.is_dir(follow_symlinks=False):
            below.append(entry.path)
    return below


def _hold(path: Path, root: Path, protected: Protected, found: _Found) -> None:
    """Note that what lies there is held, if it is, and what it leads to."""
    if not protected.problem_of(path.relative_to(root).parts):
        return
    is_git = path.name == _GIT
    targets = [os.path.realpath(link) for link in (links_in(path) if not path.is_symlink() else [path])]
    targets += [str(target) for _, target in (led_to_by_git(path.parent) if is_git else ())]
    found.read_only += [real for real in map(Path, targets) if _is_below(real, root) and real.exists()]
    if path.is_symlink():
        return
    if is_git and path.is_dir():
        _hold_git(path, found)
    else:
        found.read_only.append(path)


def _hold_git(git: Path, found: _Found) -> None:
    found.pinned.append(git)  # or it could be put aside, and another one made
    found.read_only += [path for name in _GIT_READ_ONLY if (path := git / name).exists() and not path.is_symlink()]
    hooks = git / _GIT_HOOKS
    if not hooks.is_symlink():
        (found.read_only if hooks.exists() else found.empty).append(hooks)


def _entries(folder: str) -> Sequence["os.DirEntry[str]"]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(islice(entries, _MOST_ENTRIES))
    return []


def _is_below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)


def _once(paths: list[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
