"""Agent files are Markdown with YAML front matter between two lines of three dashes.

Strict YAML first. Hand-written files often hold ``description: Use for: this``, which YAML refuses; one lenient retry
quotes such top-level values, and says so in a warning.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from shared.definitions.problems import AgentFileError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # the same interface, other bases

__all__ = ["MAX_BYTES", "FrontMatter", "decode", "read_front_matter"]

MAX_BYTES = 1_000_000
"""No system prompt is longer; what is longer is not an agent file."""

_MAX_ALIASES = 20  # with so few, nested aliases cannot expand to more than some thousand values
_PLAIN_ENTRY = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s\"'\[{|>&!#].*)\Z")
_NEEDS_QUOTES = re.compile(r":(\s|\Z)|\A[*@%`]")
# PyYAML's constructors let these escape for values such as ``!!bool x`` or ``2024-13-45``.
_FAULTS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True)
class FrontMatter:
    """An agent file, taken apart."""

    fields: dict[str, Any]
    body: str
    body_line: int
    """The line of the file, from 1, on which the body begins."""
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each top-level field."""
    warnings: tuple[tuple[int, str], ...] = ()
    """Line and text."""


def decode(data: bytes) -> str:
    """Decode a file's bytes: UTF-8, with or without a byte order mark; every kind of line end becomes a line feed.

    Raises:
        AgentFileError: another encoding; names the line where that shows.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        reason = "it is UTF-16" if utf16 else f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise AgentFileError(f"the file cannot be read: {reason}. Save it as UTF-8", line=line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_front_matter(text: str) -> FrontMatter:
    """Split a file's text into fields and body.

    Raises:
        AgentFileError: there is no front matter, it does not end, or it is not YAML; with line, reason and remedy.
    """
    start, end, lines = _fences(text)
    source = "".join(f"{line}\n" for line in lines[start + 1 : end])
    fields, places, warnings = _parse_forgivingly(source, first_line=start + 2)
    body = "\n".join(lines[end + 1 :])
    padding = len(body) - len(body.lstrip("\n"))
    return FrontMatter(fields, body.strip(), end + 2 + padding, places, warnings)


def _fences(text: str) -> tuple[int, int, list[str]]:
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        raise AgentFileError(
            "there is no front matter: the first line of an agent file is '---', then come 'name:' and 'description:'. "
            "Add it, or let the file's name begin with '_' to have it skipped",
            line=start + 1,
        )
    for number in range(start + 1, len(lines)):
        if lines[number].rstrip() == "---":
            return start, number, lines
    raise AgentFileError("the front matter does not end: a second line '---' is missing. Add it", line=start + 1)


_Parsed = tuple[dict[str, Any], dict[str, int], tuple[tuple[int, str], ...]]


def _parse_forgivingly(source: str, first_line: int) -> _Parsed:
    try:
        return _parse(source, first_line)
    except AgentFileError as strict:
        quoted, changed = _quote_plain_values(source)
        if not changed:
            raise
        try:
            fields, places, warnings = _parse(quoted, first_line)
        except AgentFileError:
            raise strict from None  # the first complaint is about what the author wrote
        notes = tuple(
            (first_line + number, f"the value of {key!r} is not YAML and was read as text. Put it in quotes")
            for number, key in changed
        )
        return fields, places, notes + warnings


def _quote_plain_values(source: str) -> tuple[str, list[tuple[int, str]]]:
    lines, changed = source.split("\n"), []
    for number, line in enumerate(lines):
        entry = _PLAIN_ENTRY.match(line)
        if entry and _NEEDS_QUOTES.search(entry["value"]):
            value = entry["value"].rstrip().replace("'", "''")
            lines[number] = f"{entry['key']}: '{value}'"
            changed.append((number, entry["key"]))
    return "\n".join(lines), changed


def _parse(source: str, first_line: int) -> _Parsed:
    try:
        _refuse_alias_bombs(source)
        fields, places, warnings = _construct(source, first_line)
    except AgentFileError as error:
        raise AgentFileError(str(error), line=error.line or first_line) from None
    except _FAULTS as error:
        line, reason = _place_and_reason(error)
        raise AgentFileError(f"the front matter is not valid YAML: {reason}", line=first_line + line) from None
    return fields, places, warnings


def _refuse_alias_bombs(source: str) -> None:
    if "*" not in source:
        return
    aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(source, Loader=_Loader))
    if aliases > _MAX_ALIASES:
        raise AgentFileError(
            f"the front matter has {aliases} YAML aliases, at most {_MAX_ALIASES} are read. Write the values out"
        )


def _construct(source: str, first_line: int) -> _Parsed:
    loader = _Loader(source)
    try:
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise AgentFileError("the front matter must hold 'key: value' lines, at least 'name:' and 'description:'")
        places: dict[str, int] = {}
        warnings = []
        for key, _ in root.value:
            name, line = str(key.value), first_line + key.start_mark.line
            if name in places:
                warnings.append((line, f"{name!r} was already given in line {places[name]}; this one counts"))
            places[name] = line
        return loader.construct_document(root), places, tuple(warnings)
    finally:
        loader.dispose()


def _place_and_reason(error: Exception) -> tuple[int, str]:
    """Return the line, from 0 within the front matter, and the reason."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        hint = " (YAML indents with spaces, not with tabs)" if "cannot start any token" in reason else ""
        return (mark.line if mark else 0), reason.replace("\n", " ") + hint
    if isinstance(error, RecursionError):
        return 0, "it is nested too deeply"
    return 0, str(error).replace("\n", " ") or type(error).__name__
