"""What servers say of a failure."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from ekiden.shared.llm.wire_failures import first_line, seconds_in


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("3", 3.0), ("-1", 0.0), ("0.5", 0.5), ("", None), (None, None), ("nan", None), ("soon", None)],
)
def test_a_wait_is_told_in_seconds(said: str | None, seconds: float | None) -> None:
    assert seconds_in(said) == seconds


def test_or_by_a_date() -> None:
    told = seconds_in(format_datetime(datetime.now(UTC) + timedelta(hours=1)))
    assert told is not None
    assert 3_000 < told <= 3_600


def test_a_reason_is_one_line_without_the_key() -> None:
    assert first_line({"message": "the key k3y is bad.\nmore"}, "k3y") == "the key [the key] is bad"
    assert first_line({"message": "<html>"}, None) == first_line("?", None) == "no reason given"
