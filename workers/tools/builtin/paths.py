"""Paths that a model gives: where they lead, whether they may be followed, how they are shown.

The check keeps honest mistakes and hostile arguments of the *file* tools inside the workspace. It is no sandbox: an
agent that has the shell tool can do whatever the worker's user can.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from shared.errors import ToolError
from shared.nearness import nearest
from workers.tools.base import ToolContext

__all__ = ["SKIPPED", "explained", "file_at", "files_under", "folder_at", "inside", "shown"]

SKIPPED = frozenset({".git", ".ekiden", "__pycache__", "node_modules", ".venv"})
"""Folders that searches do not enter."""

_KERNEL = ("/proc", "/sys", "/dev")
"""Not files, whatever they look like; they would lie inside a workspace root of ``/``."""

_MAX_CANDIDATES = 5_000


def inside(path: str, context: ToolContext) -> Path:
    """Return where ``path`` leads, symbolic links followed; relative paths start at the job's folder.

    Tools open the returned path and never the given one, so that nothing is followed a second time.

    Raises:
        ToolError: it leads outside the workspace, or cannot be a path.
    """
    try:
        real = Path(os.path.realpath(context.cwd / path))
    except ValueError as error:
        raise ToolError(f"{path!r} cannot be a path ({error}): give a path inside the workspace") from error
    root = Path(os.path.realpath(context.root))
    is_kernel = any(real.is_relative_to(top) and not root.is_relative_to(top) for top in _KERNEL)
    if is_kernel or not real.is_relative_to(root):
        raise ToolError(
            f"{path!r} leads outside the workspace: only paths inside it may be used, wherever symbolic links and '..' "
            "lead; give one relative to the job's folder"
        )
    return real


def file_at(path: str, context: ToolContext) -> Path:
    """Return the regular file that ``path`` names.

    Raises:
        ToolError: outside the workspace, missing (names near ones), a folder, or a pipe or device.
    """
    real = inside(path, context)
    with explained(path):
        if real.is_dir():
            raise ToolError(f"{path!r} is a folder, expected a file: list it with ls")
        if not real.exists():
            raise ToolError(f"there is no file {path!r}{_nearest(real, context)}")
        if not real.is_file():
            raise ToolError(f"{path!r} is a pipe, socket or device, expected a regular file")
    return real


def folder_at(path: str, context: ToolContext) -> Path:
    """Return the folder that ``path`` names.

    Raises:
        ToolError: outside the workspace, missing (names near ones) or a file.
    """
    real = inside(path, context)
    with explained(path):
        if not real.exists():
            raise ToolError(f"there is no folder {path!r}{_nearest(real, context)}")
        if not real.is_dir():
            raise ToolError(f"{path!r} is a file, expected a folder: read it with read_file")
    return real


def shown(real: Path, context: ToolContext) -> str:
    """Return ``real`` as a model should name it: relative to the job's folder."""
    return os.path.relpath(real, os.path.realpath(context.cwd))


def files_under(folder: Path) -> Iterator[Path]:
    """Yield the files below ``folder`` in a stable order, without entering links or the ``SKIPPED`` folders."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(files):
            yield Path(parent, name)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the operating system refuses into a ``ToolError`` that names ``path`` as given."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"{path!r} cannot be used: {error.strerror or type(error).__name__}") from error


def _nearest(real: Path, context: ToolContext) -> str:
    """Say which existing files and folders have a name like that of ``real``."""
    folder = Path(os.path.realpath(context.cwd))
    found: dict[str, dict[str, None]] = {}
    for file in islice(files_under(folder), _MAX_CANDIDATES):
        for entry in (file, *file.relative_to(folder).parents):
            found.setdefault(entry.name.casefold(), {})[shown(folder / entry, context)] = None
    close = nearest(real.name.casefold(), found, cpu_s=1.0)
    near = [name for match in close for name in found[match]][:5]
    return f"; near names: {', '.join(near)}" if near else "; list a folder with ls, or search with glob"
