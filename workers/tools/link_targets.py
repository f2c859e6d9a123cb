"""Where the read-only places of a project lead: by links, and by what git's own files say."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ekiden.workers.tools.protected_paths import BUILTIN_PLACES

__all__ = ["led_to_by_git", "link_targets_of", "links_in"]

_GIT = ".git"
_DEPTH = 2
_MAX_ENTRIES = 5_000
_MAX_BYTES = 1_000_000
_PASSED_OVER = frozenset({"objects", "node_modules"})
_GITDIR = re.compile(r"gitdir:\s*(.+)")
_LEADING = re.compile(r"""^\s*(hookspath|path|fsmonitor)\s*=\s*"?([^"#;\n]+)""", re.IGNORECASE | re.MULTILINE)
"""Settings of git that name files or folders which it executes, or takes more settings from."""


def link_targets_of(top: Path) -> Iterator[tuple[Path, Path]]:
    """Yield what the read-only places in the folder ``top`` lead to: the place, and the real path it stands for."""
    for name in BUILTIN_PLACES:
        if not os.path.lexists(f"{top}/{name.partition('/')[0]}"):  # most are not there, and to look costs little
            continue
        place = top / name
        if place.is_symlink() or place.parent.is_symlink():
            yield place, Path(os.path.realpath(place))
        for link in islice(links_in(place), _MAX_ENTRIES):
            yield link, Path(os.path.realpath(link))
    yield from led_to_by_git(top)


def links_in(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Yield the links in a folder, and so many levels below it."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            if entry.is_symlink():
                yield Path(entry.path)
            elif depth > 1 and entry.name not in _PASSED_OVER and entry.is_dir():
                yield from links_in(Path(entry.path), depth - 1)


def led_to_by_git(top: Path) -> Iterator[tuple[Path, Path]]:
    """Yield what a repository in the folder ``top`` executes or reads settings from, as ``link_targets_of`` does."""
    place = top / _GIT
    git = place
    if named := _GITDIR.match(_text_of(place)):
        git = top / named[1].strip()
        yield place, Path(os.path.realpath(git))
    for config in (git / "config", git / "config.worktree", git.parent.parent / "config"):
        for name, value in _LEADING.findall(_text_of(config)):
            base = config.parent if name.lower() == "path" else top
            yield place / "hooks", Path(os.path.realpath(base / Path(value.strip()).expanduser()))


def _text_of(path: Path) -> str:
    """Return the beginning of a regular file; empty for what is none."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="surrogateescape")
    except (OSError, ValueError):
        return ""
