"""The ``format`` of JSON Schema, as far as it can be checked here: each in time that is linear in the text."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, time
from typing import Any
from urllib.parse import urlsplit

from ekiden.shared.patterns import raw_pattern

__all__ = ["FORMATS", "LONGEST", "has_format"]

LONGEST = 10_000
"""Characters of a text that has a format: a longer one has none."""

_LONGEST_LABEL = 63
"""Characters between two dots of a host's name; as a part of the patterns, it would take them 0.1 s to be compiled."""
_LONGEST_LOCAL = 64
"""Characters before the ``@``."""
_EMAIL = raw_pattern(
    r"\A[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]+@"
    r"(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]*[\p{L}\p{N}])?\.)+\p{L}[\p{L}\p{N}-]*[\p{L}\p{N}]\z"
)
_HOSTNAME = raw_pattern(r"\A[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d{1,6}\d*)?(?:[Zz]|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DURATION = re.compile(r"P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)")
_SPACE = re.compile(r"[\s<>\"{}|\\^`\x00-\x20\x7f]")


def has_format(name: str, value: Any) -> bool:
    """Tell whether ``value`` has a format of ``FORMATS``; whatever is no text has every one, as JSON Schema says."""
    if not isinstance(value, str):
        return True
    if len(value) > LONGEST:
        return False
    with suppress(ValueError, OverflowError):
        return FORMATS[name](value)
    return False


def _is_email(text: str) -> bool:
    local, _, host = text.partition("@")
    if not _EMAIL.search(text) or len(local) > _LONGEST_LOCAL or not _has_short_labels(host):
        return False
    return not (local[0] == "." or local[-1] == "." or ".." in local)


def _is_hostname(text: str) -> bool:
    return len(text) <= 253 and bool(_HOSTNAME.search(text)) and _has_short_labels(text)


def _has_short_labels(host: str) -> bool:
    return all(len(label) <= _LONGEST_LABEL for label in host.split("."))


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    _ = parts.port  # raises where it is none
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not _SPACE.search(text)


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    time.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text.upper()).replace("Z", "+00:00"))
    return True


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t") and _is_date(text[:10]) and _is_time(text[11:])


def _is_ipv4(text: str) -> bool:
    return bool(str(ipaddress.IPv4Address(text)))


def _is_ipv6(text: str) -> bool:
    return "%" not in text and bool(str(ipaddress.IPv6Address(text)))


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "email": _is_email,
    "uri": _is_uri,
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
"""By the names of JSON Schema 2020-12."""
