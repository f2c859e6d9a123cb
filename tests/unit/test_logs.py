"""Logs: one form for all, on the stream that was asked for, without secrets."""

import io
import json
import logging
from typing import Any

import pytest
import structlog

from ekiden.shared.logs import LOG_FIELDS, configure_logs


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_loggers_write_json_in_one_form(stream: io.StringIO) -> None:
    configure_logs("INFO", stream)
    of_leg = LOG_FIELDS.set({"job": "j", "trace_id": "t"})
    structlog.get_logger("ours").warning("it_happened", n=1)
    logging.getLogger("celery.worker").warning("it happened %s times", 2)
    LOG_FIELDS.reset(of_leg)
    ours, celerys = lines(stream)
    assert ours.items() >= {"event": "it_happened", "n": 1, "job": "j", "trace_id": "t", "level": "warning"}.items()
    assert celerys.items() >= {"event": "it happened 2 times", "job": "j", "logger": "celery.worker"}.items()
    assert ours.keys() - {"n"} == celerys.keys()


def test_commands_tell_people_in_a_line_each(stream: io.StringIO) -> None:
    configure_logs(stream=stream, is_for_people=True)
    structlog.get_logger("ours").error("agent_file", at="a.md:4", problem="'priority' is\n'high'")
    assert stream.getvalue() == "ekiden: agent file: a.md:4: 'priority' is\\n'high'\n"


def test_what_is_below_the_level_is_left_out(stream: io.StringIO) -> None:
    configure_logs("ERROR", stream)
    structlog.get_logger("ours").warning("quiet")
    logging.getLogger("celery").info("quiet")
    assert stream.getvalue() == ""


def test_no_secret_passes_wherever_it_is(stream: io.StringIO) -> None:
    secret = "sk-abcdefghijklmnop1234"
    configure_logs("INFO", stream)
    log = structlog.get_logger("ours")
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError:
        log.exception(f"failed with {secret}", deep={"a": [secret]}, thing=ValueError(secret))
        logging.getLogger("other").exception("with %s", secret)
    assert len(lines(stream)) == 2
    assert "cannot use [redacted]" in lines(stream)[0]["exception"]
    assert secret not in stream.getvalue()


def test_people_at_a_terminal_are_shown_no_secret_either(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "isatty", lambda: True)
    configure_logs("INFO", stream)
    try:
        raise ValueError("token=abcdef123456")
    except ValueError:
        structlog.get_logger("ours").exception("it_failed", password="x", key="AIzaSyA1234567890abcdefghijklmnopqrstuv")
    shown = stream.getvalue()
    assert "it_failed" in shown
    assert "abcdef123456" not in shown
    assert "AIzaSy" not in shown


def test_no_value_steers_the_terminal_or_forges_a_line(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "isatty", lambda: True)
    configure_logs("INFO", stream)
    forged = "x\n2026-01-01 [info] all is well \u202e\x9b2J"
    try:
        raise ValueError("\x1b]0;owned\x07")
    except ValueError:
        structlog.get_logger("ours").exception("it_failed", why=forged, deep=[forged])
    assert not set(stream.getvalue()) & set("\u202e\x9b\x07")
    assert "\x1b]" not in stream.getvalue()
    assert "\n2026-01-01" not in stream.getvalue()


def test_json_lines_hide_nothing_and_stay_json(stream: io.StringIO) -> None:
    configure_logs("INFO", stream)
    structlog.get_logger("ours").info("said", text="a\u202eb\x9bc")
    assert r"a\u202eb\u009bc" in stream.getvalue()
    assert lines(stream)[0]["text"] == "a\u202eb\x9bc"
