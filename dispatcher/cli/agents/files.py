"""Agent files on disk: written at once or not at all."""

import os
from pathlib import Path

from ekiden.shared.atomic_file import replace_atomically, written_beside
from ekiden.shared.errors import ConfigurationError, InvalidRequest

__all__ = ["create_file", "delete_file", "replace_file"]


def create_file(path: Path, text: str) -> None:
    """Write a new file; it is complete from the first moment that others see it.

    Raises:
        InvalidRequest: it exists already.
        ConfigurationError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(path, text.encode(), 0o644) as written:
            _link(written, path)
    except FileExistsError:
        raise InvalidRequest(f"{str(path)!r} exists already: edit it, or choose another name") from None
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file, or make it; a link stays a link, and the mode stays as it was.

    Raises:
        ConfigurationError: it cannot be written.
    """
    target = path.resolve()
    try:
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o644
        replace_atomically(target, data, mode)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def delete_file(path: Path) -> None:
    """Delete a file; one that is gone already is no error. Raises ``ConfigurationError``."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be deleted: {error.strerror or error}") from error


def _link(written: Path, path: Path) -> None:
    """Give the file its name; unlike a rename, this never replaces another."""
    try:
        os.link(written, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with path.open("xb") as file:
            file.write(written.read_bytes())
