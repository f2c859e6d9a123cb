"""What is forked off the template is what would have been started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.program import EKIDEN, Program
from tests.warm import COLD, WarmPopen


@pytest.mark.parametrize("words", [["--help"], ["jobs"], ["run", "--nonsense"], ["config", "list"]], ids=" ".join)
def test_says_the_same_and_ends_the_same(ekiden: Program, words: list[str]) -> None:
    outcomes = []
    for start in (COLD, WarmPopen):
        process = start([*EKIDEN, *words], cwd=ekiden.folder, env=ekiden.env, stdin=-3, stdout=-1, stderr=-1)
        outcomes.append((*process.communicate(timeout=60), process.returncode))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] + outcomes[0][1]


def test_is_a_child_with_an_environment_and_a_death_of_its_own(ekiden: Program, redis_url: str) -> None:
    running = ekiden.start("dispatcher")
    running.wait_for("Serving")
    process = psutil.Process(running.process.pid)
    assert "tests.warm" in process.cmdline()
    assert process.ppid() == os.getpid()
    assert os.getsid(process.pid) == process.pid
    shown = Path(f"/proc/{process.pid}/environ").read_bytes()
    assert b"HOME=" + os.fsencode(ekiden.env["HOME"]) + b"\0" in shown
    assert b"ROOM_FOR" not in shown
    assert process.cwd() == str(ekiden.folder)
    process.kill()
    assert running.ends() == -signal.SIGKILL


def test_whoever_sets_what_python_reads_as_it_starts_is_not_forked(ekiden: Program, redis_url: str) -> None:
    running = ekiden.start("dispatcher", env={"PYTHONUNBUFFERED": "1"})
    running.wait_for("Serving")
    assert "ekiden.dispatcher" in psutil.Process(running.process.pid).cmdline()


def test_whoever_finds_other_modules_than_the_template_is_not_forked(ekiden: Program) -> None:
    command = [sys.executable, "-m", "celery", "--version"]
    env = {**ekiden.env, **ekiden.broken_installation()}
    done = subprocess.run(command, env=env, cwd=ekiden.folder, capture_output=True, text=True, check=False)
    assert done.stderr == "celery is broken\n"
