"""Reads how CEL writes down an expression that it has parsed, as far as ``condition_costs`` and the like need it."""

from functools import lru_cache
from typing import Any

__all__ = ["fields_of", "text_of"]


def text_of(data: bytes, number: int) -> str:
    """Return a field of a message as text; empty where it is not there."""
    return bytes(fields_of(data).get(number, [b""])[0]).decode()


@lru_cache(maxsize=8_192)
def fields_of(data: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message of Protocol Buffers, by number: texts and messages as bytes."""
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        value: int | bytes
        if key & 7 == 0:
            value, at = _number(data, at)
        else:
            size, at = _number(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value, at = data[at : at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at ``at``, in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
