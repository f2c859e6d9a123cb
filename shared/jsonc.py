"""JSON with comments (``//`` and ``/* */``), as gemini-cli reads its settings: read, and changed in place.

A change touches the one value and what must be round it; comments, order and indentation of everything else stay.
Trailing commas are no JSON there, and none here.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["set_in", "unset_in", "without_comments"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_INDENT = "  "
_DECODER = json.JSONDecoder()


class _Member(NamedTuple):
    name: str
    start: int
    value: int
    end: int
    """Behind its value."""


def without_comments(text: str) -> str:
    """Return ``text`` with spaces in the place of its comments: every place and line is as before."""
    return _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0]), text)


def set_in(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text of an object with ``value`` at ``path``; objects on the way are made where there are none.

    Raises ``KeyError`` with the part of the path at which something stands that is no object.
    """
    plain = without_comments(text)
    if not plain.strip():
        text = f"{text.strip()}\n{{}}\n".lstrip()
        plain = without_comments(text)
    place, found = _start(plain, 0), None
    for depth, name in enumerate(path):
        if plain[place] != "{":
            raise KeyError(*path[:depth])
        found = _member(plain, place, name)
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, plain, place, name, value)
        place = found.value
    assert found is not None, "a path names something"
    return text[: found.value] + _dumped(value, _indent_at(plain, found.start)) + text[found.end :]


def unset_in(text: str, path: Sequence[str]) -> str:
    """Return the text of an object without what is at ``path``, where that is."""
    plain = without_comments(text)
    place = holder = _start(plain, 0)
    found = None
    for name in path:
        if place == len(plain) or plain[place] != "{" or (found := _member(plain, place, name)) is None:
            return text
        place, holder = found.value, place
    assert found is not None, "a path names something"
    return unset_in(_removed(text, plain, holder, found), path)  # a name may stand there twice


def _members(plain: str, at: int) -> Iterator[_Member]:
    """Yield the members of the object that begins at ``at``; the text is known to be JSON."""
    at = _start(plain, at + 1)
    while plain[at] != "}":
        start = at
        name, at = _DECODER.raw_decode(plain, at)
        value = _start(plain, _start(plain, at) + 1)
        _, at = _DECODER.raw_decode(plain, value)
        yield _Member(name, start, value, at)
        at = _start(plain, at)
        at = _start(plain, at + 1) if plain[at] == "," else at


def _member(plain: str, at: int, name: str) -> _Member | None:
    """Return the member that counts: of several with the same name the last."""
    return next((one for one in reversed(list(_members(plain, at))) if one.name == name), None)


def _inserted(text: str, plain: str, at: int, name: str, value: Any) -> str:
    members = list(_members(plain, at))
    _, end = _DECODER.raw_decode(plain, at)
    close = end - 1
    outer = _indent_at(plain, at)
    if members and "\n" not in text[at:close]:
        last = members[-1].end
        return f"{text[:last]}, {json.dumps(name)}: {_dumped(value, outer)}{text[last:]}"
    indent = _indent_at(plain, members[0].start) if members else outer + _INDENT
    behind = len(text[:close].rstrip())
    added = f"\n{indent}{json.dumps(name, ensure_ascii=False)}: {_dumped(value, indent)}\n{outer}"
    if not members:
        return text[:behind] + added + text[close:]
    last = members[-1].end
    return f"{text[:last]},{text[last:behind]}{added}{text[close:]}"


def _removed(text: str, plain: str, at: int, member: _Member) -> str:
    """Take a member away with one comma, and the line that it leaves empty."""
    comma = _start(plain, member.end)
    start, end = member.start, member.end
    if plain[comma] == ",":
        text, plain = _cut(text, comma, comma + 1), _cut(plain, comma, comma + 1)
    elif earlier := [one.end for one in _members(plain, at) if one.end < start]:
        comma = _start(plain, earlier[-1])
        text, plain = _cut(text, comma, comma + 1), _cut(plain, comma, comma + 1)
        start, end = start - 1, end - 1
    while text[start - 1] in " \t":
        start -= 1
    rest = re.compile(r"[ \t]*(?:\r?\n)?").match(text, end)
    if text[start - 1] == "\n" and rest and rest[0].endswith("\n"):
        end = rest.end()
    return _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> str:
    return text[:start] + text[end:]


def _start(plain: str, at: int) -> int:
    """Return where the next thing begins."""
    return len(plain) - len(plain[at:].lstrip())


def _indent_at(plain: str, at: int) -> str:
    line = plain[plain.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dumped(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
