"""A run of the tests that is ended, however, leaves no process behind."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.program import wait_until

MARK = "STARTED_FOR"
"""A variable that all programs of a run inherit."""
TEST = """
import time
from tests.e2e.conftest import ekiden, redis_url, warm
from tests.integration.scratch import scratch_server

def test_that_takes_long(ekiden, redis_url, tmp_path):
    with scratch_server(tmp_path):
        ekiden.start("dispatcher").wait_for("Serving new jobs")
        ekiden.start(600, program=["sleep"])
        (ekiden.folder.parent / "up").touch()
        time.sleep(600)
"""


def programs_of(mark: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if is_of(process, mark)]


def is_of(process: psutil.Process, mark: Path) -> bool:
    """Whether it was started for this run: a server overwrites its variables, and is in its folder."""
    try:
        known = process.environ().get(MARK) == str(mark) or Path(process.cwd()).is_relative_to(mark)
        return known and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the tests' servers have their sockets in folders below it."""
    with tempfile.TemporaryDirectory(prefix="ekiden-") as path:
        yield Path(path)


@pytest.mark.parametrize(
    ("processes", "how"), [("0", signal.SIGKILL), ("0", signal.SIGINT), ("1", signal.SIGTERM)], ids=str
)
def test_leaves_no_process(folder: Path, processes: str, how: signal.Signals) -> None:
    (folder / "test_long.py").write_text(TEST)
    options = ["-n", processes, "-p", "no:cacheprovider", "--basetemp", str(folder / "tests")]
    running = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, folder / "test_long.py"],
        # of the run that this test is part of, the one that it starts is no part
        env={**{name: value for name, value in os.environ.items() if "PYTEST" not in name}, MARK: str(folder)},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: list((folder / "tests").rglob("up")), 150, "the test runs")
        assert len(programs_of(folder)) >= 5, "pytest, a template, two servers, two programs: so they are found"
        running.send_signal(how)
        running.wait(60)
        wait_until(lambda: not programs_of(folder), 60, f"still there: {programs_of(folder)}")
    finally:
        for program in programs_of(folder):
            program.kill()
