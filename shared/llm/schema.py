"""What providers accept as a tool's name and parameters, and the way there and back."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["MAX_NAME", "WireNames", "accepted_schema", "wire_name"]

MAX_NAME = 64
"""Characters. Vertex AI and OpenAI refuse longer names; AI Studio takes 128."""

_ACCEPTED = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}")
_NAMESPACE = re.compile(r"^default_api[:.]")
_DIGITS = 6
_UNSUPPORTED = ("$schema", "$comment")


def wire_name(name: str) -> str:
    """Return ``name`` if every provider accepts it, else a readable name that ends in digits of its SHA-256.

    The same for every request, so that calls in the history keep their name when the tools change.
    """
    if _ACCEPTED.fullmatch(name):
        return name
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    stem = stem if re.match(r"[A-Za-z_]", stem) else f"tool_{stem}"
    digits = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{stem[: MAX_NAME - _DIGITS - 1].rstrip('_')}_{digits}"


class WireNames:
    """The names of one request's tools, both ways."""

    def __init__(self, names: Iterable[str]) -> None:
        self._name_by_wire = {wire_name(name): name for name in names}

    def original(self, wire: str) -> str:
        """Return the tool that the model means by ``wire``; a name that it made up is returned as it is.

        Gemini sometimes writes the namespace of its own training before a name (``default_api:read_file``).
        """
        bare = _NAMESPACE.sub("", wire)
        return self._name_by_wire.get(wire) or self._name_by_wire.get(bare) or wire


def accepted_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema of type object that Gemini's ``parametersJsonSchema`` accepts and understands.

    Beside ``$ref`` no other keyword may stand, ``const`` and ``allOf`` are not known: they are put into the words
    that are (``anyOf``, ``enum``). See https://ai.google.dev/api/caching#FunctionDeclaration.
    """
    accepted = _accepted(_resolved(schema))
    accepted["type"] = "object"
    accepted.setdefault("properties", {})
    return accepted


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``schema`` with what a ``$ref`` at its root leads to, as the schema of recursive arguments begins.

    A reference to the root itself, or in a circle, says nothing: it is left out.
    """
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = {} if ref in seen else _target(schema, ref)
        seen.add(ref)
        schema = {**target, **beside}
    return schema


def _target(root: Mapping[str, Any], ref: str) -> Mapping[str, Any]:
    found: Any = root
    for part in ref.removeprefix("#/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: _inner(key, value) for key, value in schema.items() if key not in _UNSUPPORTED}
    if "const" in kept:
        kept.setdefault("enum", [kept.pop("const")])
    parts = kept.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and not kept.keys() & parts[0].keys():
        kept = {**kept, **parts[0]}
        del kept["allOf"]
    if "$ref" in kept and any(not key.startswith("$") for key in kept):
        kept["anyOf"] = [{"$ref": kept.pop("$ref")}]
    return kept


def _inner(key: str, value: Any) -> Any:
    """Descend where a keyword holds schemas; never into ``default``, ``enum`` or ``example``, which hold data."""
    if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
        return {name: _accepted(one) if isinstance(one, Mapping) else one for name, one in value.items()}
    if key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return _accepted(value)
    if key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [_accepted(one) if isinstance(one, Mapping) else one for one in value]
    return value
