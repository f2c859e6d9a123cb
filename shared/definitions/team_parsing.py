"""The forms that files use for what joins agents: handoffs, sub-agents, inputs and outputs.

==========  ==============================================================================================
field       forms
==========  ==============================================================================================
handoffs    a list of names or of ``{to, when, ...}``, comma text
when        ``manual``, ``auto``, or a condition of a manual handoff; ``conditional`` with ``condition``
payload     a JSON Schema, or ``{schema: {...}}``
return      ``true``; also ``returns``
subagents   a list of names or of ``{agent, timeout, description}``, comma text; also ``name`` and ``to``
inputs      name to ``{type, required, description, default, ...}``
==========  ==============================================================================================

All raise ``DefinitionError`` with what is wrong and what is allowed; the field is named by the caller.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from ekiden.shared.conditions import Condition
from ekiden.shared.definitions.model import InputField
from ekiden.shared.errors import DefinitionError
from ekiden.shared.schemas import check, problems

__all__ = ["FORMS"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MOST_AGENTS = 500
_TYPES = get_args(InputField.model_fields["type"].annotation)
_OWN_KEYS = ("type", "required", "description", "default")
_PATH = re.compile(r"[^.\s]+(\.[^.\s]+)*")


def _handoffs(value: Any) -> list[dict[str, Any]]:
    return _distinct("to", [_handoff(item) for item in _few(value)])


def _handoff(item: Any) -> dict[str, Any]:
    rule = _naming("to", item, ("agent",), "each entry names its target ('to: reviewer')")
    where = f"the handoff to {rule['to']!r}"
    if "payload" in rule:
        rule["payload"] = _payload(rule["payload"], where)
    if "return" in rule:
        rule.setdefault("returns", rule.pop("return"))
    if not isinstance(rule.get("returns", False), bool):
        raise DefinitionError(f"'return' of {where} must be true or false, not {rule['returns']!r}")
    _check_context(rule.get("include_context", True))
    return rule | _occasion(rule, where)


def _occasion(rule: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return ``when`` and ``condition`` as the model has them."""
    when, condition = rule.get("when", "manual"), rule.get("condition", "")
    if not isinstance(when, str) or not when.strip():
        raise DefinitionError(f"'when' of {where} must be manual, auto or a condition, not {when!r}; put it in quotes")
    if not isinstance(condition, str):
        raise DefinitionError(f"'condition' of {where} must be text, not {condition!r}; put it in quotes")
    when, condition = when.strip(), condition.strip()
    if when == "conditional" and not condition:
        raise DefinitionError(f"{where} is conditional and needs a 'condition'")
    if when not in ("manual", "auto", "conditional"):
        if condition:
            raise DefinitionError(f"{where} has two conditions, 'when: {when}' and 'condition': leave one out")
        when, condition = "manual", when
    if condition:
        _checked(where, lambda: Condition.parse(condition))
    return {"when": "auto" if when == "auto" else "manual", "condition": condition}


def _check_context(value: Any) -> None:
    match value:
        case bool() | "summary":
            return
        case {"last": int(last), **others} if not others and not isinstance(last, bool) and last >= 1:
            return
    raise DefinitionError(
        f"'include_context' must be true, false, {{last: N}} or summary, not {value!r}; N turns, at least 1"
    )


def _payload(value: Any, where: str) -> dict[str, Any]:
    schema = value.get("schema", value) if isinstance(value, Mapping) else value
    if not isinstance(schema, Mapping):
        raise DefinitionError(f"'payload' of {where} must be a JSON Schema or {{schema: ...}}, not {value!r}")
    if schema.get("type", "object") != "object":
        raise DefinitionError(f"'payload' of {where} must describe an object, not type {schema['type']!r}")
    _checked(f"'payload' of {where}", lambda: check(schema))
    return {"type": "object", **schema}


def _subagents(value: Any) -> list[dict[str, Any]]:
    said = "each entry names its agent ('- reviewer' or '- agent: reviewer')"
    return _distinct("agent", [_naming("agent", item, ("name", "to"), said) for item in _few(value)])


def _delegation(value: Any) -> dict[str, Any]:
    return _given(_object(value, "{join: all, timeout: 600, max_children: 5}"))


def _inputs(value: Any) -> dict[str, dict[str, Any]]:
    fields = _object(value, "{objective: {type: string, required: true}}")
    return {name: _input(name, field) for name, field in fields.items()}


def _input(name: Any, field: Any) -> dict[str, Any]:
    _check_name(name, "the input")
    if not isinstance(field, Mapping | None):
        raise DefinitionError(f"{name!r} must be an object such as {{type: string, required: true}}, not {field!r}")
    read = _given(field or {})
    schema = {key: value for key, value in read.items() if key not in _OWN_KEYS}
    if schema:
        _checked(repr(name), lambda: check(schema))
    kind = read.get("type", "string")
    if "default" in read and kind in _TYPES:  # the model refuses other types
        for problem in problems(read["default"], {**schema, "type": kind}):
            raise DefinitionError(f"the default of {name!r} does not fit: {problem}")
    return read


def _output(value: Any) -> dict[str, Any]:
    output = _given(_object(value, "{name: report, schema: {type: object}}"))
    if "name" in output:
        _check_name(output["name"], "'name'")
    if not isinstance(output.get("schema", {}), Mapping):
        raise DefinitionError(f"'schema' must be a JSON Schema, not {output['schema']!r}")
    _checked("'schema'", lambda: check(output.get("schema", {})))
    for variable, path in _object(output.get("state", {}), "{variable: path.in.the.output}", "'state' ").items():
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            raise DefinitionError(
                f"state variable {variable!r} needs a path in the output ('files.changed'), not {path!r}"
            )
    return output


FORMS: dict[str, Callable[[Any], Any]] = {
    "handoffs": _handoffs,
    "subagents": _subagents,
    "delegation": _delegation,
    "inputs": _inputs,
    "output": _output,
}
"""Field to the function that reads it."""


def _few(value: Any) -> list[Any]:
    """Return a list of agents, each of which is looked at in every turn."""
    items = _listed(value)
    if len(items) > _MOST_AGENTS:
        raise DefinitionError(f"it names {len(items):,} agents, {_MOST_AGENTS} are the most")
    return items


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    return value if isinstance(value, list) else [] if value is None else [value]


def _naming(key: str, item: Any, others: Iterable[str], said: str) -> dict[str, Any]:
    """Return an entry of a list as a mapping whose ``key`` is an agent's name."""
    entry = {key: item} if isinstance(item, str) else _given(item) if isinstance(item, Mapping) else {}
    for other in others:
        if key not in entry and other in entry:
            entry[key] = entry.pop(other)
    if not isinstance(entry.get(key), str) or not entry[key].strip():
        raise DefinitionError(f"{said}, this one does not: {item!r}")
    return entry | {key: entry[key].strip()}


def _distinct(key: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    for entry in entries:
        if entry[key] in seen:
            raise DefinitionError(f"{entry[key]!r} is listed twice; merge the two entries")
        seen.add(entry[key])
    return entries


def _object(value: Any, example: str, where: str = "") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{where}must be an object such as {example}, not {value!r}")
    return value


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _checked(where: str, look: Callable[[], object]) -> None:
    try:
        look()
    except DefinitionError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(f"{what} {name!r} must be a name of ASCII letters, digits and '_', 64 at most")
