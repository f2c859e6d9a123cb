"""Text files as they are on disk: byte order mark, encoding and line ends survive a change."""

import codecs
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from shared.errors import ToolError
from workers.tools.builtin.paths import explained

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


def read_text(real: Path, path: str) -> TextFile:
    """Read the file at ``real``; ``path`` is how the model named it.

    Raises:
        ToolError: binary, over ``MAX_BYTES``, or not readable.
    """
    with explained(path):
        size = real.stat().st_size
        if size > MAX_BYTES:
            raise ToolError(f"{path!r} has {size:,} bytes, at most {MAX_BYTES:,} are read: take a part of it with bash")
        data = real.read_bytes()
    text = TextFile.decode(data)
    if text is None:
        raise ToolError(f"{path!r} is a binary file ({size:,} bytes), expected text")
    return text


def write_text(real: Path, text: TextFile, path: str) -> None:
    """Store ``text`` at ``real`` in one step: a reader sees the old file or the new one, a crash leaves one of them.

    An existing file keeps its mode and, where permitted, its owner; missing parent folders are made.

    Raises:
        ToolError: the operating system refuses.
    """
    with explained(path):
        real.parent.mkdir(parents=True, exist_ok=True)
        temporary = real.parent / f".{secrets.token_hex(8)}.tmp"
        try:
            _write_new(temporary, text.encode(), real)
            temporary.replace(real)
        finally:
            temporary.unlink(missing_ok=True)


def lines_of(content: str) -> list[str]:
    r"""Split at ``\n`` only, as editors count, and remove the line ends; a final one leaves an empty line."""
    return [line.removesuffix("\r") for line in content.split("\n")]


def line_end(content: str, default: str = "\n") -> str:
    """Return the line end that most lines of ``content`` have, or ``default`` when it has none."""
    total = content.count("\n")
    if not total:
        return default
    return "\r\n" if content.count("\r\n") * 2 > total else "\n"


def _write_new(temporary: Path, data: bytes, model: Path) -> None:
    # Not tempfile: it makes files of mode 0600, and the umask cannot be read without changing it for every thread.
    with temporary.open("xb") as file:
        if model.exists():
            before = model.stat()
            with suppress(PermissionError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & 0o7777)
        file.write(data)
