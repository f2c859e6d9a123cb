"""Text files as they are on disk: byte order mark, encoding and line ends survive a change."""

import codecs
import os
from contextlib import suppress
from dataclasses import dataclass, replace

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.paths import Place, open_file, writable_folder
from ekiden.workers.tools.builtin.safe_open import put, read_all

__all__ = ["MAX_BYTES", "TextFile", "line_end", "lines_of", "read_text", "write_text"]

MAX_BYTES = 50_000_000
"""Larger files are refused: they would be held in the worker's memory several times over."""

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SNIFFED_BYTES = 8_192


@dataclass(frozen=True)
class TextFile:
    """A decoded file. Bytes that are not UTF-8 stay in ``content`` as lone surrogates, and so survive unchanged."""

    content: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> "TextFile | None":
        """Return the text that ``data`` holds, or None when it is not text."""
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                with suppress(UnicodeDecodeError):
                    return cls(data[len(mark) :].decode(encoding), encoding, mark)
        if b"\0" in data[:_SNIFFED_BYTES]:
            return None
        return cls(data.decode(errors="surrogateescape"))

    def encode(self) -> bytes:
        """Return the bytes to store: those that ``decode`` was given, where nothing changed."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + self.content.encode(self.encoding, errors)

    def with_content(self, content: str) -> "TextFile":
        """Return the same kind of file with another text."""
        return replace(self, content=content)

    @property
    def utf8(self) -> bytes:
        """The text as UTF-8, undecodable bytes as they are on disk."""
        return self.content.encode(errors="surrogateescape")

    @property
    def printable(self) -> str:
        """The text for a reader: undecodable bytes become U+FFFD."""
        return self.utf8.decode(errors="replace")

    @property
    def is_clean(self) -> bool:
        """Whether every byte could be decoded."""
        try:
            self.content.encode()
        except UnicodeEncodeError:
            return False
        return True


def read_text(place: Place, context: ToolContext) -> TextFile:
    """Read the file at ``place``.

    Raises:
        ToolError: missing, no regular file, binary, over ``MAX_BYTES``, or not readable.
    """
    with open_file(place, context) as file:
        size = os.fstat(file).st_size
        if size > MAX_BYTES:
            raise ToolError(
                f"{place.given!r} has {size:,} bytes, at most {MAX_BYTES:,} are read: take a part of it with bash"
            )
        text = TextFile.decode(read_all(file, MAX_BYTES))
    if text is None:
        raise ToolError(f"{place.given!r} is a binary file ({size:,} bytes), expected text")
    return text


def write_text(place: Place, text: TextFile, context: ToolContext) -> None:
    """Store ``text`` at ``place`` in one step: a reader sees the old file or the new one, a crash leaves one of them.

    An existing file keeps its mode and, where permitted, its owner; missing parent folders are made.

    Raises:
        ToolError: agents may not write there, or the operating system refuses.
    """
    data = text.encode()
    with writable_folder(place, context) as folder:
        put(folder, place.names[-1], data, place.status())


def lines_of(content: str) -> list[str]:
    r"""Split at ``\n`` only, as editors count, and remove the line ends; a final one leaves an empty line."""
    return content.removesuffix("\r").replace("\r\n", "\n").split("\n")


def line_end(content: str, default: str = "\n") -> str:
    """Return the line end that most lines of ``content`` have, or ``default`` when it has none."""
    total = content.count("\n")
    if not total:
        return default
    return "\r\n" if content.count("\r\n") * 2 > total else "\n"
