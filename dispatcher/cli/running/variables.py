"""``--state key=value``: session variables that a request sets."""

import json
from collections.abc import Sequence
from typing import Any

from ekiden.dispatcher.requests import checked_state
from ekiden.shared.errors import InvalidRequest

__all__ = ["variables_of"]


def variables_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Return the variables by name; a value that is JSON is read as such, any other is text.

    Raises ``InvalidRequest``; where a name is given twice, the last one counts.
    """
    found: dict[str, Any] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"--state {pair!r} has no '=': give a name and a value, as in --state ticket=4711")
        found[name] = _value(value)
    return checked_state(found)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return text


def _no_json(word: str) -> None:
    """Refuse what Python reads and JSON does not know: NaN and the infinities."""
    raise ValueError(word)
