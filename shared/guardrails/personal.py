"""Personal data in texts: mail addresses, telephone numbers, identity cards and bank cards, Chinese and others.

Numbers count where their check digits hold (GB 11643, Luhn) and their beginnings are in use: most numbers are none.
Nothing that is found is quoted: it would only go further that way.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from ekiden.shared.patterns import raw_pattern
from ekiden.shared.step_limits import spend

__all__ = ["personal_data"]

_MAIL = raw_pattern(
    r"(?i)[a-z0-9\p{Han}][a-z0-9\p{Han}._%+-]{0,63}@(?:[a-z0-9\p{Han}](?:[a-z0-9\p{Han}-]{0,61}[a-z0-9\p{Han}])?\.)+[a-z\p{Han}]{2,24}"
)
_NO_DOMAINS = frozenset(
    {"css", "gif", "gz", "html", "ico", "jpeg", "jpg", "js", "json", "lock", "map", "md", "mjs", "pdf", "png", "py"}
    | {"service", "svg", "target", "timer", "ts", "webp", "zip"}
)
"""Endings of files and units, which have an ``@`` too: ``logo@2x.png``."""
_NO_MAILBOXES = frozenset({"git", "hg", "svn"})
"""Names that a program uses, not a person: ``git@github.com:ada/x``."""

_DIGITS = raw_pattern(r"[+(]?[0-9][0-9 ().\x{2010}-\x{2015}-]*[0-9Xx]")
"""A row of digits: one number in groups, or several numbers."""
_MOST_GROUPS, _LONGEST = 6, 40
"""Groups of one number, and its characters: ``+33 1 23 45 67 89``."""
_FEWEST_DIGITS, _MOST_DIGITS = 9, 19
_SEPARATORS = re.compile(r"[ ().\u2010-\u2015-]+")
_MOBILE = re.compile(r"(?:\+?86)?1[3-9]\d{9}")
_LANDLINE = re.compile(r"\(?0(?:10|2\d|[3-9]\d{2})\)?[ -]?\d{3,4}[ -]?\d{4}(?:-\d{1,5})?")
_AMERICAN = re.compile(r"(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[-.])[2-9]\d{2}[-.]\d{4}")
_INTERNATIONAL = re.compile(r"\+[1-9][\d ().-]{6,22}\d")
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|35\d{14}|6(?:011|5\d{2})\d{12}|62\d{14,17}|(?:9558|6013)\d{15}"
)
_IDENTITY = re.compile(r"[1-9]\d{5}(?:18|19|20)\d{9}[\dXx]")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def personal_data(text: str) -> list[str]:
    """Return what kinds of personal data a ``plain`` text holds, and in which line the first of each stands."""
    first: dict[str, int] = {}
    for kind, at in [*_mails(text), *_numbers(text)]:
        first[kind] = min(at, first.get(kind, at))
    return [f"it holds {kind} (line {text.count(chr(10), 0, at) + 1})" for kind, at in sorted(first.items())]


def _mails(text: str) -> Iterator[tuple[str, int]]:
    for found in _MAIL.finditer(text):
        mailbox, _, domain = found.group().rpartition("@")
        if domain.rpartition(".")[2].casefold() not in _NO_DOMAINS and mailbox.casefold() not in _NO_MAILBOXES:
            yield "a mail address", found.start()


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    for row in _DIGITS.finditer(text):
        for start, part in _parts(row.group(), row.start()):
            digits = _SEPARATORS.sub("", part)
            kind = next((kind for kind, fits in _KINDS if fits(part, digits)), "")
            if kind and not _is_within_a_word(text, start, start + len(part)):
                yield kind, start


def _parts(row: str, offset: int) -> Iterator[tuple[int, str]]:
    """Yield what in a row may be one number, and where it stands: groups that follow each other."""
    groups = list(re.finditer(r"\S+", row))
    for place, first in enumerate(groups):
        digits = 0
        spend()
        for last in groups[place : place + _MOST_GROUPS]:
            digits += sum(map(str.isalnum, last.group())) if len(last.group()) <= _LONGEST else _MOST_DIGITS + 1
            if digits > _MOST_DIGITS:
                break
            if digits >= _FEWEST_DIGITS and last.end() - first.start() <= _LONGEST:
                yield offset + first.start(), row[first.start() : last.end()]


def _is_within_a_word(text: str, start: int, end: int) -> bool:
    """Tell whether a number is part of a name or of a longer one: ``v13812345678``, ``x_13812345678``."""
    return any(
        one.isascii() and (one.isalnum() or one == "_")
        for one in (text[max(0, start - 1) : start], text[end : end + 1])
    )


def _is_mobile(part: str, digits: str) -> bool:
    return _MOBILE.fullmatch(digits) is not None and not re.search(r"\.", part)


def _is_landline(part: str, _: str) -> bool:
    return any(pattern.fullmatch(part) for pattern in (_LANDLINE, _AMERICAN))


def _is_international(part: str, digits: str) -> bool:
    return _INTERNATIONAL.fullmatch(part) is not None and 8 <= len(digits) - 1 <= 15


def _is_identity(_: str, digits: str) -> bool:
    """See GB 11643: region, day of birth, number, and a check digit modulo 11."""
    if not _IDENTITY.fullmatch(digits):
        return False
    try:
        born = date(int(digits[6:10]), int(digits[10:12]), int(digits[12:14]))
    except ValueError:
        return False
    rest = sum(int(digit) * weight for digit, weight in zip(digits, _WEIGHTS, strict=False)) % 11
    return born.year >= 1850 and "10X98765432"[rest] == digits[17].upper()


def _is_card(part: str, digits: str) -> bool:
    return "." not in part and _CARD.fullmatch(digits) is not None and _luhn_holds(digits)


def _luhn_holds(digits: str) -> bool:
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(map(int, digits[::-2]))) % 10 == 0


_KINDS: tuple[tuple[str, Callable[[str, str], Any]], ...] = (
    ("the number of an identity card", _is_identity),
    ("the number of a bank card", _is_card),
    ("a telephone number", _is_mobile),
    ("a telephone number", _is_landline),
    ("a telephone number", _is_international),
)
