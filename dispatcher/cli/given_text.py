"""What users give to commands in files, and on standard input: read as far as it can be what is expected."""

import os
import stat
import sys
from pathlib import Path

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import why_unreadable

__all__ = ["MOST_OF_LINES", "MOST_OF_PROMPT", "given_text", "piped_text"]

MOST_OF_LINES = 500_000_000
"""Characters of a file with a JSON object in each line."""
MOST_OF_PROMPT = 20_000_000
_BYTES_OF_ONE = 4
"""Which a character has at most."""


def given_text(file: Path | str, most: int, name: str = "") -> str:
    """Return the text of a file, or of standard input (``-``), of which no more than ``most`` characters are read.

    A pipe or a device may be named, also by a link: where nothing says how much it holds, it is read so far and no
    further. Raises ``InvalidRequest``: it is larger, no UTF-8, or cannot be read; ``name``: what it is called then.
    """
    if str(file) == "-":
        return piped_text(most)
    name = name or repr(str(file))
    try:
        with Path(file).open(encoding="utf-8-sig") as stream:
            found = os.fstat(stream.fileno())
            is_too_large = stat.S_ISREG(found.st_mode) and found.st_size > _BYTES_OF_ONE * most
            return _checked("" if is_too_large else stream.read(most + 1), most, name, is_too_large=is_too_large)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{name} cannot be read: {why_unreadable(error)}") from None


def piped_text(most: int) -> str:
    """Return what standard input holds. Raises ``InvalidRequest``: more than ``most`` characters, or no text."""
    name = "standard input"
    try:
        return _checked(sys.stdin.read(most + 1), most, name)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{name} cannot be read: {why_unreadable(error)}") from None


def _checked(text: str, most: int, name: str, *, is_too_large: bool = False) -> str:
    if is_too_large or len(text) > most:
        raise InvalidRequest(f"{name} holds more than {most:,} characters, the most: give what is needed of it")
    return text
