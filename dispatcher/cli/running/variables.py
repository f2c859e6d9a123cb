"""``--state key=value`` and ``--input key=value``: session variables that a request sets, inputs of its agent."""

from collections.abc import Sequence
from typing import Any

from ekiden.dispatcher.requests import checked_state
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.storable import strict_json

__all__ = ["inputs_of", "variables_of"]


def variables_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Return the variables by name; a value that is JSON is read as such, any other is text.

    Raises ``InvalidRequest``; where a name is given twice, the last one counts.
    """
    return checked_state({name: _value(value) for name, value in _pairs("--state", given).items()})


def inputs_of(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the inputs by name, as texts: the agent's file says what they are. None where none are given.

    Raises ``InvalidRequest`` for a name that is given twice, too.
    """
    if not given:
        return None
    found = _pairs("--input", given)
    if len(found) < len(given):
        raise InvalidRequest("the same --input is given twice: leave one out")
    return found


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"{option} {pair!r} has no '=': give a name and a value, as in {option} ticket=4711")
        found[name] = value
    return found


def _value(text: str) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        return text
