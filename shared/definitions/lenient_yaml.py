"""The second try at front matter that is not YAML, entry by entry: only what YAML refuses is read in another way.

What hand-written files do most: ``description: Use for: this``, ``tools: *``, descriptions that go on in the next lines
without being indented (often with ``Context: …`` and ``user: …`` in them), and tabs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ekiden.shared.definitions.fields import (
    KNOWN_FIELDS,
    PROSE,
    is_restricting,
    refuses,
    seems_permitting,
    seems_restricting,
)
from ekiden.shared.definitions.strict_yaml import Parsed, YamlSyntaxError, parse, second_of

__all__ = ["parse_leniently"]

_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*):(?:[ \t]+(?P<value>.*)|)\Z")
_LOOSE_KEY = re.compile(r"[\"']?(?P<key>[A-Za-z_][\w -]{0,40})[\"']?[ \t\xa0]{0,9}:[ \t]*(?P<value>.*)\Z")
"""How authors write one that they mean: with blanks in it, or before the colon, and with none behind."""
_INDENT = re.compile(r"\A[ ]*\t[ \t]*")
_STRUCTURE = tuple("[{|>&!#\"'")  # how YAML begins what is more than plain text
_BLOCK = re.compile(r"[|>][-+\d]*\Z")
_EXAMPLE = "<example"
_DIALOGUE = frozenset({"user", "assistant", "human", "context", "example", "examples", "commentary", "note", "input"})


@dataclass
class _Entry:
    number: int
    """The entry's first line, from 0."""
    key: str
    value: str
    more: list[str] = field(default_factory=list)
    has_example: bool = False

    def __post_init__(self) -> None:
        self.has_example = _EXAMPLE in self.value

    def add(self, line: str) -> None:
        """Take in one more line."""
        self.more.append(line)
        self.has_example = self.has_example or _EXAMPLE in line

    @property
    def source(self) -> str:
        return "\n".join([f"{self.key}: {self.value}", *self.more]) + "\n"

    def as_text(self) -> str | None:
        """Return what the author can have meant as plain text, or None where it must have been meant as structure."""
        prose = self.key in PROSE
        if prose and _BLOCK.match(self.value):
            return "\n".join(line.strip() for line in self.more).strip()
        if self.value.startswith(("&", "!")) or (not prose and self.value.startswith(_STRUCTURE)):
            return None
        if not self.value and not prose:
            return None
        return "\n".join([self.value, *self.more]).strip()


def parse_leniently(source: str, first_line: int) -> Parsed:
    """Read front matter entry by entry, each one that YAML refuses as text, with a warning.

    Raises:
        YamlSyntaxError: an entry cannot be meant as text.
        AgentFileError: an entry is not safe to read.
    """
    lines, warnings = _without_tabs(source.split("\n"), first_line)
    fields: dict[str, Any] = {}
    places: dict[str, int] = {}
    for entry in _entries(lines):
        line = first_line + entry.number
        if entry.key in places:
            warnings.append((line, second_of(entry.key, line, places[entry.key])))
        places[entry.key] = line
        fields[entry.key], notes = _value(entry, line)
        warnings += notes
    return Parsed(fields, places, tuple(warnings))


def _value(entry: _Entry, line: int) -> tuple[Any, list[tuple[int, str]]]:
    try:
        values = list(parse(entry.source, line).fields.values())
        if len(values) == 1:  # else dialogue in it was taken for fields
            return values[0], []
        text = entry.as_text()
    except YamlSyntaxError:
        text = entry.as_text()
    if text is None:
        raise YamlSyntaxError(f"the value of {entry.key!r} is not valid YAML", line=line)
    return text, [(line, f"the value of {entry.key!r} is not YAML and was read as text. Put it in quotes")]


def _without_tabs(lines: list[str], first_line: int) -> tuple[list[str], list[tuple[int, str]]]:
    spaced = [_INDENT.sub(lambda indent: indent[0].replace("\t", "  "), line) for line in lines]
    changed = [number for number, (old, new) in enumerate(zip(lines, spaced, strict=True)) if old != new]
    warning = "tabs before the text were read as two spaces each: YAML indents with spaces"
    return spaced, [(first_line + number, warning) for number in changed[:1]]


def _entries(lines: list[str]) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for number, line in enumerate(lines):
        found = _KEY.match(line) or _LOOSE_KEY.match(line)
        if found and _begins_entry(found, entry):
            if entry is not None:
                yield entry
            entry = _Entry(number, found["key"].strip(), (found["value"] or "").strip())
        elif entry is not None:
            entry.add(line)
        elif line.strip() and not line.startswith("#"):
            raise YamlSyntaxError("the front matter must hold 'key: value' lines")
    if entry is not None:
        yield entry


def _begins_entry(found: re.Match[str], current: _Entry | None) -> bool:
    """Tell a field from a line of a description that goes on: ``user: …`` and ``Context: …`` are dialogue there.

    What restricts the agent is a field wherever it stands: in a description, it would be lost.
    """
    key = found["key"]
    if is_restricting(key):
        return True
    if found.re is _LOOSE_KEY:
        return False
    if key in KNOWN_FIELDS or current is None or current.key not in PROSE:
        return True
    if seems_restricting(key) or (seems_permitting(key) and refuses(found["value"])):
        return True
    return not current.has_example and key[0].islower() and key not in _DIALOGUE
