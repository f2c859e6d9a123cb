"""What users have said about folders: a file for each, in the user's state folder, never in the folder itself."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import digest_of, private_folder, state_folder
from ekiden.shared.trust.rights import Right

__all__ = ["ApprovedCall", "Remembered", "all_remembered", "forget", "remember", "remembered"]

_VERSION = 1
_LOCK = "lock"
_LARGEST = 16_000_000


class ApprovedCall(NamedTuple):
    """Calls of a tool that need not be asked about, as long as they are of this risk."""

    tool: str
    risk: str


@dataclass(frozen=True)
class Remembered:
    """What a user was asked about a folder, and answered."""

    project: Path
    granted: frozenset[Right] = frozenset()
    refused: frozenset[Right] = frozenset()
    is_vouched: bool = False
    """Whether the user said yes to the folder itself: its texts count as theirs. To grant a right says less."""
    approved: frozenset[ApprovedCall] = frozenset()
    """What the user approved for all jobs in the folder. It says nothing of the folder's own files."""


def remembered(project: Path) -> Remembered:
    """Return what was said about the project; nothing, if nobody was asked.

    Raises:
        ConfigurationError: it cannot be read, or somebody else may have written it.
    """
    path = _file(project)
    if not path.parent.exists():
        return Remembered(project)
    private_folder(path.parent)
    found = _read(path)
    if found is None:
        return Remembered(project)
    if found.project != project:
        raise ConfigurationError(f"{str(path)!r} is about {str(found.project)!r}: remove it")
    return found


def remember(
    project: Path,
    *,
    granted: Iterable[Right] = (),
    refused: Iterable[Right] = (),
    vouched: bool | None = None,
    approved: Iterable[ApprovedCall] = (),
) -> None:
    """Add to what is granted to the project, refused, or approved; the later word counts.

    ``vouched``: None says nothing of it.

    Raises:
        ConfigurationError: it cannot be written.
    """
    yes, no = frozenset(granted), frozenset(refused)
    with _locked():
        try:
            before = remembered(project)
        except ConfigurationError:  # what cannot be read has granted nothing
            before = Remembered(project)
        is_vouched = before.is_vouched if vouched is None else vouched
        rights = (before.granted - no) | yes, (before.refused - yes) | no
        _write(Remembered(project, *rights, is_vouched, before.approved | frozenset(approved)))


def forget(project: Path) -> bool:
    """Forget all that was said about the project; False: nothing was. Raises ``ConfigurationError``."""
    with _locked():
        try:
            _file(project).unlink()
        except FileNotFoundError:
            return False
    return True


def all_remembered() -> list[Remembered]:
    """Return what was said about every project, by path. Raises ``ConfigurationError``."""
    folder = _folder()
    found = [_read(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return sorted((one for one in found if one is not None), key=lambda one: str(one.project))


def _folder() -> Path:
    return state_folder() / "trust"


def _file(project: Path) -> Path:
    return _folder() / f"{digest_of(project)}.json"


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Change nothing while somebody else does."""
    try:
        lock = os.open(private_folder(_folder()) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
    except OSError as error:
        raise ConfigurationError(f"{str(_folder())!r} cannot be written: {error.strerror or error}") from error


def _read(path: Path) -> Remembered | None:
    try:
        text = _text_of(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    try:
        fields = json.loads(text)
        if fields["v"] != _VERSION:
            raise ValueError(f"its version is {fields['v']!r}, not {_VERSION}")
        rights = _rights(fields["granted"]), _rights(fields["refused"])
        approved = _approved(fields.get("approved", []))
        return Remembered(Path(fields["path"]), *rights, fields.get("vouched") is True, approved)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{str(path)!r} is not what Ekiden wrote ({problem}): remove it") from None


def _text_of(path: Path) -> bytes:
    """Read a file that only its owner can have written, and that is no link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(0, "somebody else may have written it")
        return file.read(_LARGEST)


def _rights(rows: Any) -> frozenset[Right]:
    return frozenset(_right(*row) for row in rows)


def _approved(rows: Any) -> frozenset[ApprovedCall]:
    calls = frozenset(ApprovedCall(*row) for row in rows)
    if not all(isinstance(part, str) for call in calls for part in call):
        raise TypeError("a call is approved by two texts")
    return calls


def _right(subject: Any, what: Any, *without: Any) -> Right:
    if not all(isinstance(part, str) for part in (subject, what, *without)):
        raise TypeError("a right is made of texts")
    return Right(subject, what, frozenset(without))


def _rows(rights: Iterable[Right]) -> list[list[str]]:
    return sorted([right.subject, right.what, *sorted(right.without)] for right in rights)


def _write(said: Remembered) -> None:
    fields: dict[str, Any] = {"v": _VERSION, "path": str(said.project), "vouched": said.is_vouched}
    fields |= {"granted": _rows(said.granted), "refused": _rows(said.refused), "approved": sorted(said.approved)}
    path = _file(said.project)
    replace_atomically(path, json.dumps(fields, indent=1).encode(), 0o600)
