"""What of a workspace a command may not change, or not see: the places that are so for file tools, as far as there are.

A sandbox holds what exists when the command starts. The tree is looked through from the top, and not to its end: a look
at each of a hundred thousand folders would cost more than the command.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ekiden.workers.sandbox.view import Place, Readable, interpreter_of
from ekiden.workers.tools.link_targets import link_targets_of
from ekiden.workers.tools.protected_paths import DATA_MARKS, Protected, closed_below

__all__ = ["place_of"]

_MOST_FOLDERS = 300
_MOST_ENTRIES = 2_000
"""Of one folder."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})
_GIT = ".git"
_GIT_READ_ONLY = ("config", "config.worktree", "modules")
_GIT_EMPTY = "hooks"
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
    for folder in _folders(root, cwd):
        _look(folder, root, protected, found)
    for top in dict.fromkeys((root, cwd)):
        found.read_only += [target for _, target in link_targets_of(top) if _is_below(target, root)]
    held = (found.read_only, found.pinned, found.empty, found.closed)
    bases = [path for environment in found.environments for path in interpreter_of(environment, root)]
    return Place(root, cwd, *(tuple(dict.fromkeys(paths)) for paths in held)), bases


def _folders(root: Path, cwd: Path) -> Iterator[Path]:
    """Yield folders of the workspace: those that lead to the command's first, then those near the top."""
    way = [root, *(folder for folder in reversed((cwd, *cwd.parents)) if _is_below(folder, root))]
    waiting = list(dict.fromkeys(way))
    seen = set(waiting)
    for folder in waiting:  # which grows meanwhile
        yield folder
        if len(waiting) < _MOST_FOLDERS:
            below = [path for path in _subfolders(folder) if path not in seen]
            waiting += below
            seen.update(below)


def _look(folder: Path, root: Path, protected: Protected, found: _Found) -> None:
    """Note what in a folder is held."""
    above = folder.relative_to(root).parts
    names = [entry.name for entry in _entries(folder)]
    if DATA_MARKS.intersection(names):
        found.closed.append(folder)
    if _ENVIRONMENT in names:
        found.read_only.append(folder)
        found.environments.append(folder)
    for name in names:
        path = folder / name
        if path.is_symlink() or not protected.problem_of((*above, name)):
            continue
        if name == _GIT and path.is_dir():
            _look_at_git(path, found)
        else:
            found.read_only.append(path)


def _look_at_git(git: Path, found: _Found) -> None:
    found.pinned.append(git)  # or it could be put aside, and another one made
    found.read_only += [git / name for name in _GIT_READ_ONLY if (git / name).exists()]
    hooks = git / _GIT_EMPTY
    if not hooks.is_symlink():
        (found.read_only if hooks.exists() else found.empty).append(hooks)


def _subfolders(folder: Path) -> Sequence[Path]:
    return [
        Path(entry.path)
        for entry in _entries(folder)
        if entry.name not in _PASSED_OVER and entry.name != _GIT and entry.is_dir(follow_symlinks=False)
    ]


def _entries(folder: Path) -> Sequence["os.DirEntry[str]"]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(islice(entries, _MOST_ENTRIES))
    return []


def _is_below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)
