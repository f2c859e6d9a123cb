"""Strict YAML, safely: no tags but the standard ones, bounded also where aliases expand, every fault with its line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ekiden.shared.definitions.fields import is_restricting, seems_restricting
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.yaml_scalars import as_written

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # the same interface, other bases

__all__ = ["Parsed", "YamlSyntaxError", "parse", "second_of"]

_MAX_ALIASES = 20  # with so few, nested aliases cannot expand to more than some thousand values
_MAX_CHARACTERS = 200_000
_MAX_VALUES = 10_000
# PyYAML's constructors let these escape for values such as ``!!bool x`` or ``2024-13-45``.
_FAULTS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
_HINTS = {
    "cannot start any token": "YAML indents with spaces, not with tabs",
    "constructor for the tag": "a text that begins with '!', such as a condition, is put in quotes",
    "did not find expected key": "a text that begins with a quote ends with one: put the whole of it in quotes",
}
"""What is meant, as a rule, by what YAML complains of."""
_SYNTAX = (yaml.scanner.ScannerError, yaml.parser.ParserError, yaml.composer.ComposerError)


class YamlSyntaxError(AgentFileError):
    """The text is no YAML: hand-written, it may still be meant as something."""


@dataclass(frozen=True)
class Parsed:
    """A mapping, taken apart."""

    fields: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each top-level field."""
    warnings: tuple[tuple[int, str], ...] = ()
    """Line and text."""


def parse(source: str, first_line: int) -> Parsed:
    """Read a YAML mapping whose text begins on ``first_line`` of its file.

    Raises:
        YamlSyntaxError: it is not YAML.
        AgentFileError: it is YAML, and no mapping, or one that is too large or not safe to read.
    """
    try:
        if len(source) > _MAX_CHARACTERS:
            raise AgentFileError(
                f"the front matter has {len(source):,} characters, at most {_MAX_CHARACTERS:,} are read. "
                "Long texts belong in the body"
            )
        _refuse_alias_bombs(source)
        found = _construct(source, first_line)
        _refuse_too_many(found)
        return found
    except AgentFileError as error:
        raise AgentFileError(str(error), line=error.line or first_line) from None
    except _FAULTS as error:
        line, reason = _place_and_reason(error)
        kind = YamlSyntaxError if isinstance(error, _SYNTAX) else AgentFileError
        raise kind(f"the front matter is not valid YAML: {reason}", line=first_line + line) from None


def second_of(key: str, line: int, first: int) -> str:
    """Return a warning of a field that a file has twice, in ``line`` and in the line ``first`` before it.

    Raises:
        AgentFileError: the field restricts, and one of the two would be lost.
    """
    if is_restricting(key) or seems_restricting(key):
        raise AgentFileError(f"{key!r} was already given in line {first}: only one would count. Remove one", line=line)
    return f"{key!r} was already given in line {first}; this one counts"


def _refuse_alias_bombs(source: str) -> None:
    if "*" not in source:
        return
    aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(source, Loader=_Loader))
    if aliases > _MAX_ALIASES:
        raise AgentFileError(
            f"the front matter has {aliases} YAML aliases, at most {_MAX_ALIASES} are read. Write the values out"
        )


def _refuse_too_many(found: Parsed) -> None:
    """Count the values as they are after the aliases are put in; the field with which they are too many is named."""
    left = _MAX_VALUES
    for name, value in found.fields.items():
        waiting = [value]
        while waiting and left >= 0:
            one = waiting.pop()
            inside = [*one, *one.values()] if isinstance(one, Mapping) else one if isinstance(one, list) else ()
            left -= len(inside)
            waiting += inside if left >= 0 else ()
        if left < 0:
            text = f"{name!r} is too large: at most {_MAX_VALUES:,} values are read from the front matter. Shorten it"
            raise AgentFileError(text, line=found.lines.get(str(name)))


def _construct(source: str, first_line: int) -> Parsed:
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
                warnings.append((line, second_of(name, line, places[name])))
            places[name] = line
        _refuse_twice(root, first_line)
        for name, number in as_written(root, source):
            warnings.append((first_line + number, f"the value of {name!r} was read as text. Put it in quotes"))
        return Parsed(loader.construct_document(root), places, tuple(warnings))
    finally:
        loader.dispose()


def _refuse_twice(root: yaml.MappingNode, first_line: int) -> None:
    """Refuse a key that an object within a field has twice: the last would count, be it what restricts or not."""
    waiting, seen = [value for _, value in root.value], {id(root)}
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        is_mapping = isinstance(node, yaml.MappingNode)
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)] if is_mapping else []
        waiting += [value for _, value in node.value] if is_mapping else node.value
        lines: dict[str, int] = {}
        for key in keys:
            line = first_line + key.start_mark.line
            if key.value in lines:
                text = (
                    f"{key.value!r:.60} was already given in line {lines[key.value]}: only one would count. Remove one"
                )
                raise AgentFileError(text, line=line)
            lines[key.value] = line


def _place_and_reason(error: Exception) -> tuple[int, str]:
    """Return the line, from 0 within the front matter, and the reason."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        hint = next((f" ({hint})" for said, hint in _HINTS.items() if said in reason), "")
        return (mark.line if mark else 0), reason.replace("\n", " ") + hint
    if isinstance(error, RecursionError):
        return 0, "it is nested too deeply"
    return 0, str(error).replace("\n", " ") or type(error).__name__
