"""What commands log: structlog's once logs are set up, standard error before."""

import logging

import pytest
from structlog.testing import capture_logs

from ekiden.shared.late_logger import LateLogger


def test_speaks_through_structlog_where_logs_are_set_up() -> None:
    with capture_logs() as logged:
        LateLogger("ours").warning("it_happened", n=1)
    assert logged == [{"event": "it_happened", "n": 1, "log_level": "warning"}]


def test_writes_nothing_to_standard_output_where_they_are_not(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    LateLogger("ours").error("it_failed", problem="no\nhost")
    LateLogger("ours").debug("looked")
    assert caplog.record_tuples == [("ours", logging.ERROR, r"ekiden: it failed: no\nhost")]
    assert capsys.readouterr().out == ""
