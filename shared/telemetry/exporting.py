"""How spans leave: redacted, in batches, from a thread of their own. A collector that is away costs only its spans."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status

from ekiden.shared.project_folders import private_folder
from ekiden.shared.redaction import Redactor
from ekiden.shared.telemetry.collector_status import CollectorStatus
from ekiden.shared.telemetry.config import TelemetryConfig
from ekiden.shared.terminal_text import visible
from ekiden.shared.tracing.lines import trace_lines
from ekiden.shared.tracing.semconv import CONTENT
from ekiden.shared.version import VERSION

__all__ = [
    "LineExporter",
    "RedactingExporter",
    "lines_for_people",
    "processor_for",
    "quiet_opentelemetry",
    "resource_for",
    "timeout_s",
]

EXPORT_TIMEOUT_S = 2.0
BATCH_DELAY_MS = 1_000.0
QUEUE_SPANS = 16_384
"""Spans that wait to be sent, at most: what comes on top is dropped."""
MAX_TEXT = 8_192
"""Characters of an attribute that are kept; OpenTelemetry has no limit of its own accord."""


def resource_for(service: str, env: Mapping[str, str], redactor: Redactor) -> Resource:
    """Return what names this process; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` come first."""
    ours = {"service.instance.id": f"{os.uname().nodename}:{os.getpid()}", "service.version": VERSION}
    if "OTEL_SERVICE_NAME" not in env and "service.name=" not in env.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        ours["service.name"] = service
    made = Resource.create(ours)
    return Resource(redactor.redact_all(dict(made.attributes)), made.schema_url)


def processor_for(config: TelemetryConfig, env: Mapping[str, str], redactor: Redactor) -> BatchSpanProcessor:
    """Return what takes ended spans to the configured backend."""
    exporter = RedactingExporter(_exporter(config, env), redactor, with_content=config.with_content)
    return BatchSpanProcessor(
        exporter,
        max_queue_size=None if "OTEL_BSP_MAX_QUEUE_SIZE" in env else QUEUE_SPANS,
        schedule_delay_millis=None if "OTEL_BSP_SCHEDULE_DELAY" in env else BATCH_DELAY_MS,
    )


def timeout_s(env: Mapping[str, str], signal: str) -> float | None:
    """Return how long one export may take; None: as a variable says."""
    variables = ("OTEL_EXPORTER_OTLP_TIMEOUT", f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT")
    return None if any(name in env for name in variables) else EXPORT_TIMEOUT_S


def _exporter(config: TelemetryConfig, env: Mapping[str, str]) -> SpanExporter:
    match config.traces:
        case "console":
            # OpenTelemetry's own word means whole spans, as its SDKs print them; ours is for people
            is_theirs = env.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "console"
            return LineExporter(sys.stderr.fileno(), None if is_theirs else lines_for_people)
        case "file":
            private_folder(config.traces_file.parent)
            return LineExporter(config.traces_file)
        case _:
            from ekiden.shared.telemetry.otlp import SpansOverHttp

            return SpansOverHttp(endpoint=config.address("traces"), timeout=timeout_s(env, "TRACES"))


class LineExporter(SpanExporter):
    """Writes one line of JSON a span, or the lines that ``lines`` makes of it; several processes may share a file."""

    def __init__(self, target: Path | int, lines: Callable[[ReadableSpan], Iterable[str]] | None = None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._to = target if isinstance(target, int) else os.open(target, flags, 0o600)
        self._lines = lines or _for_programs

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans in one go."""
        lines = [f"{line}\n" for span in spans for line in self._lines(span)]
        os.write(self._to, "".join(lines).encode(errors="replace"))
        return SpanExportResult.SUCCESS


def _for_programs(span: ReadableSpan) -> list[str]:
    return [span.to_json(indent=None)]


def lines_for_people(span: ReadableSpan) -> list[str]:
    """Return a span as people read it; nothing of messages on their way."""
    seconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
    return [visible(line) for line in trace_lines(span.name, span.attributes or {}, seconds)]


class RedactingExporter(SpanExporter):
    """Drops what was said unless it was asked for, and masks secrets in everything that is left.

    An exporter and no processor: a span's attributes are frozen before a processor sees its end.
    """

    def __init__(self, inner: SpanExporter, redactor: Redactor, *, with_content: bool) -> None:
        self._inner = inner
        self._redactor = redactor
        self._dropped = frozenset() if with_content else CONTENT
        self._presence = CollectorStatus("spans are dropped")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the cleaned spans; warn once when the collector is away, and say so when it is back."""
        result = self._inner.export(self._cleaned(spans))
        self._presence.note(is_away=result is not SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Shut the inner exporter down."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        return self._inner.force_flush(timeout_millis)

    def _cleaned(self, spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
        """Return the spans as they may leave: most as they are, which one look at all their texts together tells."""
        texts = [_texts_of(span) for span in spans]
        are_clean = not self._finds(chain.from_iterable(texts))
        return [
            self._cleaned_span(span, own, are_clean or not self._finds(own))
            for span, own in zip(spans, texts, strict=True)
        ]

    def _cleaned_span(self, span: ReadableSpan, texts: Sequence[str], is_clean: bool) -> ReadableSpan:
        is_short = max(map(len, texts)) <= MAX_TEXT
        if is_clean and is_short and not span.events and self._dropped.isdisjoint(span.attributes or ()):
            return span
        return self._rewritten(span, _cut if is_clean else self._clean)

    def _finds(self, texts: Iterable[str]) -> bool:
        return self._redactor.finds("\n".join(texts).encode("utf-8", "replace").decode())  # RE2 takes no lone surrogate

    def _rewritten(self, span: ReadableSpan, clean: Callable[[Any], Any]) -> ReadableSpan:
        def cleaned(values: Mapping[str, Any] | None) -> dict[str, Any]:
            return {key: clean(value) for key, value in (values or {}).items() if key not in self._dropped}

        return ReadableSpan(
            name=clean(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=cleaned(span.attributes),
            events=[Event(clean(event.name), cleaned(event.attributes), event.timestamp) for event in span.events],
            links=[Link(link.context, cleaned(link.attributes)) for link in span.links],
            kind=span.kind,
            status=Status(span.status.status_code, clean(span.status.description or "") or None),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _clean(self, value: Any) -> Any:
        return _cut(self._redactor.redact_all(value))


def _cut(value: Any) -> Any:
    return value[:MAX_TEXT] if isinstance(value, str) else value


def _texts_of(span: ReadableSpan) -> list[str]:
    texts = [span.name, span.status.description or "", *_texts(span.attributes)]
    for event in span.events:
        texts += [event.name, *_texts(event.attributes)]
    for link in span.links:
        texts += _texts(link.attributes)
    return texts


def _texts(attributes: Mapping[str, Any] | None) -> list[str]:
    return _texts_in(attributes.values()) if attributes else []


def _texts_in(values: Iterable[Any]) -> list[str]:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list | tuple):
            texts += _texts_in(value)
        elif isinstance(value, dict):
            texts += [f"{key}={text}" for key, inner in value.items() for text in _texts_in([inner])]
    return texts


class _Below(logging.Filter):
    """Lets nothing pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave it out."""
        return False


def quiet_opentelemetry() -> None:
    """Leave out OpenTelemetry's own words on failed exports: ours are one line, not one for each batch."""
    for name in (
        "opentelemetry.exporter.otlp.common.http",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        "opentelemetry.sdk._shared_internal",
        "opentelemetry.sdk.metrics._internal.export",
        "urllib3.connectionpool",
    ):
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Below) for one in logger.filters):
            logger.addFilter(_Below())
