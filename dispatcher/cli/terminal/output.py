"""Lines for people: colours and wrapping on a terminal, plain text elsewhere, ASCII where nothing else can be shown."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from ekiden.dispatcher.cli.terminal.tables import laid_out
from ekiden.shared.cells import LineBreaker, cut, padded, wrapped
from ekiden.shared.terminal_text import visible

__all__ = ["MARKS", "Output", "fitted", "speaks_unicode"]

_UNICODE = {"arrow": "→", "route": "🎯", "tool": "🔧", "handoff": "🔀", "stop": "⛔", "note": "💡", "wait": "⏳"}
_UNICODE |= {"ok": "✅", "unfinished": "🚧", "failed": "❌", "cancelled": "🚫", "dot": "·", "dots": "…", "agent": "🤖"}
_UNICODE |= {"child": "🧩", "calls": "⇒", "return": "↩", "fork": "├─ ", "last": "└─ ", "bar": "│  "}
_UNICODE |= {"ask": "⚠️", "question": "❓", "person": "👤", "again": "🔄"}
_UNICODE |= {"pass": "✓", "warn": "!", "fault": "✗", "chart": "📊", "bullet": "•", "runs": "▶", "open": "·"}
_ASCII = {"arrow": "->", "route": "*", "tool": "-", "handoff": "=>", "stop": "!", "note": "i", "wait": "~"}
_ASCII |= {"ok": "+", "unfinished": "/", "failed": "x", "cancelled": "x", "dot": "|", "dots": "...", "agent": "@"}
_ASCII |= {"child": "&", "calls": "==>", "return": "<-", "fork": "|- ", "last": "`- ", "bar": "|  "}
_ASCII |= {"ask": "!", "question": "?", "person": "@", "again": "~"}
_ASCII |= {"pass": "+", "warn": "!", "fault": "x", "chart": "#", "bullet": "*", "runs": ">", "open": "."}

MARKS = {"ok": "pass", "warning": "warn", "error": "fault"}
"""The symbol of what a check has found."""
_COERCED = {"", "C.UTF-8", "C.utf8", "UTF-8"}
"""What Python itself may have set LC_CTYPE to, because the locale was C."""


class Output:
    """Writes lines to a stream. On a terminal they are coloured and broken to its width, elsewhere they are as given.

    Symbols are the same on a terminal and elsewhere: whether they are plain is for the stream's encoding and the locale
    to say.
    """

    def __init__(self, stream: TextIO | None = None, columns: int = 0) -> None:
        """Write to ``stream``, else to standard output; ``columns``: of what shows it, if that is not the stream."""
        self.stream = stream or sys.stdout
        self._columns = columns
        self.is_unicode = speaks_unicode(self.stream, os.environ)
        self.symbols = _UNICODE if self.is_unicode else _ASCII
        self._growing: LineBreaker | None = None
        self._is_mid_line = False
        self._has_progress = False
        self._console = None
        if self.stream.isatty():
            from rich.console import Console

            self._console = Console(file=self.stream, highlight=False, markup=False, emoji=False)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self._console is not None

    def width(self, elsewhere: int) -> int:
        """Return the terminal's columns, and ``elsewhere`` where there is none."""
        return self._columns or elsewhere if self._console is None else self._console.width

    @property
    def height(self) -> int:
        """The terminal's lines; 0 elsewhere: there is no end."""
        return 0 if self._console is None else self._console.height

    def line(self, text: str = "", style: str = "", *, hang: int = 0) -> None:
        """Write ``text``, as one line or several, at once; on a terminal the rest of the first hangs so far."""
        self.fresh_line()
        shown = wrapped(visible(text), width, hang=hang) if (width := self.width(0)) else visible(text)
        if self._console is None:
            self.stream.write(f"{shown}\n")
        else:
            self._console.print(shown, style=style, soft_wrap=True)
        self.stream.flush()

    def fields(self, rows: Iterable[tuple[str, object]], width: int = 12) -> None:
        """Write values, each behind its name, which takes ``width`` columns."""
        for name, value in rows:
            self.line(f"{padded(name, width)} {value}", hang=width + 1)

    def part(self, text: str, style: str = "") -> None:
        """Write a piece of a line that grows; on a terminal its last word waits for what comes next."""
        self._clear_progress()
        if self._console is None:
            self.stream.write(visible(text))
        else:
            self._growing = self._growing or LineBreaker(self._console.width)
            self._console.print(self._growing.add(visible(text)), style=style, end="", soft_wrap=True)
        self.stream.flush()
        self._is_mid_line = not text.endswith("\n")

    def fresh_line(self) -> None:
        """End the line that grows, if one does."""
        self._clear_progress()
        if self._is_mid_line:
            self.stream.write(f"{self._growing.end() if self._growing else ''}\n")
            self.stream.flush()
        self._growing, self._is_mid_line = None, False

    def progress(self, text: str) -> None:
        """Show ``text`` at the bottom of a terminal until something else is written; nowhere else."""
        if self._console is None or self._console.is_dumb_terminal or self._is_mid_line:
            return
        self._clear_progress()
        shown = fitted(text, max(self._console.width - 1, 1), self.symbols["dots"])
        self._console.print(shown, style="dim", end="", soft_wrap=True)
        self.stream.flush()
        self._has_progress = True

    def _clear_progress(self) -> None:
        if self._has_progress:
            self.stream.write("\r\x1b[2K")
            self._has_progress = False

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table, laid out for the terminal's width; see ``laid_out``."""
        shown = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
        for lines, style in zip(laid_out(columns, shown, self.width(0)), ("bold", ""), strict=True):
            if lines:
                self.line("\n".join(lines), style)


def fitted(text: str, width: int, dots: str = "...") -> str:
    """Return ``text`` on one line of at most ``width`` columns of a terminal, without what would steer it."""
    return cut(visible(text), width, dots)


def speaks_unicode(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether ``stream`` can show more than ASCII: by its encoding, and by the locale that the user chose.

    Python takes UTF-8 for the encoding of the C locale, whose terminals know ASCII only.
    """
    try:
        "🎯→".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    if environ.get("PYTHONIOENCODING") or environ.get("PYTHONUTF8") == "1":
        return True
    chosen = environ.get("LC_ALL")
    if not chosen and environ.get("LC_CTYPE", "") in _COERCED:
        chosen = environ.get("LANG")
    return chosen not in ("C", "POSIX")
