"""What leaves, and what happens when it cannot."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from ekiden.shared.redaction import Redactor
from ekiden.shared.telemetry.exporting import MAX_TEXT, LineExporter, RedactingExporter, lines_for_people, resource_for
from ekiden.shared.telemetry.spans import Spans
from ekiden.shared.tracing.spans import Happened, Link, Span
from ekiden.shared.tracing.trace_ids import Root
from tests.unit.telemetry.spans import Kept, span

ROOT = Root(1, 2, sampled=True)
SECRET = "sk-abcdefghijklmnop1234"


class Sent(SpanExporter):
    """Keeps what it is given; fails while it is told to."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.FAILURE if self.fails else SpanExportResult.SUCCESS


def exported(whole: Span, *, with_content: bool) -> ReadableSpan:
    kept = Sent()
    exporter = RedactingExporter(kept, Redactor(), with_content=with_content)
    Spans(SimpleSpanProcessor(exporter), Resource({})).write(whole)
    (one,) = kept.spans
    return one


def test_secrets_leave_nowhere_in_a_span() -> None:
    secret = span(ROOT, f"execute_tool {SECRET}", 3, {"a": SECRET, "b": (SECRET, 1), "n": 1})
    secret.events.append(Happened(SECRET, 1, {"c": SECRET}))
    secret.links.append(Link(4, SECRET))
    secret.fail(SECRET)
    one = exported(secret, with_content=True)
    assert SECRET not in str(one.to_json())
    assert one.attributes is not None
    assert one.attributes["n"] == 1
    assert one.name == "execute_tool [redacted]"


def all_exported(*spans: Span, patterns: Sequence[str] = ()) -> list[ReadableSpan]:
    """The spans of one batch as they leave."""
    kept, sent = Kept(), Sent()
    for one in spans:
        Spans(kept, Resource({})).write(one)
    RedactingExporter(sent, Redactor(patterns), with_content=False).export(kept.spans)
    return sent.spans


def test_a_secret_in_one_span_of_a_batch_changes_that_one_alone() -> None:
    spans = [span(ROOT, "chat x", 3, {"a": text}) for text in ("fine", f"key {SECRET}", "fine, too")]
    assert [attributes(one)["a"] for one in all_exported(*spans)] == ["fine", "key [redacted]", "fine, too"]


def test_a_pattern_for_a_whole_value_finds_it_among_others() -> None:
    spans = [span(ROOT, "chat x", 3, {"a": "first", "b": text, "c": "last"}) for text in ("ACME-12", "no ACME-12")]
    left = all_exported(*spans, patterns=["^ACME-[0-9]+$"])
    assert [attributes(one)["b"] for one in left] == ["[redacted]", "no ACME-12"]


@pytest.mark.parametrize("hidden", [[["a", SECRET]], {"in": {"there": SECRET}}, {"password": "hunter2hunter2"}])
def test_secrets_are_found_however_deep_another_library_puts_them(hidden: Any) -> None:
    (left,) = all_exported(span(ROOT, "tool", 3, {"hidden": hidden}))
    assert "[redacted]" in str(attributes(left))
    assert not any(secret in str(attributes(left)) for secret in (SECRET, "hunter2"))


def test_half_a_surrogate_pair_hides_no_secret_and_stops_no_batch() -> None:
    broken, whole = all_exported(span(ROOT, "chat", 3, {"a": f"\ud83d {SECRET}"}), span(ROOT, "chat", 3, {"a": "fine"}))
    assert "[redacted]" in str(attributes(broken)["a"])
    assert attributes(whole)["a"] == "fine"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_content_and_the_texts_of_errors_stay_unless_asked_for() -> None:
    failed = span(ROOT, "chat x", 3, {"gen_ai.input.messages": "hello", "gen_ai.request.model": "x"})
    failed.fail("ValueError")
    failed.events.append(Happened("exception", 1, {"exception.message": "the user said hello"}))
    without = str(exported(failed, with_content=False).to_json())
    assert "hello" not in without
    assert "ValueError" in without
    assert str(exported(failed, with_content=True).to_json()).count("hello") == 2


def test_long_texts_are_cut() -> None:
    one = exported(span(ROOT, "chat x", 3, {"a": "x" * 100_000}), with_content=True)
    assert one.attributes is not None
    assert one.attributes["a"] == "x" * MAX_TEXT


def test_warns_once_while_the_collector_is_away(caplog: pytest.LogCaptureFixture) -> None:
    kept = Sent()
    exporter = RedactingExporter(kept, Redactor(), with_content=False)
    with caplog.at_level(logging.WARNING):
        for fails in (True, True, False, False, True):
            kept.fails = fails
            exporter.export([])
    said = [record.message.split(":")[0] for record in caplog.records]
    assert said == ["collector_away", "collector_back", "collector_away"]


def test_a_file_gets_a_line_of_json_for_each_span(tmp_path: Path) -> None:
    exporter = LineExporter(tmp_path / "traces.jsonl")
    for name in ("one", "two"):
        Spans(SimpleSpanProcessor(exporter), Resource({})).write(span(ROOT, name, None, {}))
    lines = [json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == ["one", "two"]
    assert lines[0]["context"]["trace_id"].endswith("1")


def test_a_console_gets_lines_for_people(tmp_path: Path) -> None:
    exporter = LineExporter(tmp_path / "console", lines_for_people)
    spans = Spans(SimpleSpanProcessor(exporter), Resource({}))
    called = {"gen_ai.operation.name": "generate_content", "gen_ai.agent.name": "修复", "gen_ai.request.model": "m"}
    spans.write(span(ROOT, "generate_content m", None, called | {"gen_ai.usage.input_tokens": 7}))
    spans.write(span(ROOT, "send ekiden.dispatch", None, {"messaging.system": "celery"}))
    lines = (tmp_path / "console").read_text().splitlines()
    assert lines[0].startswith("[Trace] llm (修复) - ")
    assert lines[1:] == ["  Model: m", "  Tokens: 7 → 0"]


def test_the_standard_variables_name_the_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_for("ekiden-worker", {}, Redactor()).attributes["service.name"] == "ekiden-worker"
    env = {"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": f"team=a,key={SECRET}"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    attributes = resource_for("ekiden-worker", env, Redactor()).attributes
    assert (attributes["service.name"], attributes["team"]) == ("shop", "a")
    assert attributes["key"] == "[redacted]"
