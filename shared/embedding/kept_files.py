"""Copies of what can be made again, in the user's cache folder: behind a sum of themselves, written in one step.

The sum tells what is damaged; to hash 80 MB takes longer than the rest of a routing. Whoever may write to the folder
can write a sum too, so ``from_bytes`` may be given anything, and must run none of it.
"""

import mmap
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import cache_folder, private_folder

__all__ = ["kept"]

_HEAD_BYTES = 64
"""The length and the sum of what follows, which is aligned so."""
_WORD_BYTES = 8
T = TypeVar("T")


def kept(
    name: str,
    make: Callable[[], T],
    *,
    to_bytes: Callable[[T], bytes],
    from_bytes: Callable[[memoryview], T],
    most: int,
) -> T:
    """Return what was kept as ``name``; where that is not to be had, what ``make`` makes, which is kept from then on.

    Args:
        name: A word that says what it is, a dash, and a digest of all that it follows from.
        make: Makes it.
        to_bytes: Writes it; raises ``ValueError`` for what is not to be kept.
        from_bytes: Reads that, which is mapped into memory; raises ``ValueError`` where it cannot.
        most: How many of this word are kept: a new one takes the place of the one that was used the longest ago.
    """
    try:
        path = private_folder(cache_folder()) / name
    except (OSError, ConfigurationError):
        return make()
    with suppress(Exception):  # whatever stands there: it can be made again
        found = from_bytes(_read(path))
        os.utime(path)
        return found
    made = make()
    with suppress(OSError, ValueError):
        _write(path, to_bytes(made))
        _clear(path.parent, name.partition("-")[0], most)
    return made


def _read(path: Path) -> memoryview:
    """Return what was kept. Raises ``ValueError`` where it is not what was written, ``OSError`` where there is none."""
    with open(path, "rb", opener=_opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("no file")
        text = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if _head_of(text[_HEAD_BYTES:]) != text[:_HEAD_BYTES]:
        raise ValueError("broken")
    return text[_HEAD_BYTES:]


def _opened(path: str, flags: int) -> int:
    """Open what may be a pipe or a link that somebody has put there: nobody waits for it, and nothing else is read."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _head_of(text: memoryview) -> bytes:
    whole = len(text) // _WORD_BYTES * _WORD_BYTES
    words, rest = np.frombuffer(text[:whole], np.uint64), int.from_bytes(text[whole:], "little")
    total = int(words.sum(dtype=np.uint64)) ^ rest
    return b"".join(number.to_bytes(_WORD_BYTES, "little") for number in (len(text), total)).ljust(_HEAD_BYTES, b"\0")


def _write(path: Path, text: bytes) -> None:
    """Write it in one step: others read meanwhile, or write the same. Raises ``OSError``."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.write(_head_of(memoryview(text)))
        file.write(text)
        file.flush()
        path.unlink(missing_ok=True)
        path.hardlink_to(file.name)


def _clear(folder: Path, word: str, most: int) -> None:
    used = sorted(folder.glob(f"{word}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in used[most:]:
        path.unlink(missing_ok=True)
