"""A short unified diff of one change, cheap on files of any size."""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import eq

from ekiden.workers.tools.builtin.text_file import TextFile, lines_of

__all__ = ["short_difference"]

_CONTEXT_LINES = 3
_MAX_COMPARED = 1_000
_MAX_SHOWN = 60
_MAX_LINE_CHARS = 300


def short_difference(before: str, after: str, name: str) -> str:
    """Return a unified diff, cut where it gets long.

    Only the region that differs is compared: difflib needs quadratic time, and an edit touches one place.
    """
    old, new = (lines_of(TextFile(text).printable) if text else [] for text in (before, after))
    start, end = _common_ends(old, new)
    first = max(0, start - _CONTEXT_LINES)
    rest = max(0, end - _CONTEXT_LINES)
    old, new = old[first : len(old) - rest], new[first : len(new) - rest]
    if len(old) + len(new) > _MAX_COMPARED and old:
        return f"(the change is too long to show: {len(old):,} lines became {len(new):,}, from line {first + 1})"
    lines = [
        line[:_MAX_LINE_CHARS] for line in _numbered(difflib.unified_diff(old, new, name, name, lineterm=""), first)
    ]
    if len(lines) > _MAX_SHOWN:
        lines[_MAX_SHOWN:] = [f"(cut: {len(lines) - _MAX_SHOWN:,} more lines of the diff)"]
    return "\n".join(lines)


def _common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Count the lines that both begin with and, of the rest, end with."""
    start = _common_start(old, new)
    return start, _common_start(old[start:][::-1], new[start:][::-1])


def _common_start(old: Sequence[str], new: Sequence[str]) -> int:
    return sum(takewhile(bool, map(eq, old, new)))


def _numbered(diff: Iterator[str], first: int) -> Iterator[str]:
    """Count the lines in the hunk headers from the start of the file, not of the region."""
    for line in diff:
        is_header = line.startswith("@@")
        yield re.sub(r"(?<=[-+])\d+", lambda number: str(int(number.group()) + first), line) if is_header else line
