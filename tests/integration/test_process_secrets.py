"""What another process of the same user finds of ours: nothing of the secrets that it was started with."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ekiden.shared import process_secrets
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.process_secrets import SECRETS_FD, handed_on, withdraw
from ekiden.shared.processes.children import start_child
from tests.unit.test_child_processes import until
from tests.unit.test_tool_processes import interpreter

ROOT = Path(__file__).parents[2]
SECRETS = {
    "GEMINI_API_KEY": "AIzaPlanted",
    "DB_PASS": "plantedpw",
    "EKIDEN_REDIS_URL": "redis://:planted@h",
    "LINES_OF": "planted\nvalue é \udcff",
}
PROGRAM = """
import os, subprocess, sys
from ekiden.shared.process_secrets import withdraw
withdraw()
print(os.getpid(), *(os.environ.get(name) == value for name, value in eval(sys.stdin.readline()).items()), flush=True)
print(subprocess.run("echo $DB_PASS", shell=True, capture_output=True, text=True).stdout.strip(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Start programs as ever: what the kernel shows of their start is what is tested."""


linux = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")


def first_environment(pid: object) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@contextmanager
def program(*words: str, user: int | None = None) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """Run ``PROGRAM``; yield its pid, and whether it knows each of the secrets."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}
    command = [interpreter(user), "-c", PROGRAM, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True, user=user) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{SECRETS!r}\n")
        process.stdin.flush()
        pid, *known = process.stdout.readline().split()
        yield pid, " ".join(known), process
        process.stdin.close()


@linux
def test_a_program_started_with_secrets_knows_them_and_shows_none() -> None:
    with program() as (pid, known, process):
        assert known == "True True True True"
        shown = first_environment(pid)
        assert b"lanted" not in shown
        assert f"HOME={os.environ['HOME']}".encode() in shown, "the rest stays"
        assert process.stdout is not None
        assert process.stdout.readline() == "plantedpw\n", "the C library knows them, too"


@linux
def test_a_password_in_the_arguments_is_blackened_and_its_user_told() -> None:
    with program("--redis", "redis://me:pl@nted@h:1/0", "--x=redis://h/0?password=planted") as (pid, _, process):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"nted" not in arguments
        assert b"--redis\0redis://me:*******@h:1/0\0--x=redis://h/0?password=*******\0" in arguments
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        assert "EKIDEN_REDIS_URL" in process.stderr.read()


@linux
@pytest.mark.parametrize(
    "command",
    [
        [str(Path(sys.executable).with_name("ekiden")), "jobs"],
        [sys.executable, "-m", "ekiden.dispatcher", "jobs"],
        [sys.executable, "-m", "celery", "-A", "ekiden.workers.app", "worker"],
        [sys.executable, "-m", "celery", "-A", "ekiden.dispatcher.app", "worker"],
    ],
    ids=["ekiden", "module", "celery, workers", "celery, dispatchers"],
)
def test_whichever_program_of_ours_is_started_shows_no_secret_once_it_asks_its_server(
    command: list[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"redis://:planted@127.0.0.1:{server.getsockname()[1]}"
        env = {**os.environ, **SECRETS, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "EKIDEN_REDIS_URL": address}
        process = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.accept()[0].close()
            shown = first_environment(process.pid)
        finally:
            process.kill()
            process.wait()
        assert b"lanted" not in shown
        assert b"HOME=" in shown


@linux
def test_a_signing_key_in_the_arguments_is_blackened_and_its_user_told() -> None:
    with program("config", "set", "ekiden.signing_key", "k1:planted") as (pid, _, process):
        assert Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0ekiden.signing_key\0**********\0")
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        assert "config set --global KEY -" in process.stderr.read()


@linux
@pytest.mark.parametrize("value", ["-", "@/a/file"])
def test_who_gives_no_key_in_the_arguments_is_told_nothing(value: str) -> None:
    with program("config", "set", "signing_key", value) as (pid, _, process):
        assert Path(f"/proc/{pid}/cmdline").read_bytes().endswith(f"\0{value}\0".encode())
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        assert process.stderr.read() == ""


@linux
def test_the_memory_of_a_program_that_holds_keys_is_closed_to_its_own_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else, to start a program whose memory is not root's")
    with program(user=65534) as (pid, _, _):
        script = f"open('/proc/{pid}/mem', 'rb')"
        tried = subprocess.run(
            [interpreter(65534), "-c", script], user=65534, capture_output=True, text=True, check=False
        )
        assert "PermissionError" in tried.stderr


@linux
def test_a_child_gets_secrets_by_a_socket_that_it_closes(tmp_path: Path) -> None:
    code = (
        "import os, sys; first = open('/proc/self/environ', 'rb').read()\n"
        "from ekiden.shared.processes.children import watch_parent\n"
        "number = int(os.environ['EKIDEN_SECRETS_FD']); watch_parent()\n"
        f"print(b'lanted' in first, all(os.environ[name] == value for name, value in {SECRETS!r}.items()))\n"
        "print('EKIDEN_SECRETS_FD' in os.environ, number in map(int, os.listdir('/proc/self/fd')))"
    )
    log = tmp_path / "log"
    child = start_child([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}, log=log)
    assert child.ends_within(20) == 0, log.read_text()
    assert log.read_text() == "False True\nFalse False\n"


@linux
def test_a_child_that_has_not_closed_its_memory_holds_nothing_that_others_could_open(tmp_path: Path) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    code = (
        "import os, time; print('up', flush=True); until = time.monotonic() + 60\n"
        f"while not os.path.exists({str(go)!r}) and time.monotonic() < until: time.sleep(0.01)\n"
        "from ekiden.shared.processes.children import watch_parent; watch_parent(); print(os.environ['DB_PASS'])"
    )
    child = start_child([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}, log=log)
    assert until(lambda: "up" in child.tail())
    assert b"lanted" not in readable_through_proc(child.pid)
    go.touch()
    assert child.ends_within(20) == 0, log.read_text()
    assert log.read_text() == "up\nplantedpw\n"


def readable_through_proc(pid: int) -> bytes:
    """Return what a process of the same user reads of all that ``pid`` holds open."""
    found = b""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError), os.fdopen(os.open(link, os.O_RDONLY | os.O_NONBLOCK), "rb", 0) as file:
            found += file.read(100_000) or b""
    return found


@linux
def test_a_child_asks_for_secrets_only_with_its_memory_closed(tmp_path: Path) -> None:
    code = (
        "import ctypes, os; write = os.write\n"
        "os.write = lambda fd, data: (print('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)), write(fd, data))\n"
        "from ekiden.shared.processes.children import watch_parent; watch_parent()"
    )
    log = tmp_path / "log"
    child = start_child([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}, log=log)
    assert child.ends_within(20) == 0, log.read_text()
    assert log.read_text() == "dumpable 0\n"


@linux
def test_a_program_closes_its_memory_also_when_nothing_around_it_is_named_like_a_secret() -> None:
    code = (
        "import ctypes; from ekiden.shared.process_secrets import withdraw; withdraw(); "
        "print(ctypes.CDLL(None).prctl(3))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    assert done.stdout == b"0\n"


def test_secrets_are_sent_to_who_asks_and_to_nobody_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with handed_on({"A": "x" * 1_000_000, "HOME": "/"}) as (env, [descriptor]):
        assert env == {"HOME": "/", SECRETS_FD: str(descriptor)}
        theirs = socket.socket(fileno=os.dup(descriptor))
    with pytest.raises(BlockingIOError):
        theirs.recv(1, socket.MSG_DONTWAIT)
    monkeypatch.setenv(SECRETS_FD, str(theirs.detach()))
    monkeypatch.delenv("A", raising=False)
    monkeypatch.setattr(sys, "platform", "any")  # the test's own first environment is not ours to wipe
    withdraw()
    assert os.environ.pop("A") == "x" * 1_000_000


def test_a_child_that_asks_too_late_gets_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_secrets, "READY_S", 0.01)
    with handed_on({"A_TOKEN": "abc"}) as (_, [descriptor]):
        late = os.dup(descriptor)
    assert until(lambda: not waiting())
    monkeypatch.setenv(SECRETS_FD, str(late))
    with pytest.raises(ConfigurationError, match="has not sent it"):
        withdraw()


def test_nobody_waits_for_a_child_that_has_ended_or_could_not_be_started() -> None:
    with handed_on({"A_TOKEN": "abc"}):
        pass
    with pytest.raises(FileNotFoundError), handed_on({"A_TOKEN": "abc"}):
        raise FileNotFoundError
    assert until(lambda: not waiting())


def waiting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hand-on"]


def test_an_environment_without_secrets_needs_no_descriptor() -> None:
    with handed_on({"HOME": "/", "EKIDEN_LEASE_S": "5"}) as handed:
        assert handed == ({"HOME": "/", "EKIDEN_LEASE_S": "5"}, [])


@pytest.mark.parametrize("value", ["x", "987654"])
def test_refuses_a_descriptor_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(process_secrets.SECRETS_FD, value)
    with pytest.raises(ConfigurationError, match="EKIDEN_SECRETS_FD"):
        withdraw()
