"""Structured logs: JSON lines for services, readable lines for a terminal; no secret passes."""

import io
import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, TextIO

import structlog

from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.terminal_text import visible

__all__ = ["LOG_FIELDS", "configure_logs"]

LOG_FIELDS: ContextVar[Mapping[str, Any]] = ContextVar("log_fields", default={})  # noqa: B039  # nobody changes a mapping
"""What every log line of a task carries; structlog's own way sets and resets a variable for each field, in each leg."""

_NOT_TOLD = ("event", "level", "logger", "timestamp")
"""What people are not told of a log line beside its event."""


def configure_logs(
    level: str | int = "WARNING", stream: TextIO | None = None, *, is_for_people: bool | None = None
) -> None:
    """Send structlog and the standard library's logging, Celery's included, to one stream in one form.

    Args:
        level: The least that is logged.
        stream: Where to; None: standard error, since a command's standard output is data.
        is_for_people: Whether each is told in a line, as commands do; None: readably on a terminal, else as JSON.
    """
    number = level if isinstance(level, int) else getattr(logging, level.upper())
    stream = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,  # of plug-ins
        _with_fields,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),  # what is not logged costs next to nothing
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_form(stream, is_for_people),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)


def _with_fields(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**LOG_FIELDS.get(), **event}


def _form(stream: TextIO, is_for_people: bool | None) -> list[structlog.typing.Processor]:
    if is_for_people:
        return [structlog.processors.format_exc_info, _redacted, _visible_values, _in_a_line]
    return _for_people() if stream.isatty() else _for_programs()


def _in_a_line(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    about = [str(value) for key, value in event.items() if key not in _NOT_TOLD]
    return redact(": ".join(["ekiden", str(event.get("event", "")).replace("_", " "), *about]))


def _for_programs() -> list[structlog.typing.Processor]:
    return [
        structlog.processors.format_exc_info,
        _redacted,
        _as_json,
    ]


def _for_people() -> list[structlog.typing.Processor]:
    render = structlog.dev.ConsoleRenderer(exception_formatter=_traceback)

    def rendered(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        return redact(render(logger, method, event))  # again: the traceback is in it now

    return [_redacted, _visible_values, rendered]


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    stream.write(visible(text.getvalue()))


def _text(value: Any) -> str:
    """Return what JSON has no form for as text that has been redacted."""
    return redact(repr(value))


_json = structlog.processors.JSONRenderer(ensure_ascii=False, default=_text)


def _as_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    return visible(str(_json(logger, method, event)))


def _visible_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Also ends of lines are shown in a value, which could pass for another log line. Lists are shown by ``repr``."""
    return {key: _value(key, value) if isinstance(value, str) else value for key, value in event.items()}


def _value(key: str, text: str) -> str:
    return visible(text) if key == "event" else visible(text).replace("\n", "\\n")


def _redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {
        key: value if key == "exc_info" else redact_all(value if _is_plain(value) else _text(value))
        for key, value in event.items()
    }


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | tuple | dict)
