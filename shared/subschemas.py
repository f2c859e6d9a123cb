"""The schemas inside a JSON Schema (2020-12): all of them, where references lead, how often each is applied."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ekiden.shared.errors import DefinitionError

__all__ = ["MOST_APPLIED", "SchemaEmbedder", "check_references", "parts_of"]

MOST_APPLIED = 20_000
"""Schemas that one value may be held against, by every path of references and alternatives."""

_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords that apply schemas to the value itself; the others go to what is in it."""
_INSIDE = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "prefixItems", "contains", "unevaluatedItems"),
)
_APART = ("$defs", "definitions")
"""Apply nothing by themselves."""
_BY_NAME = frozenset({"dependentSchemas", "patternProperties", "properties", *_APART})
_OF_A_ROOT = ("$schema", "$id", "$comment", *_APART)


def parts_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the schema and the schemas in it; not what only looks like one, such as a default."""
    if isinstance(schema, Mapping):
        yield schema
        for keyword in (*_SAME_VALUE, *_INSIDE, *_APART):
            for part in _below(schema, keyword):
                yield from parts_of(part)


def check_references(schema: Mapping[str, Any]) -> None:
    """Raise ``DefinitionError`` for a reference that leads nowhere, in a round, or to too much work.

    The work is how often schemas are applied to one value, along every path: ten references in each of seven levels are
    ten million. Recursion (a tree's nodes) counts once here: how deep it goes is up to the value.
    """
    applied = _Applied(schema).count(schema)
    if applied > MOST_APPLIED:
        raise DefinitionError(
            f"it would be applied {applied:,} times to one value, {MOST_APPLIED:,} are the most: its references and "
            "alternatives multiply. Let fewer of them lead to the same parts"
        )


class SchemaEmbedder:
    """Takes schemas into another one: what their references lead to moves to the common ``$defs``.

    A reference counts from the root of its document, so a schema that is put below another one would lose its own.
    """

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}
        self._names: dict[tuple[int, str], str] = {}

    @property
    def shared(self) -> dict[str, Any]:
        """What stands beside ``properties`` at the root: ``$defs``, or nothing."""
        return {"$defs": self._shared} if self._shared else {}

    def taken(self, part: Any, root: Any) -> Any:
        """Return ``part`` as it stands in the new document; its references are those of ``root``."""
        if not isinstance(part, Mapping):
            return part
        return {key: self._value(key, value, root) for key, value in part.items() if key not in _OF_A_ROOT}

    def _value(self, key: str, value: Any, root: Any) -> Any:
        if key == "$ref":
            return self._reference(value, root)
        if key in _BY_NAME and isinstance(value, Mapping):
            return {name: self.taken(part, root) for name, part in value.items()}
        if key in _SAME_VALUE or key in _INSIDE:
            return [self.taken(part, root) for part in value] if isinstance(value, list) else self.taken(value, root)
        return value

    def _reference(self, ref: Any, root: Any) -> Any:
        try:
            target = _target(ref, root)
        except DefinitionError:
            return ref  # of a schema that nobody has checked: it accepts nothing
        if (id(root), ref) not in self._names:
            name = self._names[id(root), ref] = self._free_name(ref)
            self._shared[name] = {}  # taken, for what it refers to
            self._shared[name] = self.taken(target, root)
        return f"#/$defs/{self._names[id(root), ref]}"

    def _free_name(self, ref: str) -> str:
        name = re.sub(r"\W", "_", ref.rpartition("/")[2].removeprefix("#")) or "Root"
        number = sum(one == name or one.startswith(f"{name}_") for one in self._shared)
        return f"{name}_{number}" if number else name


class _Applied:
    """Counts how often schemas are applied to one value, each schema once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._open: dict[int, int] = {}

    def count(self, part: Any, depth: int = 0) -> int:
        """Return the times for ``part``, which is applied ``depth`` levels inside the value."""
        if not isinstance(part, Mapping):
            return 1
        key = id(part)
        if self._open.get(key) == depth:
            raise DefinitionError("its references go in a round, so that it never ends")
        if key in self._open:
            return 1
        if key not in self._known:
            self._open[key] = depth
            self._known[key] = self._below(part, depth)
            del self._open[key]
        return self._known[key]

    def _below(self, part: Mapping[str, Any], depth: int) -> int:
        here = [inner for keyword in _SAME_VALUE for inner in _below(part, keyword)]
        here += [_target(part[key], self._root) for key in ("$ref",) if key in part]
        inside = [inner for keyword in _INSIDE for inner in _below(part, keyword)]
        return 1 + sum(self.count(one, depth) for one in here) + sum(self.count(one, depth + 1) for one in inside)


def _below(part: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the schemas under a keyword; none where it holds none."""
    value = part.get(keyword)
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping):
        return []
    return list(value.values()) if keyword in _BY_NAME else [value]


def _target(ref: Any, root: Any) -> Any:
    """Return what ``ref`` points to. Raises ``DefinitionError``."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        raise DefinitionError(f"'$ref' must point into the schema itself ('#/$defs/...'), not to {ref!r}")
    value = root
    for step in unquote(ref).split("/")[1:]:
        value = _step(value, step.replace("~1", "/").replace("~0", "~"))
        if value is None:
            raise DefinitionError(f"'$ref' points to {ref!r}, which the schema does not have")
    return value


def _step(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    is_place = isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value)
    return value[int(name)] if is_place else None
