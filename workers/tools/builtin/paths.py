"""Paths that a model gives: where they lead, whether they may be followed, how they are shown.

Where a path leads, links followed, is found out first; then it is opened there, beneath the workspace root and through
no link (``beneath``). The first is a guess that somebody may make wrong meanwhile: then the second fails. This keeps
honest mistakes and hostile arguments of the *file* tools inside the workspace. It is no sandbox: an agent that has
``bash`` can do whatever the worker's user can.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ekiden.shared.errors import ToolError
from ekiden.shared.project_folders import project_of
from ekiden.shared.suggestions import nearest
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.safe_open import folder_below, folder_held, made_folder, open_regular, status_in
from ekiden.workers.tools.link_targets import link_targets_of
from ekiden.workers.tools.protected_paths import DATA_MARKS, closed_in, is_closed

__all__ = [
    "SKIPPED",
    "Found",
    "Place",
    "explained",
    "files_under",
    "open_file",
    "opened_folder",
    "place_of",
    "printable",
    "require_writable",
    "shown",
    "writable_folder",
]

SKIPPED = frozenset({".git", ".ekiden", "__pycache__", "node_modules", ".venv"})
"""Folders that searches do not enter."""

_MAX_CANDIDATES = 5_000
_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Place:
    """Where a model's path leads.

    Attributes:
        given: The path as the model gave it.
        root: The real path of the workspace root.
        names: The way from there, through no link.
    """

    given: str
    root: Path
    names: tuple[str, ...]

    @property
    def real(self) -> Path:
        """The real path."""
        return self.root.joinpath(*self.names)

    def status(self) -> os.stat_result | None:
        """Return what is there, None: nothing. Raises ``ToolError`` for what the system refuses to tell."""
        with explained(self.given), suppress(FileNotFoundError, NotADirectoryError), folder_held(self.root) as root:
            if not self.names:
                return os.fstat(root)
            with folder_below(root, self.names[:-1]) as parent:
                return status_in(parent, self.names[-1])
        return None


class Found(NamedTuple):
    """A file that a search comes by."""

    folder: int
    """Its folder, open until the search goes on."""
    name: str
    path: str
    """From the folder that is searched."""


def place_of(path: str, context: ToolContext) -> Place:
    """Return where ``path`` leads, symbolic links followed; relative paths start at the job's folder.

    Raises:
        ToolError: it leads outside the workspace or to what is closed to agents, or cannot be a path.
    """
    try:
        with explained(path):  # what is looked at may go meanwhile
            real = Path(os.path.realpath(context.cwd / path))
    except ValueError as error:
        raise ToolError(f"{path!r} cannot be a path ({error}): give a path inside the workspace") from error
    root = Path(os.path.realpath(context.root))
    _require_beneath(root, real, path)
    if _UNSHOWN in path:
        with explained(path):
            real = Path(os.path.realpath(_meant(root, real.relative_to(root).parts)))
        _require_beneath(root, real, path)
    if is_closed(real, root):
        raise ToolError(
            f"{path!r} leads outside the workspace, to what is closed to agents: data of Ekiden or of its server, the "
            "user's settings, or files of the kernel"
        )
    return Place(path, root, real.relative_to(root).parts)


def printable(name: str) -> str:
    """Return a file's name as it can be shown: the replacement character stands for bytes that are no UTF-8."""
    return os.fsencode(name).decode(errors="replace")


@contextmanager
def open_file(place: Place, context: ToolContext) -> Iterator[int]:
    """Open the regular file at ``place`` for reading.

    Raises:
        ToolError: missing (names near ones), a folder, a pipe or device, or the system refuses.
    """
    status = place.status()
    if status is None:
        raise ToolError(f"there is no file {place.given!r}{_nearest(place, context)}")
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{place.given!r} is a folder, expected a file: list it with ls")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{place.given!r} is a pipe, socket or device, expected a regular file")
    with explained(place.given), folder_held(place.root) as root, folder_below(root, place.names[:-1]) as parent:
        file = open_regular(parent, place.names[-1])
        try:
            yield file
        finally:
            os.close(file)


@contextmanager
def opened_folder(place: Place, context: ToolContext) -> Iterator[int]:
    """Open the folder at ``place`` to list it.

    Raises:
        ToolError: missing (names near ones), a file, or the system refuses.
    """
    status = place.status()
    if status is None:
        raise ToolError(f"there is no folder {place.given!r}{_nearest(place, context)}")
    if not stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{place.given!r} is a file, expected a folder: read it with read_file")
    with explained(place.given), folder_held(place.root) as root, folder_below(root, place.names, listed=True) as one:
        yield one


def require_writable(place: Place, context: ToolContext) -> None:
    """Raise ``ToolError`` if what is at ``place`` is read-only for agents, or has further names (hard links)."""
    project = project_of(place.root)
    for way in _ways(place, project, context):
        if (problem := context.protected.problem_of(way.relative_to(project).parts)) is not None:
            raise ToolError(f"{place.given!r} is read-only for agents: {problem}")
    status = place.status()
    if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise ToolError(
            f"{place.given!r} has {status.st_nlink} names (hard links), and the others may lie outside the workspace: "
            "write the text to a new file instead, or ask the user to make it a file of its own"
        )


@contextmanager
def writable_folder(place: Place, context: ToolContext) -> Iterator[int]:
    """Open the folder of the file at ``place``, made if it is missing, to put that file there.

    Raises:
        ToolError: it is read-only for agents, has further names elsewhere, or the system refuses.
    """
    require_writable(place, context)
    with explained(place.given), folder_held(place.root) as root, made_folder(root, place.names[:-1]) as parent:
        yield parent


def shown(real: Path, context: ToolContext) -> str:
    """Return ``real`` as a model should name it: relative to the job's folder."""
    return printable(os.path.relpath(real, os.path.realpath(context.cwd)))


def files_under(place: Place) -> Iterator[Found]:
    """Yield the files below a folder in a stable order, without entering links, ``SKIPPED`` folders or closed ones.

    One folder is open at a time; one that cannot be opened, or is a link by now, is passed over.
    """
    with folder_held(place.root) as root:
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            way = waiting.pop()
            with suppress(OSError), folder_below(root, place.names + way, listed=True) as folder:
                files, folders = _entries(folder)
                if not DATA_MARKS.isdisjoint(files + folders):
                    continue
                closed = closed_in(place.real.joinpath(*way), place.root)
                before = "/".join((*way, ""))
                for name in files:
                    if name not in closed:
                        yield Found(folder, name, before + name)
                waiting += [(*way, name) for name in reversed(folders) if name not in closed | SKIPPED]


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the operating system refuses into a ``ToolError`` that names ``path`` as given."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"{path!r} cannot be used: {error.strerror or type(error).__name__}") from error


def _require_beneath(root: Path, real: Path, given: str) -> None:
    if not real.is_relative_to(root):
        raise ToolError(
            f"{given!r} leads outside the workspace: only paths inside it may be used, wherever symbolic links and "
            "'..' lead; give one relative to the job's folder"
        )


def _meant(root: Path, names: Iterable[str]) -> Path:
    """Return the way with such names as a tool has shown: what cannot be shown is looked up by what stands for it."""
    way = root
    for name in names:
        alike = [name]
        if _UNSHOWN in name and not (way / name).exists():
            alike = [one.name for one in way.iterdir() if printable(one.name) == name] or [name]
        if len(alike) > 1:
            raise ToolError(f"{len(alike)} files are shown as {name!r}: ask the user to rename them")
        way /= alike[0]
    return way


def _entries(folder: int) -> tuple[list[str], list[str]]:
    """Return the names of files (and links, pipes, ...) and of folders, each in order."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    return sorted(files), sorted(folders)


def _ways(place: Place, project: Path, context: ToolContext) -> Iterator[Path]:
    """Yield the paths within the project by which what is at ``place`` is known.

    Its real one, the one that was given, and those in built-in places that lead to it or to a folder above it.
    """
    yield place.real
    given = Path(os.path.normpath(Path(os.path.realpath(context.cwd), place.given)))
    if given.is_relative_to(project):
        yield given
    tops = {top for top in (project, place.root, project_of(context.cwd)) if top.is_relative_to(project)}
    for way, target in (found for top in tops for found in link_targets_of(top)):
        if place.real.is_relative_to(target):
            yield way / place.real.relative_to(target)


def _nearest(place: Place, context: ToolContext) -> str:
    """Say which existing files and folders have a name like that of ``place``."""
    here = place_of(".", context)
    found: dict[str, dict[Path, None]] = {}
    for file in islice(files_under(here), _MAX_CANDIDATES):
        for entry in (Path(file.path), *Path(file.path).parents):
            found.setdefault(entry.name.casefold(), {})[entry] = None
    close = nearest(place.real.name.casefold(), found, cpu_s=1.0)
    entries = islice((entry for match in close for entry in found[match]), 5)
    near = [shown(here.real / entry, context) for entry in entries]
    return f"; near names: {', '.join(near)}" if near else "; list a folder with ls, or search with glob"
