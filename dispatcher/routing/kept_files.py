"""Copies of what can be made again, in the user's cache folder: behind the hash of themselves, written in one step."""

import hashlib
import tempfile
from pathlib import Path

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import cache_folder, private_folder

__all__ = ["kept_file", "read_kept", "write_kept"]

_DIGEST_BYTES = 32


def kept_file(name: str) -> Path:
    """Return where the copy ``name`` is kept. Raises ``OSError`` where nothing can be."""
    try:
        return private_folder(cache_folder()) / name
    except ConfigurationError as error:
        raise OSError(str(error)) from error


def read_kept(path: Path) -> memoryview:
    """Return what was kept. Raises ``ValueError`` where it is not what was written, ``OSError`` where there is none."""
    text = memoryview(path.read_bytes())
    if hashlib.sha256(text[_DIGEST_BYTES:]).digest() != text[:_DIGEST_BYTES]:
        raise ValueError("broken")
    return text[_DIGEST_BYTES:]


def write_kept(path: Path, text: bytes) -> None:
    """Write it in one step: others read meanwhile, or write the same. Raises ``OSError``."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.write(hashlib.sha256(text).digest() + text)
        file.flush()
        path.unlink(missing_ok=True)
        path.hardlink_to(file.name)
