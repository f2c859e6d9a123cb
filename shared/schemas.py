"""JSON Schemas that agent files declare, and what is wrong with a value by one of them.

A file writes the schema, a model the value, so both are bounded: the schema when it is loaded (its size, where its
references lead, how often they multiply), and what a check costs while it runs, step by step.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

from ekiden.shared.errors import DefinitionError, TooCostly
from ekiden.shared.patterns import Pattern, compile_pattern
from ekiden.shared.schema_formats import FORMATS, has_format
from ekiden.shared.step_limits import limited, spend
from ekiden.shared.subschemas import check_references, parts_of
from ekiden.shared.suggestions import nearest

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

__all__ = ["check", "problems"]

MOST_PROBLEMS = 10
MOST_SORTED = 1_000
"""Problems among which the first ones are looked for."""
MOST_SHOWN = 60
"""Characters of a value that a problem shows."""
MOST_SAID = 300
"""Characters of a problem."""
MAX_DEPTH = 100
"""Levels of a schema; of a value, what Python's stack allows."""
SCHEMA_ENTRIES, SCHEMA_TEXT = 5_000, 200_000
"""Values in a schema, and characters in it."""
VALUE_ENTRIES, VALUE_TEXT = 50_000, 1_000_000
"""Values in what is checked, and characters in it."""

_LONG = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")
_UNAVAILABLE = {
    "patternProperties": "name the properties, or use additionalProperties",
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), "use additionalProperties or items"),  # quadratic
    "$dynamicRef": "use '$ref': '#/$defs/...'",
    "$dynamicAnchor": "use '$defs'",
    "$anchor": "use '$defs'",
    "$recursiveRef": "use '$ref': '#/$defs/...'",
}
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_AT_THE_ROOT = ("$schema", "$id")
"""Say which dialect and which document: there is one of each here."""


class _NoJson(DefinitionError):
    """A value holds what Python has for a number, and JSON has not."""


def check(schema: Mapping[str, Any], *, formats: bool = False) -> None:
    """Raise ``DefinitionError`` unless ``schema`` is a JSON Schema (2020-12) that needs nothing from elsewhere.

    Patterns are RE2's, there are no ``patternProperties``, and its references multiply no more than
    ``subschemas.MOST_APPLIED`` allows: what a model says is never checked for minutes. ``formats``: a ``format`` that
    is not known here is an error, too, as it would not be checked.
    """
    _check_size(schema, SCHEMA_ENTRIES, SCHEMA_TEXT, MAX_DEPTH)
    if _is_plain(schema):
        return
    from jsonschema import Draft202012Validator  # a tenth of a second
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
        _check_parts(schema)
        if formats:
            _check_formats(schema)
    except SchemaError as error:
        where = ".".join(map(str, error.path)) or "the whole"
        why = _no_type(error.instance) if error.validator == "anyOf" and where.endswith("type") else ""
        raise DefinitionError(f"no JSON Schema: at {where}, {why or _shortened(error.message)}") from None
    except RecursionError:
        raise DefinitionError("no JSON Schema: it is nested too deeply") from None


def _no_type(said: object) -> str:
    """Say which types there are, in the place of one that is none; empty: it is another mistake."""
    if not isinstance(said, str) or said in _TYPES:
        return ""
    near = nearest(said, _TYPES, n=1)
    advice = f". Did you mean {near[0]!r}?" if near else ""
    return f"{said!r:.80} is no type: there are {', '.join(_TYPES)}{advice}"


def _is_plain(schema: object) -> bool:
    """Tell whether ``schema`` is one of the many that are seen to be right without the library."""
    if not isinstance(schema, Mapping):
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.keys() <= {"type", "description", "properties", "required", "items"}
        and schema.get("type", "object") in _TYPES
        and isinstance(schema.get("description", ""), str)
        and isinstance(properties, Mapping)
        and all(isinstance(name, str) and _is_plain(one) for name, one in properties.items())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
        and len(set(required)) == len(required)
        and ("items" not in schema or _is_plain(schema["items"]))
    )


def problems(value: Any, schema: Mapping[str, Any], *, formats: bool = False) -> list[str]:
    """Return what is wrong with ``value`` (JSON): at most ten lines in the order of the value, each with its path.

    ``formats``: the ``format`` of texts is checked as well, where ``schema_formats`` knows it.

    On an event loop, call it within ``step_limits.run_limited``. Raises ``TooCostly`` where a second try has more.
    """
    with limited() as limit:
        try:
            _check_size(value, VALUE_ENTRIES, VALUE_TEXT)
            found = _prepared(_as_text(schema), formats=formats).iter_errors(value)
            places = _Places(value)
            return [_told(one) for one in sorted(islice(found, MOST_SORTED), key=places.of)[:MOST_PROBLEMS]]
        except TooCostly:
            if not limit.is_final:
                raise
            return ["the whole: to check it by its JSON Schema takes too long: give less, or something simpler"]
        except _NoJson as error:
            return [f"the whole: {error}"]
        except Exception as error:  # of a schema that nobody has checked, or a value without bottom
            return [f"the whole: its JSON Schema cannot be applied to it ({_shortened(str(error))})"]


def _check_parts(schema: Mapping[str, Any]) -> None:
    """Check what the library finds out when it validates only, or never."""
    for part in parts_of(schema):
        for keyword in _UNAVAILABLE.keys() & part.keys():
            raise DefinitionError(f"{keyword!r} is not available: {_UNAVAILABLE[keyword]}")
        if part is not schema and (inner := [key for key in _AT_THE_ROOT if key in part]):
            raise DefinitionError(f"{inner[0]!r} may stand at the root of a schema only: leave it out")
        if isinstance(part.get("pattern"), str):
            compile_pattern(part["pattern"])
    check_references(schema)


def _check_formats(schema: Mapping[str, Any]) -> None:
    unknown = next((part["format"] for part in parts_of(schema) if part.get("format", "date") not in FORMATS), None)
    if unknown is not None:
        raise DefinitionError(f"the format {unknown!r} cannot be checked: there are {', '.join(FORMATS)}")


def _check_size(value: Any, entries: int, text: int, depth: int | None = None) -> None:
    """Raise ``DefinitionError`` for more values, characters or levels than these; names of objects count as values."""
    waiting = [(0, value)]
    too_large = f"it is too large: at most {entries:,} values and {text:,} characters are looked at"
    while waiting:
        level, one = waiting.pop()
        text -= len(one) if isinstance(one, str) else 0
        inside = [*one, *one.values()] if isinstance(one, Mapping) else one if isinstance(one, list | tuple) else ()
        entries -= len(inside)
        spend(len(inside) // 32)
        if isinstance(one, float) and not isfinite(one):
            raise _NoJson("NaN and the infinities are no JSON: give a number, or null")
        if entries < 0 or text < 0:
            raise DefinitionError(too_large)
        if depth is not None and level > depth:
            raise DefinitionError("no JSON Schema: it is nested too deeply")
        waiting += [(level + 1, inner) for inner in inside]


def _as_text(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    spend(len(text) // 256)
    return text


@lru_cache(maxsize=128)
def _prepared(text: str, *, formats: bool) -> Any:
    """Return the validator of a schema, also of one that was stored before it was checked."""
    from referencing import Registry

    schema = json.loads(text)
    _check_parts(schema)
    registry: Registry[Any] = Registry()  # knows nothing, so that nothing is fetched
    return _validator(formats=formats)(
        {key: value for key, value in schema.items() if key not in _AT_THE_ROOT}, registry=registry
    )


@cache
def _validator(*, formats: bool) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checks = dict(Draft202012Validator.VALIDATORS) | {"pattern": _check_pattern, "uniqueItems": _check_unique}
    if formats:
        checks["format"] = _check_format
    return extend(Draft202012Validator, {key: _counted(one) for key, one in checks.items()})  # type: ignore[no-untyped-call]  # nor is its stub


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    """Count a step for each keyword that is applied, more for a long one, for a long value and for a long complaint."""

    def run(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator["ValidationError"]:
        spend(1 + (_length(wanted) + _length(value)) // 8)
        for error in check(validator, wanted, value, schema) or ():
            spend(4 + len(error.message) // 512)  # many would hold the loop even from a thread: as garbage
            yield error

    return run


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _check_pattern(_validator: Any, wanted: str, value: Any, _schema: Any) -> Iterator["ValidationError"]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(value, str):
        return
    pattern, text = _pattern(wanted), value.encode("utf-8", "replace")
    spend(pattern.programsize * len(text) // 512)
    if not pattern.search(text):
        yield ValidationError(f"{value!r} does not match {wanted!r}")


def _check_format(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator["ValidationError"]:
    from jsonschema.exceptions import ValidationError

    if wanted in FORMATS and not has_format(wanted, value):
        yield ValidationError(f"{value!r} is not a {wanted!r}")


_pattern: Callable[[str], Pattern] = lru_cache(maxsize=256)(compile_pattern)


def _check_unique(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator["ValidationError"]:
    """Compare by text: the library compares each entry with all before it."""
    from jsonschema.exceptions import ValidationError

    seen: set[str] = set()
    for entry in value if wanted and isinstance(value, list) else ():
        text = json.dumps(_plain(entry), sort_keys=True)
        spend(1 + len(text) // 64)
        if text in seen:
            yield ValidationError(f"{value!r} has non-unique elements")
            return
        seen.add(text)


def _plain(value: Any) -> Any:
    """Write what is equal in JSON in one way: 1 and 1.0."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case _:
            return value


class _Places:
    """Where in a value its problems are, in a form that sorts in the order of the document."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._orders: dict[int, dict[str, int]] = {}

    def of(self, error: "ValidationError") -> list[int]:
        place, value = [], self._value
        for step in error.absolute_path:
            place.append(step if isinstance(step, int) else self._order(value)[step])
            value = value[step]
        return place

    def _order(self, value: Mapping[str, Any]) -> dict[str, int]:
        if id(value) not in self._orders:
            self._orders[id(value)] = {name: at for at, name in enumerate(value)}
        return self._orders[id(value)]


def _told(error: "ValidationError") -> str:
    from jsonschema.exceptions import best_match

    nearest = best_match([error]) or error  # of several alternatives, the one that was probably meant
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in nearest.absolute_path)
    shown = repr(nearest.instance)  # which the library's sentence begins with
    said = nearest.message
    if len(shown) > MOST_SHOWN:
        said = said.replace(shown, f"{shown[:MOST_SHOWN]}…", 1)
    return _shortened(f"{path.removeprefix('.') or 'the whole'}: {said}")


def _shortened(text: str) -> str:
    text = _LONG.sub(lambda run: f"{run[0][:MOST_SHOWN]}…", text)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"
