"""Which calls an agent's file wants confirmed: ``confirmation`` or ``tool_confirmation``, also within ``tools``.

``{require: [tools], prompt_template, timeout}``; ``require_confirmation`` is the same as ``require``.
"""

from collections.abc import Mapping
from typing import Any

from ekiden.shared.definitions.fields import TOOLS, folded, keys_of
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.tool_names import forbidden_names, is_clear

__all__ = ["take_confirmation"]

_FIELDS = ("confirmation", "tool_confirmation")
_KEYS = {
    "require": "require",
    "requireconfirmation": "require",
    "prompttemplate": "prompt_template",
    "timeout": "timeout",
}
_EXPECTED = "write {require: [bash], prompt_template: …, timeout: <seconds>}"


def take_confirmation(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Take what says which calls are confirmed out of ``raw``, in the model's form; None: it says nothing.

    Raises ``AgentFileError`` for what would not be asked about as it stands there.
    """
    found = [(key, key, raw.pop(key)) for key in keys_of(raw, _FIELDS)]
    for name in keys_of(raw, TOOLS):
        if isinstance(rules := raw[name], Mapping):
            within = keys_of(rules, _FIELDS)
            found += [(name, f"{name}.{key}", rules[key]) for key in within]
            raw[name] = {key: value for key, value in rules.items() if key not in within}
    said = [(field, place, value) for field, place, value in found if value]
    if len(said) > 1:
        raise AgentFileError(f"{said[0][1]!r} stands beside {said[1][1]!r}: write it once", field=said[1][0])
    return _read(*said[0]) if said else None


def _read(field: str, place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise AgentFileError(f"{place!r} is {value!r:.80}: {_EXPECTED}", field=field)
    read: dict[str, Any] = {}
    for key, item in value.items():
        if (name := _KEYS.get(folded(key))) is None or name in read:
            raise AgentFileError(f"{place!r} has {key!r}, which is not known there, or twice: {_EXPECTED}", field=field)
        if item is not None:
            read[name] = item
    read["require"] = _tools(field, place, read.get("require"))
    return read


def _tools(field: str, place: str, value: Any) -> list[str]:
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list) or not entries or not all(isinstance(one, str) and one.strip() for one in entries):
        raise AgentFileError(f"{place!r} names no tools that are confirmed: {_EXPECTED}", field=field)
    for one in entries:
        if not is_clear(one.strip()):
            raise AgentFileError(f"{place!r} names {one!r}, which is no tool: {_EXPECTED}", field=field)
    return [name for one in entries for name in forbidden_names(one.strip())]
