"""What another process of the same user finds of ours: nothing of the secrets that it was started with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ekiden.shared import secrets
from ekiden.shared.children import start_child
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.secrets import SECRETS_FD, handed_on, withdraw
from tests.unit.test_processes import interpreter

ROOT = Path(__file__).parents[2]
SECRETS = {
    "GEMINI_API_KEY": "AIzaPlanted",
    "DB_PASS": "plantedpw",
    "EKIDEN_REDIS_URL": "redis://:planted@h",
    "LINES_OF": "planted\nvalue é \udcff",
}
PROGRAM = """
import os, subprocess, sys
from ekiden.shared.secrets import withdraw
withdraw()
print(os.getpid(), *(os.environ.get(name) == value for name, value in eval(sys.stdin.readline()).items()), flush=True)
print(subprocess.run("echo $DB_PASS", shell=True, capture_output=True, text=True).stdout.strip(), flush=True)
sys.stdin.readline()
"""
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
def test_a_child_gets_secrets_by_a_descriptor_that_it_closes(tmp_path: Path) -> None:
    code = (
        "import os, sys; first = open('/proc/self/environ', 'rb').read()\n"
        "from ekiden.shared.children import watch_parent\n"
        "number = int(os.environ['EKIDEN_SECRETS_FD']); watch_parent()\n"
        f"print(b'lanted' in first, all(os.environ[name] == value for name, value in {SECRETS!r}.items()))\n"
        "print('EKIDEN_SECRETS_FD' in os.environ, number in map(int, os.listdir('/proc/self/fd')))"
    )
    log = tmp_path / "log"
    child = start_child([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), **SECRETS}, log=log)
    assert child.ends_within(20) == 0, log.read_text()
    assert log.read_text() == "False True\nFalse False\n"


def test_more_than_a_pipe_holds_can_be_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    env, descriptor = handed_on({"A": "x" * 1_000_000, "HOME": "/"})
    assert descriptor is not None
    assert env == {"HOME": "/", SECRETS_FD: str(descriptor)}
    monkeypatch.setenv(SECRETS_FD, str(descriptor))
    monkeypatch.delenv("A", raising=False)
    monkeypatch.setattr(sys, "platform", "any")  # the test's own first environment is not ours to wipe
    withdraw()
    assert os.environ.pop("A") == "x" * 1_000_000


def test_elsewhere_than_on_linux_a_pipe_hands_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    _, descriptor = handed_on({"A_TOKEN": "abc"})
    assert descriptor is not None
    assert os.read(descriptor, 100) == b"A_TOKEN=abc"
    os.close(descriptor)
    with pytest.raises(ConfigurationError, match="more than"):
        handed_on({"A_TOKEN": "x" * 10_000_000})


def test_an_environment_without_secrets_needs_no_descriptor() -> None:
    assert handed_on({"HOME": "/", "EKIDEN_LEASE_S": "5"}) == ({"HOME": "/", "EKIDEN_LEASE_S": "5"}, None)


@pytest.mark.parametrize("value", ["x", "987654"])
def test_refuses_a_descriptor_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(secrets.SECRETS_FD, value)
    with pytest.raises(ConfigurationError, match="EKIDEN_SECRETS_FD"):
        withdraw()
