"""The real program in subprocesses, as users start it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.warm import end_with_parent

PATIENCE_S = 90.0
"""How long a test waits for what is to come in a moment: so much only where it does not come, or a machine is busy."""
EKIDEN = [sys.executable, "-m", "ekiden.dispatcher"]
SLOW_SCRIPT = """
agents:
  "*":
    - name: think
      delay_s: 600
      say: never said
"""
_ended: list["Program"] = []
"""The programs of the module whose tests run; what they started has a moment to go."""
ANSWER_SCRIPT = """
agents:
  "*":
    - name: answer
      say: "forty-two, says ${agent}"
"""


def wait_until(condition: Callable[[], object], within_s: float = PATIENCE_S, what: str = "") -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or condition}"
        time.sleep(0.02)


@dataclass
class Running:
    """A program that runs beside the test; both its outputs are in one file."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_for(self, text: str, within_s: float = PATIENCE_S) -> None:
        def is_there() -> bool:
            if text in self.output:
                return True
            assert self.process.poll() is None, f"ended without saying {text!r}: {self.output}"
            return False

        deadline = time.monotonic() + within_s
        while not is_there():
            assert time.monotonic() < deadline, f"did not say {text!r}: {self.output}"
            time.sleep(0.02)

    def ends(self, within_s: float = PATIENCE_S) -> int:
        return self.process.wait(within_s)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@dataclass
class Program:
    """Runs ``ekiden`` as a user in a folder of their own would."""

    folder: Path
    env: dict[str, str]
    started: list[Running] = field(default_factory=list)
    others: Set[psutil.Process] = field(default_factory=lambda: frozenset(psutil.process_iter()))
    """What ran before: none of it is ours, and reading the environments of a whole machine takes long."""

    @property
    def data(self) -> Path:
        return Path(self.env["EKIDEN_DATA_DIR"])

    def run(
        self, *args: object, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*EKIDEN, *map(str, args)],
            cwd=self.folder,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *args: object, program: list[str] | None = None, env: Mapping[str, str] | None = None) -> Running:
        log = self.folder.parent / f"output-{len(self.started)}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*(program or EKIDEN), *map(str, args)],
                cwd=self.folder,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - also when the tests are killed
            )
        self.started.append(Running(process, log))
        return self.started[-1]

    def scripts(self, text: str) -> dict[str, str]:
        """Return the setting that lets the scripted model say ``text``'s replies."""
        folder = self.folder.parent / f"scripts-{abs(hash(text))}"
        folder.mkdir(exist_ok=True)
        (folder / "script.yaml").write_text(text)
        return {"EKIDEN_SCRIPTS_DIR": str(folder)}

    def broken_installation(self) -> dict[str, str]:
        """Return an environment in which no pool can start."""
        folder = self.folder.parent / "broken"
        folder.mkdir()
        (folder / "celery.py").write_text("raise SystemExit('celery is broken')\n")
        return {"PYTHONPATH": str(folder)}

    def processes(self) -> list[psutil.Process]:
        """Return everything that runs for this home: what we started passes its environment on."""
        found = []
        for process in psutil.process_iter():
            if process in self.others:
                continue
            try:
                if process.environ().get("HOME") == self.env["HOME"] and process.is_running():
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_until_gone(self, within_s: float = PATIENCE_S) -> None:
        wait_until(lambda: not self.processes(), within_s, f"still running: {self.processes()}")

    def end_all(self) -> None:
        for running in self.started:
            if running.process.poll() is None:
                running.process.terminate()
        for running in self.started:
            try:
                running.process.wait(30)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()


@contextmanager
def program_in(path: Path) -> Iterator[Program]:
    """Give a program with folders of its own below ``path``; what it starts is asked to end with the block.

    ``all_gone`` waits until all of it has: an embedded server stays for a second after its last user.
    """
    folder, home, temporary = path / "folder", path / "home", path / "tmp"
    for each in (folder, home, temporary):
        each.mkdir()
    env = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}
    env["EKIDEN_DATA_DIR"] = str(path / "data")
    program = Program(folder, env)
    try:
        yield program
    finally:
        program.end_all()
        _ended.append(program)


@pytest.fixture(autouse=True, scope="module")
def all_gone() -> Iterator[None]:
    """See to it that nothing that the programs of a module started outlives it."""
    _ended.clear()
    yield
    while _ended:
        _ended.pop().wait_until_gone()
