"""Formats of JSON Schema: what has one, and what only looks like it."""

import pytest

from ekiden.shared.errors import DefinitionError
from ekiden.shared.schema_formats import FORMATS, LONGEST, has_format
from ekiden.shared.schemas import check, problems

GOOD = {
    "email": [
        "a@b.co",
        "张三@例子.公司",
        "a.b+c@x-y.example.com",
        f"{'a' * 64}@{'b' * 63}.{'公' * 63}.{'c' * 63}",
    ],
    "uri": ["https://a.b/c?d=1#e", "urn:isbn:1", "mailto:a@b.c", "http://[::1]:80/"],
    "date": ["2024-02-29"],
    "time": ["12:00:00Z", "23:59:59.123456789+02:00"],
    "date-time": ["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.5-08:00"],
    "duration": ["P1D", "PT1H", "P2W", "P1Y2M3DT4H5M6S"],
    "hostname": ["a.b-c.d", "localhost", "a" * 63, ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])],
    "ipv4": ["1.2.3.4"],
    "ipv6": ["::1", "2001:db8::1"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
}
BAD = {
    "email": [
        *["", "a@b", "@b.co", "a..b@c.de", "a b@c.de", ".a@b.co", "a@-b.co", "a@b.co\n", "a@b.c", "a@b.1o", "a@b.c-"],
        *[f"{'a' * 65}@b.co", f"a@{'公' * 64}.co", f"a@b.{'公' * 64}.co", f"a@b.{'c' * 64}"],
    ],
    "uri": ["", "a/b", "http://a b", "http://x:99999/", "://x", "http://"],
    "date": ["2023-02-29", "2024-2-1", "20240201", "2024-02-29\n"],
    "time": ["12:00", "25:00:00Z", "12:00:00"],
    "date-time": ["2024-02-29", "2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"],
    "duration": ["P", "PT", "1D", "P1H"],
    "hostname": ["-a", "a..b", "a_b", "a" * 64, f"b.{'a' * 64}", "a." * 130],
    "ipv4": ["1.2.3", "256.1.1.1", "01.2.3.4"],
    "ipv6": ["::1%eth0", "g::"],
    "uuid": ["123e4567e89b12d3a456426614174000", "x"],
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_told_from_what_only_looks_like_it(name: str) -> None:
    assert [text for text in GOOD[name] if not has_format(name, text)] == []
    assert [text for text in BAD[name] if has_format(name, text)] == []
    assert has_format(name, 7)
    assert not has_format(name, "1" * (LONGEST + 1))


def test_formats_are_checked_where_that_is_asked_for() -> None:
    schema = {"properties": {"mail": {"type": "string", "format": "email"}}}
    assert problems({"mail": "ada"}, schema, formats=True) == ["mail: 'ada' is not a 'email'"]
    assert problems({"mail": "ada"}, schema) == []
    assert problems({"mail": "ada"}, {"properties": {"mail": {"format": "of-later"}}}, formats=True) == []


def test_a_format_that_nobody_would_check_is_an_error_there() -> None:
    check({"format": "regex"})
    with pytest.raises(DefinitionError, match="the format 'regex' cannot be checked: there are email"):
        check({"items": {"format": "regex"}}, formats=True)
