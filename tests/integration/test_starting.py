"""What a process starts: nothing that nobody asked for, and nothing that gets in anybody's way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.scratch import free_port

ROOT = Path(__file__).parents[2]
HEAVY = ("ekiden.shared.telemetry.sdk", "opentelemetry.exporter", "opentelemetry.sdk.trace", "prometheus_client")
LOADED = f"print([name for name in {HEAVY} if name in sys.modules])"
SUBMITTED = """
import asyncio, sys, time
from ekiden.shared.composition import LateHooks
late = LateHooks("test")
trace = late.traceparent()
late.started().job_submitted("abcdefghij234567.1", trace, "q", time.time_ns())
began = time.monotonic()
asyncio.run(late.close())
assert time.monotonic() - began < 30
"""


def run(code: str, folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "EKIDEN_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "HOME": str(folder), **env},
        check=True,
    )


def test_no_sdk_is_loaded_unless_there_is_somewhere_to_send_to(tmp_path: Path) -> None:
    modules = "ekiden.workers.bootstrap, ekiden.dispatcher.bootstrap, ekiden.shared.relay.runner"
    code = f"import {modules}\n{SUBMITTED}\n{LOADED}"
    assert run(code, tmp_path).stdout.strip() == "[]"
    on = run(code, tmp_path, OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="none")
    assert on.stdout.strip() == "['ekiden.shared.telemetry.sdk', 'opentelemetry.sdk.trace']"
    assert '"name": "send q"' in on.stderr, "console is standard error: a command's output is data"


def test_a_client_says_once_that_the_collector_is_away_and_not_where_data_goes(tmp_path: Path) -> None:
    done = run(SUBMITTED, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    assert done.stdout == ""
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["collector_away"]


COUNTED = """
from ekiden.shared.composition import hooks_for
from ekiden.shared.hooks.base import Hooks
from ekiden.shared.settings.model import load_settings
hooks = Hooks(*hooks_for("test", load_settings()))
hooks.leg_requeued("abcdefghij234567.1")
hooks.close()
"""


@pytest.mark.parametrize("traces", ["none", "file"])
def test_a_process_that_sends_metrics_alone_says_so_as_well(tmp_path: Path, traces: str) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_METRICS_EXPORTER": "otlp"}
    without = {"EKIDEN_TRACING_BACKEND": traces} if traces == "file" else {"OTEL_TRACES_EXPORTER": traces}
    done = run(COUNTED, tmp_path, **away, **without)
    assert done.stderr.splitlines() == [
        "collector_away: metrics come late until it is back; jobs go on as ever",
    ]


@pytest.mark.parametrize(("rate", "flag"), [("0", "00"), ("1", "01")])
def test_a_client_that_is_not_traced_chooses_for_those_who_are(tmp_path: Path, rate: str, flag: str) -> None:
    done = run(f"{SUBMITTED}\nprint(trace)", tmp_path, EKIDEN_TRACING_SAMPLE_RATE=rate)
    assert done.stdout.strip().endswith(f"-{flag}")


def test_a_file_gets_the_spans_where_there_is_no_collector(tmp_path: Path) -> None:
    run(SUBMITTED, tmp_path, EKIDEN_TRACING_BACKEND="file")
    (traces,) = (tmp_path / ".local" / "state" / "ekiden").glob("*/traces.jsonl")
    assert '"name": "send q"' in traces.read_text()
