"""What a user may get wrong: one line that says what to do, the documented exit code, no traceback, nothing started."""

import socket
import sys
from pathlib import Path

import pytest

from tests.e2e.program import Program


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


BAD = [
    (["run"], 2, "nothing to do"),
    (["run", ""], 2, "the prompt is empty"),
    (["run", "-"], 2, "the prompt is empty"),
    (["run", "x", "--cwd", "missing"], 2, "--cwd 'missing' is no folder"),
    (["run", "x", "--cwd", "file"], 2, "is no folder"),
    (["run", "x", "--cwd", "/", "--workspace-root", "."], 2, "lies outside --workspace-root"),
    (["run", "x", "--demo", "--cwd", "."], 2, "leave out --cwd"),
    (["run", "x", "--data-dir", "file"], 2, "cannot keep data in"),
    (["run", "x", "--redis", "nonsense"], 2, "is no Redis address"),
    (["run", "x", "--redis", "redis://:secret@127.0.0.1:PORT"], 3, "no Redis server answers"),
    (["submit", " "], 2, "the prompt is empty"),
    (["submit", "x"], 3, "no server here"),
    (["submit", "x", "--follow", "--wait"], 2, "exclude each other"),
    (["submit", "x", "--redis", "redis://127.0.0.1:PORT"], 3, "no Redis server answers"),
    (["jobs"], 3, "no server here"),
    (["status"], 3, "no server here"),
    (["job", "show", "x"], 3, "no server here"),
    (["dispatcher"], 3, "no Redis server: set EKIDEN_REDIS_URL"),
    (["dispatcher", "--redis", "redis://127.0.0.1:PORT"], 3, "no Redis server answers"),
    (["worker"], 3, "no Redis server: set EKIDEN_REDIS_URL"),
    (["worker", "--redis", "redis://127.0.0.1:PORT"], 3, "no Redis server answers"),
    (["worker", "--workspace-root", "missing"], 2, "is no folder"),
    (["worker", "--agents", ","], 2, "--agents names nobody"),
    (["up", "--workspace-root", "missing"], 2, "is no folder"),
]


@pytest.mark.parametrize(("args", "code", "text"), BAD, ids=[" ".join(args) for args, _, _ in BAD])
def test_is_refused_in_one_line(ekiden: Program, args: list[str], code: int, text: str) -> None:
    (ekiden.folder / "file").touch()
    port = str(free_port())
    done = ekiden.run(*(arg.replace("PORT", port) for arg in args))
    *before, last = done.stderr.splitlines()
    assert text in last
    assert ["stands in the command line" in line for line in before] == [True] * any(":secret@" in arg for arg in args)
    assert "secret" not in done.stderr
    assert done.returncode == code
    assert done.stdout.count("\n") <= 1, "at most what it wanted to serve"
    assert not ekiden.data.exists()


def test_a_setting_that_cannot_be_is_named(ekiden: Program, redis_url: str) -> None:
    done = ekiden.run("worker", env={"EKIDEN_LEASE_S": "long"})
    assert done.returncode == 2
    assert "environment EKIDEN_LEASE_S" in done.stderr
    assert done.stderr.count("\n") == 1
    done = ekiden.run("dispatcher", env={"EKIDEN_AGENTS_DIR": '["folder"'})
    assert done.returncode == 2
    assert "environment EKIDEN_AGENTS_DIR" in done.stderr
    assert "JSON list" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_agent_is_refused_before_anything_is_submitted(ekiden: Program) -> None:
    done = ekiden.run("run", "--agent", "debuger", "x")
    assert done.returncode == 2
    assert "did you mean 'debugger'?" in done.stderr
    ekiden.wait_until_gone()
    assert ekiden.run("jobs", "--json").stdout == ""
    missing = ekiden.run("job", "show", "nothing")
    assert missing.returncode == 4
    assert "no job id begins with 'nothing'" in missing.stderr


def test_nobody_reads_the_output(ekiden: Program, tmp_path: Path) -> None:
    head = ekiden.start(program=["sh", "-c", f"{sys.executable} -m ekiden.dispatcher run --demo | head -n 1"])
    assert head.ends() == 0
    assert "Traceback" not in head.output
    assert "Exception" not in head.output
    ekiden.wait_until_gone()
    assert "cancelled" in ekiden.run("jobs").stdout


def test_the_doctor_says_once_which_setting_is_wrong_and_ends_as_for_bad_input(ekiden: Program) -> None:
    for given in (["--redis", "redis://127.0.0.1:port/0"], []):
        ekiden.env["EKIDEN_REDIS_URL"] = "redis://127.0.0.1:port/0"
        done = ekiden.run("doctor", *given)
        assert done.returncode == 2
        [line] = done.stdout.splitlines()
        assert "this is no Redis address: its port is no number from 1 to 65535; expected" in line
