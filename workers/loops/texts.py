"""Words that a model says over and over within one text."""

import re
from collections.abc import Iterator

__all__ = ["repeated_words"]

CHUNK = 50
"""Characters that must come again."""
TIMES = 10
"""How often, for a text that goes in circles."""
_WITHIN = TIMES * CHUNK * 5
"""Characters that so many have room in: what comes again further apart is a refrain."""

_FENCE = re.compile(r"^\s*(```|~~~)")
_STRUCTURE = re.compile(
    r"\s*([-*+\u2022\u00b7>|#=]|\d+\s*[.)\u3001\uff0e\uff09]|[(\uff08]\w+[)\uff09]|</?\w)|\s*[-=*_|+:\s]+$| {4}|\t"
)
"""A line of a table, list, heading, quotation or markup, a rule, or indented code: they repeat by nature."""
_DATA = re.compile(r"\s*[{\[<]")


def repeated_words(text: str) -> str:
    """Return a piece of ``text`` that it says ten times in a row, or nearly so; empty: there is none.

    Source: the content check of gemini-cli's loop detection (chunks of 50 characters, 10 times, close together, outside
    of code, tables and lists).
    """
    if len(text) < CHUNK * TIMES or _DATA.match(text):
        return ""
    return next((found for prose in _prose(text) if (found := _repeated_in(prose))), "")


def _prose(text: str) -> Iterator[str]:
    """Yield the stretches of running text."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_fence = _FENCE.match(line) is not None
        if is_fence or is_code or _STRUCTURE.match(line):
            is_code ^= is_fence
            yield " ".join(lines)
            lines = []
        else:
            lines.append(line)
    yield " ".join(lines)


def _repeated_in(prose: str) -> str:
    """Look at every fiftieth character: whatever repeats for long enough begins a chunk that comes again at one."""
    for place in range(0, len(prose) - CHUNK * TIMES + 1, CHUNK):
        chunk = prose[place : place + CHUNK]
        if prose.count(chunk, place, place + _WITHIN) >= TIMES and chunk.strip():
            return chunk.strip()
    return ""
