"""Where things are: the project that a folder belongs to, and what Ekiden keeps of it in the user's state folder.

Nothing of ours lies in a project: a folder that was cloned, unpacked or shared may hold whatever its author put there.
"""

import hashlib
import os
import stat
from pathlib import Path

from ekiden.shared.errors import ConfigurationError

__all__ = ["cache_folder", "data_folder", "digest_of", "private_folder", "project_of", "state_folder"]

MARKS = (".gemini", ".git")
"""What makes a folder a project."""
_DIGEST_CHARS = 32


def project_of(folder: Path) -> Path:
    """Return the real path of the project that ``folder`` belongs to.

    That is the nearest of it and the folders above it that holds ``.gemini`` or ``.git``, and ``folder`` itself where
    there is none. A folder above counts only if it and its mark are the user's own and not open to all: else anybody
    could make one project of all of ``/tmp``. The home folder is no project of what lies in it: its ``.gemini`` is the
    user's.
    """
    here = Path(os.path.realpath(folder))
    home = Path(os.path.realpath(Path.home()))
    if here == home or _is_marked(here):
        return here
    for above in here.parents:
        if above in (home, above.parent):
            break
        if _is_marked(above):
            return above if _is_ours(above) else here
    return here


def state_folder() -> Path:
    """Return where Ekiden keeps its state: ``$XDG_STATE_HOME/ekiden``, else ``~/.local/state/ekiden``."""
    named = os.environ.get("XDG_STATE_HOME", "")
    root = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    return root / "ekiden"


def cache_folder() -> Path:
    """Return where Ekiden keeps what it can make again: ``$XDG_CACHE_HOME/ekiden``, else ``~/.cache/ekiden``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return root / "ekiden"


def data_folder(folder: Path) -> Path:
    """Return where the embedded server keeps the data of the project that ``folder`` belongs to."""
    return state_folder() / digest_of(project_of(folder))


def digest_of(path: Path) -> str:
    """Return the name by which we know a folder: hexadecimal, of its path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:_DIGEST_CHARS]


def private_folder(path: Path) -> Path:
    """Make the folder for its owner alone, or check the one that there is; return its real path.

    What lies in a folder that somebody else owns or may write to is somebody else's word.

    Raises:
        ConfigurationError: it is such a folder.
        OSError: it cannot be made or looked at.
    """
    ours = state_folder()
    for each in (ours, path) if path != ours and path.is_relative_to(ours) else (path,):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(each)
    return path.resolve()


def _require_private(path: Path) -> None:
    info = path.stat()
    if info.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{str(path)!r} belongs to another user (uid {info.st_uid}), who could put anything there: it is not used. "
            "Name a folder of your own"
        )
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"others may write to {str(path)!r}: it is not used. Run `chmod go-w` on it")


def _is_marked(folder: Path) -> bool:
    return any(os.path.lexists(f"{folder}/{mark}") for mark in MARKS)


def _is_ours(folder: Path) -> bool:
    marks = [folder / mark for mark in MARKS if os.path.lexists(folder / mark)]
    owners = {path.lstat().st_uid for path in (folder, *marks)}
    return owners == {os.geteuid()} and not folder.stat().st_mode & stat.S_IWOTH
