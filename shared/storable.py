"""What text and JSON must be like so that everybody can keep it, send it and show it.

They are made so once, where they come in: a model's reply, a tool's result, a user's request. Journal, live stream and
trace rely on it.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from typing import Any, NoReturn

__all__ = ["MAX_DEPTH", "has_nan", "nests_too_deep", "read_json", "storable", "strict_json"]

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


def read_json(text: str, *, lenient: bool = False) -> Any:
    """Return what JSON from outside says, storable.

    Raises ``ValueError`` if it is none, nests too deep, or an object has a name twice: of two limits only one would
    count. ``lenient``: then the last one does, and what Python takes for a number is one; for guards, which read what
    others may read so.
    """
    with suppress(RecursionError):
        if not nests_too_deep(value := json.loads(text) if lenient else strict_json(text, object_pairs_hook=_unique)):
            return storable(value)
    raise ValueError(f"it has more than {MAX_DEPTH} levels of lists and objects in each other")


def strict_json(text: str, **how: Any) -> Any:
    """Return what ``text`` says as ``json.loads`` does, without NaN and what is beyond all numbers: both are no JSON.

    Written down again, they would be null. Raises ``ValueError``, ``RecursionError``.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, **how)


def has_nan(value: Any) -> bool:
    """Tell whether NaN or an infinity, which are no JSON, is in ``value``, of lists and objects without cycles."""
    level = [value]
    while level:
        if any(isinstance(one, float) and not isfinite(one) for one in level):
            return True
        level = [one for outer in _containers(level) for one in (outer.values() if isinstance(outer, dict) else outer)]
    return False


def nests_too_deep(value: Any) -> bool:
    """Tell whether lists and objects (without cycles) stand in each other in more than ``MAX_DEPTH`` levels."""
    level, depth = _containers([value]), 1
    while level and depth <= MAX_DEPTH:
        inner = (one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer))
        level, depth = _containers(inner), depth + 1
    return bool(level)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text:.40} is beyond all numbers that can be kept")
    return value


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
