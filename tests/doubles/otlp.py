"""A collector for tests: takes OTLP/HTTP in this process, and can be away, silent, slow or refusing.

with OtlpReceiver() as receiver:
    ... export to receiver.url ...
    spans = receiver.wait_for(lambda span: span.name == "invoke_workflow first")
"""

import base64
import copy
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["OtlpReceiver", "SpanSeen", "read_document", "read_spans", "same_trace"]


@dataclass(frozen=True)
class SpanSeen:
    """A span as a collector sees it; ids in hexadecimal, times in nanoseconds."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool
    status: str
    links: tuple[tuple[str, str, dict[str, Any]], ...]
    events: tuple[tuple[str, dict[str, Any]], ...]
    resource: dict[str, Any]


def read_document(document: dict[str, Any]) -> list[SpanSeen]:
    """Return the spans of OTLP JSON as a collector reads them."""
    document = copy.deepcopy(document)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for holder in (span, *span.get("links", [])):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in holder:  # JSON of protocol buffers has base64 where OTLP has hexadecimal
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    return read_spans(ParseDict(document, ExportTraceServiceRequest()).SerializeToString())


def read_spans(body: bytes) -> list[SpanSeen]:
    """Return the spans of what was posted."""
    return [
        SpanSeen(
            name=span.name,
            kind=span.kind,
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            start=span.start_time_unix_nano,
            end=span.end_time_unix_nano,
            attributes=_attributes(span.attributes),
            failed=span.status.code == 2,
            status=span.status.message,
            links=tuple((one.trace_id.hex(), one.span_id.hex(), _attributes(one.attributes)) for one in span.links),
            events=tuple((event.name, _attributes(event.attributes)) for event in span.events),
            resource=_attributes(of_resource.resource.attributes),
        )
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def same_trace(exported: Iterable[SpanSeen], live: Iterable[SpanSeen]) -> list[SpanSeen]:
    """Assert that each exported span is one of ``live``; return those that are live alone.

    Same trace, id, parent, name, kind, error and links, the same attributes but for those that no record holds, and
    the times of two clocks of one machine.
    """
    by_id = {span.id: span for span in live}
    for span in exported:
        assert span.id in by_id, f"{span.name} was never live; there were {sorted(one.name for one in by_id.values())}"
        twin = by_id.pop(span.id)
        for part in ("trace", "parent", "name", "kind", "failed", "status"):
            assert getattr(span, part) == getattr(twin, part), f"{part} of {span.name}"
        assert sorted(link[:2] for link in span.links) == sorted(link[:2] for link in twin.links), span.name
        assert {name for name, _ in span.events} <= {name for name, _ in twin.events}, span.name
        assert span.attributes.items() <= twin.attributes.items(), span.name
        assert abs(span.start - twin.start) < 1e9, span.name
        assert abs(span.end - twin.end) < 1e9, span.name
    return list(by_id.values())


class OtlpReceiver:
    """Listens on loopback. ``mode``: ``good``, ``refusing``, ``slow`` (answers after 1.5 s), ``silent`` (never)."""

    def __init__(self, mode: str = "good") -> None:
        self.mode = mode
        self.spans: list[SpanSeen] = []
        self.metrics: list[Any] = []
        """One ``Metric`` of the protocol for each instrument and export."""
        self.raw: list[bytes] = []
        """Everything that came, as it came."""
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.socket.shutdown(socket.SHUT_RDWR)  # else its thread looks up after half a second only
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, wanted: Callable[[SpanSeen], bool], count: int = 1, within_s: float = 60.0) -> list[SpanSeen]:
        """Return the spans that are wanted, once there are ``count``."""
        deadline = time.monotonic() + within_s
        with self._news:
            while len(found := [span for span in self.spans if wanted(span)]) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} spans; there are\n{self.tree()}"
                self._news.wait(0.1)
            return found

    def metric(self, name: str) -> Any:
        """Return the newest state of an instrument."""
        return next(metric for metric in reversed(self.metrics) if metric.name == name)

    def tree(self, *attributes: str) -> str:
        """Return every trace as an indented text; the quickest way to see a broken parent."""
        ids = {span.id for span in self.spans}
        lines: list[str] = []

        def walk(spans: Iterable[SpanSeen], depth: int) -> None:
            for span in sorted(spans, key=lambda one: one.start):
                about = " ".join(f"{name}={span.attributes[name]}" for name in attributes if name in span.attributes)
                took_ms = (span.end - span.start) / 1e6
                lines.append(f"{'  ' * depth}{span.name} {took_ms:.1f} ms{' FAILED' * span.failed} {about}")
                walk([one for one in self.spans if one.parent == span.id and one.trace == span.trace], depth + 1)

        walk([span for span in self.spans if span.parent not in ids], 0)
        return "\n".join(lines)

    def answer(self, path: str, body: bytes) -> int | None:
        """Take what was posted; return the status to answer with, None for no answer at all."""
        if self.mode == "silent":
            self._closing.wait(60)
            return None
        if self.mode == "slow":
            self._closing.wait(1.5)
        if self.mode == "refusing":
            return 503
        with self._news:
            self.raw.append(body)
            if path.endswith("/v1/traces"):
                self.spans += read_spans(body)
            elif path.endswith("/v1/metrics"):
                self.metrics += _metrics(body)
            self._news.notify_all()
        return 200


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, receiver: OtlpReceiver) -> None:
        self.receiver = receiver
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no fault of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        status = self.server.receiver.answer(self.path, body)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


def _metrics(body: bytes) -> Iterable[Any]:
    for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for of_scope in of_resource.scope_metrics:
            yield from of_scope.metrics


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
