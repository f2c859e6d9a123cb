"""What text and JSON must be like so that everybody can keep it, send it and show it.

They are made so once, where they come in: a model's reply, a tool's result, a user's request. Journal, live stream and
trace rely on it.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

__all__ = ["MAX_DEPTH", "nests_too_deep", "read_json", "storable"]

MAX_DEPTH = 64
"""Levels of lists and objects in each other: pydantic reads 200, Python fails at 1,000, CEL and Gemini before both."""


def storable(value: Any) -> Any:
    """Return text, or JSON with all text in it, as UTF-8 can hold it.

    The halves of a surrogate pair, which a stream may have cut, are joined; a lone one becomes U+FFFD. JSON must not
    nest too deep.
    """
    match value:
        case str():
            return _text(value)
        case dict():
            return {storable(key): storable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [storable(inner) for inner in value]
        case _:
            return value


def read_json(text: str, *, may_repeat: bool = False) -> Any:
    """Return what JSON from outside says, storable.

    Raises ``ValueError`` if it is none, nests too deep, or an object has a name twice: of two limits only one would
    count. ``may_repeat``: then the last one does.
    """
    with suppress(RecursionError):
        if not nests_too_deep(value := json.loads(text, object_pairs_hook=dict if may_repeat else _unique)):
            return storable(value)
    raise ValueError(f"it has more than {MAX_DEPTH} levels of lists and objects in each other")


def nests_too_deep(value: Any) -> bool:
    """Tell whether lists and objects (without cycles) stand in each other in more than ``MAX_DEPTH`` levels."""
    level, depth = _containers([value]), 1
    while level and depth <= MAX_DEPTH:
        inner = (one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer))
        level, depth = _containers(inner), depth + 1
    return bool(level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.80} stands there twice, and only one would count: remove one")
        found[name] = value
    return found


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list | tuple)]


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
