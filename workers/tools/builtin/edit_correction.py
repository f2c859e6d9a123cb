"""What an edit means that misses by white space, or by escapes that its model wrote too much.

Only where it can mean one place: nothing is guessed.
"""

import re
from typing import NamedTuple

__all__ = ["Correction", "corrected"]

_LEAST = 8
"""Characters without white space that must be alike: fewer may be alike by chance."""
_LONGEST = 1_000_000
"""Characters of a file in which such a place is looked for."""
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\'": "'", r"\`": "`", r"\\": "\\"}
_ESCAPED = re.compile(r"\\[nt\"'`\\]")
_SPACE = re.compile(r"\s+")
_INDENT = re.compile(r"[ \t]*")


class Correction(NamedTuple):
    """The place that is meant, what to put there, and how the edit had missed."""

    start: int
    end: int
    new: str
    why: str


def corrected(old: str, new: str, content: str) -> Correction | None:
    """Return what the edit means in ``content``, in which ``old`` does not occur; None: nobody can tell."""
    if len(content) > _LONGEST or not old.strip():
        return None
    plain, plain_new = _unescaped(old), _unescaped(new)
    if plain != old and content.count(plain) == 1:
        start = content.index(plain)
        return Correction(start, start + len(plain), plain_new, "its escapes were taken for what they stand for")
    for one, its_new, more in ((old, new, ""), (plain, plain_new, " and escapes")):
        if (span := _span_of(one, content)) is not None:
            indented = _indented_as_there(one, its_new, content, span[0])
            return Correction(*span, indented, f"'old' differs there in white space{more}")
    return None


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)


def _span_of(old: str, content: str) -> tuple[int, int] | None:
    """Return where the one place is that holds the same characters, white space left out."""
    wanted = _SPACE.sub("", old)
    places = [at for at, char in enumerate(content) if not char.isspace()]
    text = "".join(content[at] for at in places)
    first = text.find(wanted)
    if len(wanted) < _LEAST or first < 0 or text.find(wanted, first + 1) >= 0:
        return None
    return places[first], places[first + len(wanted) - 1] + 1


def _indented_as_there(old: str, new: str, content: str, start: int) -> str:
    """Return ``new`` as it stands at ``start``: its lines are moved as far as those of ``old`` are off."""
    line_start = content.rfind("\n", 0, start) + 1
    there, given = content[line_start:start], _indent(old.lstrip("\r\n"))
    text = new.strip("\r\n").rstrip()
    if there.strip():  # in the middle of a line
        return text.lstrip()
    moved = [there + line.removeprefix(given) if line.startswith(given) and line else line for line in text.split("\n")]
    return "\n".join(moved).removeprefix(there)


def _indent(text: str) -> str:
    found = _INDENT.match(text)
    return found[0] if found else ""
