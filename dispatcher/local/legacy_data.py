"""Data that lie in a folder: of an earlier version of Ekiden, or from whoever made the folder. Never used unasked."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

from ekiden.dispatcher.local.sandboxed_server import sandboxed_server
from ekiden.shared.embedded import attach, peek
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.project_folders import project_of
from ekiden.shared.server_supervisor import KEEPER_LOCK, SERVER_LOCK, is_locked
from ekiden.shared.stores.copying import copy_keys
from ekiden.shared.terminal_text import say

__all__ = ["copy_data", "legacy_data_in", "name_legacy_data"]

_FOLDER = ".ekiden"
_NAMED = "left-data.named"
_JOURNALS = "appendonlydir"


def legacy_data_in(data_dir: Path) -> Path | None:
    """Return the folder of such data in the current folder or its project, unless it is ``data_dir`` itself."""
    folders = dict.fromkeys((Path.cwd() / _FOLDER, project_of(Path.cwd()) / _FOLDER))
    return next((one for one in folders if peek(one) and one.resolve() != data_dir.resolve()), None)


def name_legacy_data(data_dir: Path) -> None:
    """Say once that there are such data, and what takes them over. ``data_dir`` remembers that it was said."""
    found = legacy_data_in(data_dir)
    if found is None or (data_dir / _NAMED).exists():
        return
    (data_dir / _NAMED).touch()
    say(
        f"{str(found)!r} holds jobs of an earlier version of Ekiden, or of whoever made this folder: it is not used. "
        "If they are yours, `ekiden adopt` takes them over",
        is_error=True,
    )


def copy_data(source: Path, target: Path) -> None:
    """Copy Ekiden's keys of a server that does not run into a data folder that has none.

    The files are a server's commands: none of them is executed but by a server that can only write data
    (``sandboxed_server``), and what it then holds is copied key by key.

    Raises:
        InvalidRequest: they are somebody else's, in use, or no plain files; or ``target`` has data of its own.
        ConfigurationError: they cannot be read, or written, or hold something else than data.
    """
    if is_locked(source / KEEPER_LOCK) or is_locked(source / SERVER_LOCK):
        raise InvalidRequest(f"a server runs on {str(source)!r}: stop the Ekiden that uses it first")
    if peek(target):
        raise InvalidRequest(f"{str(target)!r} has jobs already, which would be lost: give another --data-dir")
    try:
        with tempfile.TemporaryDirectory(prefix="adopted-", dir=target) as draft:
            _copy_journals(source, Path(draft))
            with sandboxed_server(Path(draft)) as theirs, attach(target) as server:
                copy_keys(theirs, server.url)
    except OSError as error:
        raise ConfigurationError(f"{str(source)!r} cannot be copied: {error.strerror or error}") from error


def _copy_journals(source: Path, target: Path) -> None:
    files = sorted((source / _JOURNALS).iterdir())
    for path in (source, source / _JOURNALS, *files):
        _require_own(path)
    (target / _JOURNALS).mkdir(mode=0o700)
    for path in files:
        _copy(path, target / _JOURNALS / path.name)


def _require_own(path: Path) -> None:
    info = path.lstat()
    if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        raise InvalidRequest(f"{str(path)!r} is neither a folder nor a regular file: this is nothing of Ekiden's")
    if info.st_uid != os.geteuid():
        raise InvalidRequest(
            f"{str(path)!r} belongs to another user (uid {info.st_uid}): only your own data are adopted"
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file; no link is followed, also if one takes its place just now."""
    old = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(old, "rb") as read, os.fdopen(new, "wb") as written:
        shutil.copyfileobj(read, written)
