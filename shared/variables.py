"""Session variables: what one may be called, and what it may hold."""

import json
import re
from collections.abc import Mapping
from typing import Any

from ekiden.shared.storable import MAX_DEPTH, nests_too_deep

__all__ = ["problem_of", "value_at"]

_NAME = re.compile(r"[\w.-]{1,100}")
_MAX_VALUE = 16_384
"""Characters of a value's JSON."""


def problem_of(name: str, value: Any) -> str | None:
    """Say why a variable cannot be kept, for whoever sets it; None when it can. ``value`` None takes it away."""
    if not _NAME.fullmatch(name):
        return f"a variable's name is 1-100 letters, digits or any of _ . -, not {name!r}"
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        return f"the value of {name!r} must be JSON: {error}"
    if nests_too_deep(value):
        return f"the value of {name!r} has more than {MAX_DEPTH} levels of lists and objects in each other"
    if size > _MAX_VALUE:
        return f"the value of {name!r} takes {size:,} characters as JSON: {_MAX_VALUE:,} are the most"
    return None


def value_at(value: Any, path: str) -> Any:
    """Return what stands at a dotted path (``files.0.name``), or None; a name with dots in it goes before a path."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in filter(None, path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and len(step) < 10 and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
