"""JSON Schemas that agent files declare, and what is wrong with a value by one of them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from shared.errors import DefinitionError

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


_LONG = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")


def check(schema: Mapping[str, Any]) -> None:
    """Raise ``DefinitionError`` unless ``schema`` is a JSON Schema (2020-12) that needs nothing from elsewhere.

    Patterns are RE2's, and there are no ``patternProperties``: what a model says is never matched for minutes.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
        for part in _parts(schema):
            _check_part(part, schema)
    except SchemaError as error:
        where = ".".join(map(str, error.path)) or "the whole"
        raise DefinitionError(f"no JSON Schema: at {where}, {_shortened(error.message)}") from None
    except RecursionError:
        raise DefinitionError("no JSON Schema: it is nested too deeply") from None


def problems(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with ``value`` (JSON): at most ten lines in the order of the value, each with its path."""
    from referencing import Registry

    registry: Registry[Any] = Registry()  # knows nothing, so that nothing is fetched
    found = _validator()(schema, registry=registry).iter_errors(value)
    try:
        return [
            _told(one) for one in sorted(islice(found, MOST_SORTED), key=lambda one: _place(one, value))[:MOST_PROBLEMS]
        ]
    except Exception as error:  # of a schema that refers to itself without end, or that nobody has checked
        return [f"the whole: its JSON Schema cannot be applied to it ({_shortened(str(error))})"]


def _check_part(part: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check what the library finds out when it validates only: references and patterns."""
    import re2
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if "patternProperties" in part:
        raise DefinitionError("'patternProperties' is not available: name the properties, or use additionalProperties")
    for ref in (part[key] for key in ("$ref", "$dynamicRef") if key in part):
        if not ref.startswith("#"):
            raise DefinitionError(f"'$ref' must point into the schema itself ('#/$defs/...'), not to {ref!r}")
        try:
            Registry[Any]().resolver_with_root(DRAFT202012.create_resource(schema)).lookup(ref)
        except Unresolvable:
            raise DefinitionError(f"'$ref' points to {ref!r}, which the schema does not have") from None
    try:
        _pattern(part.get("pattern", ""))
    except re2.error:
        said = f"pattern {part['pattern']!r} is not a regular expression of RE2"
        raise DefinitionError(f"{said}, which has no look-around and no back-references") from None


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the schema and the schemas in it; not what only looks like one, such as a default."""
    from referencing.jsonschema import DRAFT202012

    if isinstance(schema, Mapping):
        yield schema
        for part in DRAFT202012.subresources_of(schema):
            yield from _parts(part)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def check_pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> "Iterator[ValidationError]":
        if isinstance(value, str) and not _pattern(pattern).search(value.encode("utf-8", "replace")):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    return extend(Draft202012Validator, {"pattern": check_pattern})  # type: ignore[no-untyped-call]  # nor is its stub


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Any:
    """Compile for RE2, which is linear in the text: Python's engine would take minutes for some pairs of both."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _place(error: "ValidationError", value: Any) -> list[int]:
    """Return where in ``value`` a problem is, in a form that sorts in the order of the document."""
    place = []
    for step in error.absolute_path:
        place.append(step if isinstance(step, int) else list(value).index(step))
        value = value[step]
    return place


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
