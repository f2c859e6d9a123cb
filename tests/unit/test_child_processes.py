import _thread
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.processes.children import PARENT_FD, ChildProcess, start_child, stop_all, watch_parent
from tests.processes import is_gone

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}

WATCHING = """
import signal, sys, threading
from ekiden.shared.processes.children import watch_parent
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: (print("warm stop", flush=True), stop.set()))
watch_parent()
print("up", flush=True)
while not stop.wait(0.02): pass
"""
STUBBORN = """
import signal, subprocess, sys
from ekiden.shared.processes.children import watch_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
watch_parent(grace_s=0.1)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("up", grandchild.pid, flush=True)
while True: signal.pause()
"""
# Starts the child, then a bystander that would inherit every descriptor which is not marked.
PARENT = """
import os, subprocess, sys
from pathlib import Path
from ekiden.shared.processes.children import start_child
child = start_child([sys.executable, "-c", sys.argv[1]], env=os.environ, log=Path(sys.argv[2]))
bystander = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, bystander.pid, flush=True)
sys.stdin.read()
"""


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "child.log"


@pytest.fixture
def start(log: Path) -> Iterator[Callable[[str], ChildProcess]]:
    children = []

    def start(code: str) -> ChildProcess:
        children.append(start_child([sys.executable, "-c", code], env=ENV, log=log))
        return children[-1]

    yield start
    for child in children:
        child.stop(0.0)


def processes_of_a_killed_parent(code: str, log: Path) -> tuple[psutil.Process, psutil.Process]:
    """Start a parent with a child that runs the code and a bystander; kill the parent once the child is up."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, code, str(log)],
        env=ENV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout
    child, bystander = (psutil.Process(int(pid)) for pid in parent.stdout.readline().split())
    came_up = until(lambda: "up" in log.read_text())
    parent.kill()
    parent.communicate()
    assert came_up, log.read_text()
    return child, bystander


def test_a_child_stops_warmly_when_its_parent_is_killed_whatever_else_the_parent_started(log: Path) -> None:
    child, bystander = processes_of_a_killed_parent(WATCHING, log)
    try:
        assert until(lambda: is_gone(child))
        assert "warm stop" in log.read_text()
        assert not is_gone(bystander)
    finally:
        bystander.kill()


def test_a_child_that_does_not_stop_is_ended_with_its_group(log: Path) -> None:
    child, bystander = processes_of_a_killed_parent(STUBBORN, log)
    bystander.kill()
    grandchild = psutil.Process(int(log.read_text().split()[1]))
    assert until(lambda: is_gone(child) and is_gone(grandchild))


def test_stop_asks_first(start: Callable[[str], ChildProcess]) -> None:
    child = start(WATCHING)
    assert until(lambda: "up" in child.tail())
    assert child.poll() is None
    assert child.stop() == 0
    assert child.poll() == 0
    assert child.tail() == "up\nwarm stop"


def test_stop_kills_a_stubborn_child_and_its_group(start: Callable[[str], ChildProcess]) -> None:
    child = start(STUBBORN)
    assert until(lambda: "up" in child.tail())
    grandchild = psutil.Process(int(child.tail().split()[1]))
    assert child.stop(grace_s=0.1) == -signal.SIGKILL
    assert until(lambda: is_gone(grandchild))


def test_a_second_ctrl_c_does_not_wait_for_children_that_are_being_stopped(
    start: Callable[[str], ChildProcess],
) -> None:
    children = [start(STUBBORN), start(STUBBORN)]
    assert until(lambda: children[0].tail().count("up") == 2), "they write to the same log"
    began = time.monotonic()
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        stop_all(children, 1_000)
    assert stop_all(children, 0) == [-signal.SIGKILL] * 2
    assert time.monotonic() - began < 60


def test_stop_may_be_called_again_and_after_the_end(start: Callable[[str], ChildProcess]) -> None:
    child = start("raise SystemExit(7)")
    assert until(lambda: child.poll() is not None)
    assert child.stop() == child.stop() == 7


def test_stopping_one_child_leaves_no_descriptor_open(start: Callable[[str], ChildProcess]) -> None:
    start("pass").stop()  # what the first one needs may stay, such as a device of random numbers
    gc.collect()  # what other tests left open
    before = psutil.Process().num_fds()
    for _ in range(10):
        start("pass").stop()
    assert psutil.Process().num_fds() < before + 10  # what other tests left behind may open one, too


def test_a_child_is_out_of_reach_of_the_terminal(start: Callable[[str], ChildProcess]) -> None:
    child = start(WATCHING)
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid


def test_grandchildren_know_nothing_of_the_pipe(start: Callable[[str], ChildProcess]) -> None:
    child = start(f"""
import os, subprocess, sys
from ekiden.shared.processes.children import watch_parent
name = os.environ[{PARENT_FD!r}]
watch_parent()
code = "import os, sys; print(os.environ.get({PARENT_FD!r}), flush=True); os.fstat(int(sys.argv[1]))"
subprocess.run([sys.executable, "-c", code, name], close_fds=False)
""")
    assert until(lambda: child.poll() is not None)
    lines = child.tail().splitlines()
    assert lines[0] == "None"
    assert "Bad file descriptor" in lines[-1]


def test_tail_gives_the_last_lines_of_this_child_only(log: Path, start: Callable[[str], ChildProcess]) -> None:
    log.parent.mkdir()
    log.write_text("of an earlier run\n")
    child = start("for n in range(5): print(n)")
    assert until(lambda: child.poll() is not None)
    assert child.tail(2) == "3\n4"
    assert child.tail(20) == "0\n1\n2\n3\n4"
    assert child.tail(0) == ""


def test_a_program_that_cannot_be_started_is_named_and_leaves_no_descriptor(log: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(ConfigurationError, match="'/no/such/program'"):
        start_child(["/no/such/program"], env=ENV, log=log)
    assert psutil.Process().num_fds() <= before


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"file"):
        start_child([sys.executable, "-c", ""], env=ENV, log=tmp_path / "file" / "child.log")


def test_a_program_started_by_hand_watches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PARENT_FD, raising=False)
    watch_parent()


@pytest.mark.parametrize("value", ["", "nine", "9999"])
def test_refuses_a_descriptor_that_is_not_open(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PARENT_FD, value)
    with pytest.raises(ConfigurationError, match=PARENT_FD):
        watch_parent()
