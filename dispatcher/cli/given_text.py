"""What users give to commands in files, and on standard input: read as far as it can be what is expected."""

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import why_unreadable

__all__ = ["MOST_OF_LINES", "MOST_OF_PROMPT", "given_lines", "given_text", "piped_text"]

MOST_OF_LINES = 100_000_000
"""Bytes of a file with a JSON object in each line."""
MOST_OF_PROMPT = 20_000_000


def given_text(file: Path | str, most: int, name: str = "") -> str:
    """Return the text of a file, or of standard input (``-``), of which no more than ``most`` bytes are read.

    A pipe or a device may be named, also by a link: where nothing says how much it holds, it is read so far and no
    further. Raises ``InvalidRequest``: it is larger, no UTF-8, or cannot be read; ``name``: what it is called then.
    """
    with _opened(file, most, name) as stream:
        return stream.read()


def given_lines(file: Path | str, most: int, name: str = "") -> Iterator[str]:
    """Yield the lines of such a text, without their ends, as they are read."""
    with _opened(file, most, name) as stream:
        for line in stream:
            yield line.removesuffix("\n")


def piped_text(most: int) -> str:
    """Return what standard input holds. Raises ``InvalidRequest``: more than ``most`` bytes, or no text."""
    return given_text("-", most)


@contextmanager
def _opened(file: Path | str, most: int, name: str) -> Iterator[io.TextIOWrapper]:
    is_piped = str(file) == "-"
    name = "standard input" if is_piped else name or repr(str(file))
    try:
        if is_piped:
            yield _text(_Capped(sys.stdin.buffer, most, name), sys.stdin.encoding)
            return
        with Path(file).open("rb") as source:
            yield _text(_Capped(source, most, name, source.fileno()))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{name} cannot be read: {why_unreadable(error)}") from None


def _text(source: "_Capped", encoding: str = "utf-8-sig") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(source), encoding)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Capped(io.RawIOBase):
    """Reads no more of a ``source`` than it may hold, and does not close it."""

    def __init__(self, source: _Readable, most: int, name: str, descriptor: int | None = None) -> None:
        """Raise ``InvalidRequest`` where the ``descriptor`` is of a file that is larger: nothing of it is read."""
        self._source, self._left, self._most, self._name = source, most, most, name
        found = None if descriptor is None else os.fstat(descriptor)
        if found is not None and stat.S_ISREG(found.st_mode) and found.st_size > most:
            raise self._too_large()

    def readable(self) -> bool:
        """See ``IOBase``."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as all that reads calls it
        """See ``RawIOBase``. Raises ``InvalidRequest``: there is more than there may be."""
        data = self._source.read(min(len(buffer), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise self._too_large()
        buffer[: len(data)] = data
        return len(data)

    def _too_large(self) -> InvalidRequest:
        return InvalidRequest(f"{self._name} holds more than {self._most:,} bytes, the most: give what is needed of it")
