"""Lines for people: colours and wrapping on a terminal, plain text elsewhere, ASCII where nothing else can be shown."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from ekiden.shared.terminal_text import one_line, visible

__all__ = ["Output", "fitted", "speaks_unicode"]

_UNICODE = {"arrow": "→", "route": "🎯", "tool": "🔧", "handoff": "🔀", "stop": "⛔", "note": "💡", "wait": "⏳"}
_UNICODE |= {"ok": "✅", "unfinished": "🚧", "failed": "❌", "cancelled": "🚫", "dot": "·", "dots": "…", "agent": "🤖"}
_UNICODE |= {"child": "🧩", "calls": "⇒", "return": "↩", "fork": "├─ ", "last": "└─ ", "bar": "│  "}
_UNICODE |= {"ask": "⚠️", "question": "❓", "person": "👤"}
_ASCII = {"arrow": "->", "route": "*", "tool": "-", "handoff": "=>", "stop": "!", "note": "i", "wait": "~"}
_ASCII |= {"ok": "+", "unfinished": "/", "failed": "x", "cancelled": "x", "dot": "|", "dots": "...", "agent": "@"}
_ASCII |= {"child": "&", "calls": "==>", "return": "<-", "fork": "|- ", "last": "`- ", "bar": "|  "}
_ASCII |= {"ask": "!", "question": "?", "person": "@"}

_NARROW = 70
"""Columns of a terminal below which a table would be cut to pieces."""
_COERCED = {"", "C.UTF-8", "C.utf8", "UTF-8"}
"""What Python itself may have set LC_CTYPE to, because the locale was C."""


class Output:
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.symbols = _UNICODE if speaks_unicode(self.stream, os.environ) else _ASCII
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

    @property
    def drawing(self) -> Mapping[str, str]:
        """The symbols for drawings: plain ones where there is no terminal, for files and other programs."""
        return self.symbols if self.is_terminal else _ASCII

    def line(self, text: str = "", style: str = "") -> None:
        """Write ``text``, as one line or several, at once."""
        self.fresh_line()
        if self._console is not None:
            self._console.print(visible(text), style=style)
        else:
            self.stream.write(visible(text) + "\n")
        self.stream.flush()

    def part(self, text: str, style: str = "") -> None:
        """Write a piece of a line that grows."""
        self._clear_progress()
        if self._console is not None:
            self._console.print(visible(text), style=style, end="", soft_wrap=True)
        else:
            self.stream.write(visible(text))
        self.stream.flush()
        self._is_mid_line = not text.endswith("\n")

    def fresh_line(self) -> None:
        """End the line that grows, if one does."""
        self._clear_progress()
        if self._is_mid_line:
            self.stream.write("\n")
            self.stream.flush()
        self._is_mid_line = False

    def progress(self, text: str) -> None:
        """Show ``text`` at the bottom of a terminal until something else is written; nowhere else."""
        if self._console is None or self._console.is_dumb_terminal or self._is_mid_line:
            return
        from rich.cells import set_cell_size

        self._clear_progress()
        shown = set_cell_size(visible(text), max(self._console.width - 1, 1)).rstrip()
        self._console.print(shown, style="dim", end="", soft_wrap=True)
        self.stream.flush()
        self._has_progress = True

    def _clear_progress(self) -> None:
        if self._has_progress:
            self.stream.write("\r\x1b[2K")
            self._has_progress = False

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; a line per cell on a narrow terminal, aligned columns elsewhere than on one."""
        shown = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
        if self._console is None:
            for line in _aligned([list(columns), *shown]):
                self.line(line)
            return
        if self._console.width < _NARROW:
            for row in shown:
                self.line("\n".join(f"{name.lower()}: {cell}" for name, cell in zip(columns, row, strict=True) if cell))
                self.line()
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD if self.symbols is _UNICODE else box.ASCII2)
        for index, column in enumerate(columns):
            table.add_column(column, no_wrap=index == 0)  # ids are to be copied
        for row in shown:
            table.add_row(*map(Text, row))
        self._console.print(table)


def fitted(text: str, width: int, dots: str = "...") -> str:
    """Return ``text`` on one line of at most ``width`` columns of a terminal, without what would steer it."""
    from rich.cells import cell_len, set_cell_size

    line = one_line(visible(text), 10 * width)
    return line if cell_len(line) <= width else set_cell_size(line, width - len(dots)).rstrip() + dots


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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines: what stands in a column begins below each other, whatever room its characters take."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
