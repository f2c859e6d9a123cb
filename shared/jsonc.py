"""JSON with comments (``//`` and ``/* */``), as gemini-cli reads its settings: read, and changed in place.

A change touches the one value and what must be round it; a byte order mark, line ends, comments, order and indentation
of everything else stay. Trailing commas are no JSON there, and none here. Each function reads the text a fixed number
of times, however many members it has: a project's file may be as large as its author likes.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["line_in", "second_in", "set_in", "unset_in", "without_comments"]

_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+"?)|\A\ufeff|//[^\r\n]*|/\*.*?\*/|(/\*.*)', re.DOTALL)
"""In a group what stays: a text, and a comment without an end, which is no JSON (and looked for only once)."""
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_END = re.compile(r"[ \t,]*\r?\n")
_INDENT = "  "
_DECODER = json.JSONDecoder()


class _Member(NamedTuple):
    name: str | int
    """In a list its number, from 0."""
    start: int
    value: int
    end: int
    """Behind its value."""
    comma: int | None
    """The one behind it."""


class _Edit(NamedTuple):
    start: int
    end: int
    new: str = ""


def without_comments(text: str) -> str:
    """Return ``text`` with spaces in the place of its comments: every place and line is as before."""
    return _TOKEN.sub(lambda found: found[1] or found[2] or re.sub(r"[^\r\n]", " ", found[0]), text)


def line_in(text: str, path: Sequence[str | int]) -> int:
    """Return the line, from 1, of what stands at ``path``, or of the last part of it that is there."""
    plain = _plain(text)
    place = line = _start(plain, 0)
    for name in path:
        found = next((one for one in _members(plain, place) if one.name == name), None)
        if found is None:
            break
        line, place = found.start, found.value
    return text.count("\n", 0, line) + 1


def second_in(text: str) -> int:
    """Return the line of the first name that an object has for the second time; 1 where each has its own."""
    plain = _plain(text)
    waiting, found = [_start(plain, 0)], len(plain)
    while waiting:
        seen = set[str | int]()
        for one in _members(plain, waiting.pop()):
            found = min(found, one.start) if one.name in seen else found
            seen.add(one.name)
            waiting.append(one.value)
    return text.count("\n", 0, found) + 1 if found < len(plain) else 1


def set_in(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text of an object with ``value`` at ``path``; objects on the way are made where there are none.

    Raises ``KeyError`` with the part of the path at which something stands that is no object.
    """
    plain = _plain(text)
    if _start(plain, 0) == len(plain):
        made = "{}\n" if text[-1:] in {"", "\n"} else "\n{}\n"
        text = _edited(text, [_Edit(len(text), len(text), made)])
        plain = _plain(text)
    place, found = _start(plain, 0), None
    for depth, name in enumerate(path):
        if plain[place] != "{":
            raise KeyError(*path[:depth])
        members = list(_members(plain, place))
        found = next((one for one in reversed(members) if one.name == name), None)  # of several the last counts
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _edited(text, _insertion(text, plain, place, members, {name: value}))
        place = found.value
    assert found is not None, "a path names something"
    return _edited(text, [_Edit(found.value, found.end, _dumped(value, _indent_at(text, found.start)))])


def unset_in(text: str, path: Sequence[str]) -> str:
    """Return the text of an object without what is at ``path``, where that is, as often as it is there."""
    plain = _plain(text)
    place, members = _start(plain, 0), list[_Member]()
    for name in path:
        if place == len(plain) or plain[place] != "{":
            return text
        members = list(_members(plain, place))
        place = next((one.value for one in reversed(members) if one.name == name), len(plain))
    return _edited(text, _removals(text, plain, members, path[-1]))


def _plain(text: str) -> str:
    """Return ``text`` without comments, the line ends in them included: a line ends where its last comment does."""
    return _TOKEN.sub(lambda found: found[1] or found[2] or " " * len(found[0]), text)


def _members(plain: str, at: int) -> Iterator[_Member]:
    """Yield the members of the object or list that begins at ``at``; anything else has none. It is known to be JSON."""
    if (closing := {"{": "}", "[": "]"}.get(plain[at : at + 1])) is None:
        return
    at, number = _start(plain, at + 1), 0
    while plain[at] != closing:
        start = value = at
        name: str | int = number
        if closing == "}":
            name, at = _DECODER.raw_decode(plain, at)
            value = _start(plain, _start(plain, at) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        at = _start(plain, end)
        comma = at if plain[at] == "," else None
        yield _Member(name, start, value, end, comma)
        at, number = at if comma is None else _start(plain, comma + 1), number + 1


def _insertion(text: str, plain: str, at: int, members: list[_Member], added: dict[str, Any]) -> list[_Edit]:
    """Add a member at the end of the object that begins at ``at``."""
    last = members[-1].end if members else at + 1
    close = _start(plain, last)
    outer = _indent_at(text, at)
    [(name, value)] = added.items()
    if members and "\n" not in text[at:close]:
        return [_Edit(last, last, f", {_dumped(name)}: {_dumped(value, outer)}")]
    indent = _indent_at(text, members[0].start) if members else outer + _INDENT
    behind = len(text[:close].rstrip(" \t\r\n"))
    line = f"\n{indent}{_dumped(name)}: {_dumped(value, indent)}"
    comma = [_Edit(last, last, ",")] if members else []
    if "\n" in text[behind:close]:
        return [*comma, _Edit(behind, behind, line)]
    return [*comma, _Edit(behind, close, f"{line}\n{outer}")]


def _removals(text: str, plain: str, members: list[_Member], name: str) -> list[_Edit]:
    """Take each member of that name away with one comma: the one behind it, or if it is the last, the one before."""
    edits, kept = list[_Edit](), None
    for one in members:
        if one.name != name:
            kept = one
            continue
        comma = one.comma if one.comma is not None else kept and kept.comma
        edits.append(_extent(text, plain, one))
        if comma is not None:
            edits.append(_Edit(comma, comma + 1))
    return edits


def _extent(text: str, plain: str, member: _Member) -> _Edit:
    """Return what goes with a member: its line, comments too, if nothing else stands there, or the space before."""
    start = _back(plain, member.start)
    if plain[start - 1] == "\n" and (rest := _LINE_END.match(plain, member.end)):
        return _Edit(start, rest.end())
    return _Edit(_back(text, member.start), member.end)


def _back(text: str, at: int) -> int:
    while text[at - 1] in " \t":
        at -= 1
    return at


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    """Return the text with the edits made, what is new in it with the text's own line ends."""
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    parts, at = list[str](), 0
    for start, end, new in sorted(edits, key=lambda edit: edit.start):
        parts += [text[at:start], new.replace("\n", newline)]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _start(plain: str, at: int) -> int:
    """Return where the next thing begins."""
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dumped(value: Any, indent: str = "") -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
