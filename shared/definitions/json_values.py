"""From what YAML can say to what JSON can say; digests are taken of JSON."""

import base64
import math
from collections.abc import Mapping, Set
from datetime import date
from typing import Any

from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.storable import MAX_DEPTH, nests_too_deep, storable

__all__ = ["json_value"]

_MAX_INT = 2**63


def json_value(value: Any) -> Any:
    """Turn dates, bytes, sets, endless numbers and the like into texts; everything else stays as it is.

    Raises:
        AgentFileError: the value contains itself, or nests too deep to be stored.
    """
    try:
        converted = _converted(value)
    except RecursionError:
        raise AgentFileError("the front matter contains itself (an alias inside its own anchor). Remove it") from None
    if nests_too_deep(converted):
        raise AgentFileError(f"the front matter has more than {MAX_DEPTH} levels of lists and objects in each other")
    return converted


def _converted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {storable(str(key)): _converted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_converted(item) for item in value]
    if isinstance(value, Set):
        return sorted(str(_converted(item)) for item in value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT:
        return hex(value)
    return value
