"""Plain values and arrays as bytes: reading them runs no code, whoever wrote them, and only maps the arrays.

A JSON text, in which an array is its type, its shape and where it begins, and behind it the arrays. Pickle and marshal
are not for what lies in a folder: a tool whose workspace is the user's home could write there.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_bytes", "from_bytes"]

_ALIGNMENT = 64
_LENGTH_BYTES = 8
_ARRAY, _KIND = "", "\0"
"""The keys that tell an array, and an object, from a mapping: no word is either."""


def as_bytes(value: Any, kinds: Mapping[str, type] | None = None) -> bytes:
    """Return plain values (of JSON), arrays of numbers, and objects of ``kinds``, by their attributes, as bytes.

    Raises ``ValueError`` where there is anything else.
    """
    arrays: list[NDArray[Any]] = []
    begin = 0

    def placed(part: Any) -> dict[str, Any]:
        nonlocal begin
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            arrays.append(part)
            begin, at = begin + _padded(part.nbytes), begin
            return {_ARRAY: [part.dtype.str, part.shape, at]}
        if (name := type(part).__name__) in (kinds or {}):
            return {_KIND: name, **vars(part)}
        raise ValueError(f"{name} is not kept")

    head = json.dumps(value, default=placed, ensure_ascii=False, separators=(",", ":")).encode()
    head = head.ljust(_padded(_LENGTH_BYTES + len(head)) - _LENGTH_BYTES)  # so that the arrays are aligned
    parts = [part for array in arrays for part in (np.ascontiguousarray(array).data, _padding(array.nbytes))]
    return b"".join((len(head).to_bytes(_LENGTH_BYTES, "little"), head, *parts))


def from_bytes(text: memoryview, kinds: Mapping[str, type] | None = None) -> Any:
    """Return what ``as_bytes`` was given; lists and tuples come back as lists, those of an object as tuples.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` where that cannot be.
    """
    end = _LENGTH_BYTES + int.from_bytes(text[:_LENGTH_BYTES], "little")
    arrays = text[end:]

    def read(fields: dict[str, Any]) -> Any:
        if _ARRAY in fields:
            kind, shape, begin = fields[_ARRAY]
            return np.frombuffer(arrays, np.dtype(kind), int(np.prod(shape)), begin).reshape(shape)
        if _KIND not in fields:
            return fields
        made: Any = object.__new__((kinds or {})[fields.pop(_KIND)])
        vars(made).update((name, tuple(one) if isinstance(one, list) else one) for name, one in fields.items())
        return made

    return json.loads(bytes(text[_LENGTH_BYTES:end]), object_hook=read)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _padding(size: int) -> bytes:
    return bytes(_padded(size) - size)
