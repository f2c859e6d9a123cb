"""Agent files are Markdown with YAML front matter between two lines of three dashes.

Strict YAML first. Hand-written files often hold ``description: Use for: this``, which YAML refuses; they get one
lenient retry, and a warning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ekiden.shared.definitions.lenient_yaml import parse_leniently
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.strict_yaml import Parsed, YamlSyntaxError, parse

__all__ = ["MAX_BYTES", "FrontMatter", "fences", "read_front_matter"]

MAX_BYTES = 1_000_000
"""No system prompt is longer; what is longer is not an agent file."""

_FENCE = re.compile(r"-{3,}\s*\Z")  # some editors' Markdown formatters lengthen the lines of dashes


@dataclass(frozen=True)
class FrontMatter:
    """An agent file, taken apart."""

    fields: Mapping[str, Any]
    body: str
    body_line: int
    """The line of the file, from 1, on which the body begins."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each top-level field."""
    warnings: tuple[tuple[int, str], ...] = ()
    """Line and text."""


@lru_cache(128)  # who checks a file reads it after those who load it, and what is written is read once before
def read_front_matter(text: str) -> FrontMatter:
    """Split a file's text into fields and body, which others get as well: they stay as they are.

    Raises:
        AgentFileError: there is no front matter, it does not end, or it is not YAML; with line, reason and remedy.
    """
    lines = text.split("\n")
    start, end = fences(lines)
    source = "".join(f"{line}\n" for line in lines[start + 1 : end])
    parsed = _parse_forgivingly(source, first_line=start + 2)
    body = "\n".join(lines[end + 1 :])
    padding = len(body) - len(body.lstrip("\n"))
    longer = [number for number in (start, end) if lines[number].rstrip() != "---"]
    warnings = [(number + 1, "this line has more than the three dashes that enclose front matter") for number in longer]
    return FrontMatter(parsed.fields, body.strip(), end + 2 + padding, parsed.lines, (*warnings[:1], *parsed.warnings))


def fences(lines: list[str]) -> tuple[int, int]:
    """Return the numbers, from 0, of the lines that enclose the front matter. Raises ``AgentFileError``."""
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.match(lines[start]):
        raise AgentFileError(
            "there is no front matter: the first line of an agent file is '---', then come 'name:' and 'description:'. "
            "Add it, or let the file's name begin with '_' to have it skipped",
            line=start + 1,
        )
    for number in range(start + 1, len(lines)):
        if _FENCE.match(lines[number]):
            return start, number
    raise AgentFileError("the front matter does not end: a second line '---' is missing. Add it", line=start + 1)


def _parse_forgivingly(source: str, first_line: int) -> Parsed:
    try:
        return parse(source, first_line)
    except YamlSyntaxError as strict:
        try:
            return parse_leniently(source, first_line)
        except YamlSyntaxError:
            raise strict from None  # the first complaint is about what the author wrote
