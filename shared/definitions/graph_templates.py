"""Texts of graphs in which ``${expression}`` stands for a value; ``$${`` stands for ``${``."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ekiden.shared.conditions import Expression
from ekiden.shared.errors import DefinitionError

__all__ = ["expressions_in", "filled"]

_OPEN, _ESCAPED = "${", "$${"


def expressions_in(value: Any) -> list[str]:
    """Return the expressions in the texts of a JSON value. Raises ``DefinitionError`` where one does not end."""
    if isinstance(value, str):
        return [part for part, is_expression in _parts(value) if is_expression]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [expression for one in inside for expression in expressions_in(one)]


def filled(value: Any, variables: Mapping[str, Any], names: Collection[str]) -> Any:
    """Return ``value`` with each expression replaced by what it says.

    A text that is nothing but an expression becomes its value, of any type; within a text, values that are no text are
    written as JSON.

    Args:
        value: A JSON value.
        variables: Those of the expressions, by name.
        names: All that expressions may name.

    Raises:
        ConditionFailed: an expression has no value.
    """
    if isinstance(value, Mapping):
        return {key: filled(one, variables, names) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, variables, names) for one in value]
    if not isinstance(value, str) or _OPEN not in value:
        return value
    parts = [
        Expression.parse(part, names).value(variables) if is_expression else part
        for part, is_expression in _parts(value)
    ]
    return parts[0] if len(parts) == 1 else "".join(map(_written, parts))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, and whether each is an expression."""
    plain, at = "", 0
    while (found := text.find(_OPEN, at)) >= 0:
        if text.startswith(_ESCAPED, found - 1) and found > at:
            plain, at = plain + text[at : found - 1] + _OPEN, found + len(_OPEN)
            continue
        if plain := plain + text[at:found]:
            yield plain, False
        end = _end_of(text, found + len(_OPEN))
        yield text[found + len(_OPEN) : end].strip(), True
        plain, at = "", end + 1
    if plain := plain + text[at:]:
        yield plain, False


def _end_of(text: str, start: int) -> int:
    """Return where the brace closes that an expression stands in, past those of its own objects and texts."""
    depth, quote, at = 1, "", start
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char == "{") - (char == "}")
            if not depth:
                return at
        at += 1
    raise DefinitionError(f"{text[start - len(_OPEN) :]!r:.80} does not end: write '}}' behind the expression")
