"""From a file's bytes to text. UTF-8 is the rule; other encodings get a second try, with a warning."""

import codecs
import re
from dataclasses import dataclass

from ekiden.shared.definitions.problems import AgentFileError

__all__ = ["Decoded", "decode"]

_MARKS = (  # UTF-32's mark begins like UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")


@dataclass(frozen=True)
class Decoded:
    """The text of a file; every kind of line end is a line feed."""

    text: str
    warning: str = ""
    """How else it was read; empty for UTF-8."""
    line: int = 1
    """The first line, from 1, that is not UTF-8."""


def decode(data: bytes) -> Decoded:
    """Decode a file's bytes: UTF-8 with or without a byte order mark, else UTF-16, GB18030 or Windows-1252.

    Raises:
        AgentFileError: this is no text.
    """
    try:
        return Decoded(_with_line_feeds(data.decode("utf-8-sig"))) if not _wide(data) else _guessed(data, 0)
    except UnicodeDecodeError as error:
        return _guessed(data, error.start)


def _guessed(data: bytes, start: int) -> Decoded:
    """Decode what is not UTF-8 from the byte ``start`` on."""
    line = data.count(b"\n", 0, start) + 1
    encoding = _encoding_of(data)
    if encoding is None:
        raise AgentFileError("the file is not text: it holds NUL bytes. Remove it, or save it as UTF-8", line=line)
    try:
        text = data.decode(encoding, "replace" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = data.decode(encoding)
    reading = "single bytes were replaced" if encoding == "utf-8" else f"it was read as {encoding.upper()}"
    warning = f"the file is not UTF-8; {reading}. Save it as UTF-8"
    return Decoded(_with_line_feeds(text.removeprefix("\ufeff")), warning, line)


def _encoding_of(data: bytes) -> str | None:
    if wide := _wide(data):
        return wide
    if b"\0" in data:
        return None
    if _is_damaged_utf8(data):
        return "utf-8"
    return "gb18030" if _looks_chinese(data) else "cp1252"


def _wide(data: bytes) -> str | None:
    """Tell UTF-16 and UTF-32 by their mark, or by the zero in every other byte that begins a file in ASCII."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    head = data[:8]
    if len(head) == 8 and head.count(0) == 4:
        return {(True, False): "utf-16-le", (False, True): "utf-16-be"}.get((not any(head[1::2]), not any(head[::2])))
    return None


def _is_damaged_utf8(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    return sum(not char.isascii() for char in text) > 2 * damaged


def _looks_chinese(data: bytes) -> bool:
    """Two bytes make a character there, so high bytes come in company; in Western texts each stands alone."""
    runs = [len(run) for run in _HIGH_RUN.findall(data)]
    if sum(length for length in runs if length > 1) <= sum(runs) / 2:
        return False
    try:
        data.decode("gb18030")
    except UnicodeDecodeError:
        return False
    return True


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
