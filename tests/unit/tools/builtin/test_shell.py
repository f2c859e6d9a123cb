import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin import subprocesses
from ekiden.workers.tools.builtin.shell import Bash, bash, environment
from ekiden.workers.tools.builtin.subprocesses import run_command
from tests.processes import is_gone, name_of


def _call(command: str, context: ToolContext, timeout_s: float = 60) -> Coroutine[Any, Any, str]:
    return bash.function(Bash(command=command, timeout_s=timeout_s), context)  # type: ignore[return-value] # it is async


def _run(command: str, context: ToolContext, timeout_s: float = 60) -> str:
    return asyncio.run(_call(command, context, timeout_s))


def _pids(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


async def _until(claim: Callable[[], bool], deadline_s: float = 60) -> None:
    async with asyncio.timeout(deadline_s):
        while not claim():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


async def _pids_in(file: Path, count: int) -> list[int]:
    """Wait until a command has written the process ids that it was asked for."""
    await _until(lambda: len(_pids(file)) == count)
    return _pids(file)


def _all_gone(pids: list[int], deadline_s: float = 10) -> bool:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if all(map(is_gone, pids)):
            return True
        time.sleep(0.01)
    return False


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_runs_in_the_jobs_folder_and_ends_with_the_exit_code(cwd: Path, context: ToolContext) -> None:
    assert _run("pwd -P; echo 你好; exit 3", context) == f"{os.path.realpath(cwd)}\n你好\nexit code: 3"


def test_merges_both_streams_in_order(context: ToolContext) -> None:
    assert _run("echo 1; echo 2 >&2; echo 3", context) == "1\n2\n3\nexit code: 0"


def test_gives_only_the_exit_code_when_there_is_no_output(context: ToolContext) -> None:
    assert _run("true", context) == "exit code: 0"


def test_has_no_input_to_wait_for(context: ToolContext) -> None:
    assert _run("cat; read x; echo got:$x", context) == "got:\nexit code: 0"


def test_names_a_signal_as_a_shell_does(context: ToolContext) -> None:
    assert _run("kill -KILL $$", context) == "exit code: 137"


def test_replaces_bytes_that_are_not_utf8(context: ToolContext) -> None:
    assert _run(r"printf 'caf\351\n'", context) == "caf\ufffd\nexit code: 0"


def test_keeps_head_and_tail_of_long_output(context: ToolContext) -> None:
    text = _run("echo first; yes 一二三四五六七八九 | head -n 200000; echo last", context)
    assert text.startswith("first\n一二三")
    assert text.endswith("七八九\nlast\nexit code: 0")
    assert "characters left out" in text
    assert "\ufffd" not in text
    assert 1_000_000 <= len(text) < 1_000_200


def test_keeps_both_ends_to_the_character(cwd: Path) -> None:
    told = ["sh", "-c", "for n in 1 2 3 4 5 6 7 8 9; do printf 一二三$n; done"]
    finished = asyncio.run(run_command(told, cwd=cwd, env=os.environ, timeout_s=60, max_chars=11))
    assert finished.output == "一二三1一\n(cut: 26 characters left out here)\n8一二三9"


def test_keeps_output_that_just_fits(context: ToolContext) -> None:
    assert _run("head -c 1000000 /dev/zero | tr '\\0' x", context) == "x" * 1_000_000 + "\nexit code: 0"


def test_finds_this_interpreter_as_python_and_python3(context: ToolContext) -> None:
    text = _run("python -c 'import sys; print(sys.prefix)'; python3 -c 'import sys; print(sys.prefix)'", context)
    assert text == f"{sys.prefix}\n{sys.prefix}\nexit code: 0"


def test_writes_no_byte_code(cwd: Path, context: ToolContext) -> None:
    (cwd / "mod.py").write_text("x = 1\n")
    assert _run("python -c 'import mod'", context) == "exit code: 0"
    assert not (cwd / "__pycache__").exists()


def test_a_command_gets_what_the_worker_passes_on_and_nothing_else(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYTHING", "s3cret")
    given = replace(context, env={"GIVEN": "given", "PATH": os.environ["PATH"]})
    names = {line.partition("=")[0] for line in _run("env", given).splitlines() if "=" in line}
    assert names - {"_", "PWD", "SHLVL"} == {"GIVEN", "PATH", "PYTHONDONTWRITEBYTECODE", "NO_COLOR"}
    assert environment({"PATH": "/bin"})["PATH"] == f"{Path(sys.executable).parent}:/bin"


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not heed SIGTERM is given a moment only."""
    monkeypatch.setattr(subprocesses, "TERM_S", 0.1)


@pytest.mark.usefixtures("briefly")
def test_ends_the_whole_group_when_the_time_is_up(cwd: Path, context: ToolContext) -> None:
    command = "trap '' TERM; sleep 300 & echo $$ $! > pids; echo begun; wait"
    text = _run(command, context, timeout_s=1)
    assert text == "begun\n(ended after 1 s with all its processes: timed out)\nexit code: 124"
    assert len(_pids(cwd / "pids")) == 2
    assert _all_gone(_pids(cwd / "pids"))


@pytest.mark.usefixtures("briefly")
def test_kills_the_whole_group_when_cancelled(cwd: Path, context: ToolContext) -> None:
    async def cancelled() -> list[int]:
        # Both ignore SIGTERM: only SIGKILL ends them.
        call = asyncio.ensure_future(
            _call(
                "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $$ $! > pids; wait; sleep 300", context
            )
        )
        pids = await _pids_in(cwd / "pids", 2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return pids

    assert _all_gone(asyncio.run(cancelled()))


def test_lets_a_cancelled_command_clean_up(cwd: Path, context: ToolContext) -> None:
    async def cancelled() -> None:
        call = asyncio.ensure_future(
            _call("trap 'echo bye > clean; exit' TERM; echo $$ > pids; while :; do sleep 0.05; done", context)
        )
        await _pids_in(cwd / "pids", 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert (cwd / "clean").read_text() == "bye\n"


def test_kills_at_once_when_cancelled_a_second_time(
    cwd: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocesses, "TERM_S", 1_000)

    async def cancelled() -> list[int]:
        call = asyncio.ensure_future(_call("trap '' TERM; echo $$ > pids; while :; do sleep 0.1; done", context))
        pids = await _pids_in(cwd / "pids", 1)
        call.cancel()
        await asyncio.wait([call], timeout=0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await _until(lambda: not any(map(psutil.pid_exists, pids)))  # until asyncio has reaped it
        return pids

    assert _all_gone(asyncio.run(cancelled()))


def test_leaves_nothing_behind_when_cancelled_while_starting(cwd: Path, context: ToolContext) -> None:
    async def cancelled(turns: int) -> None:
        call = asyncio.ensure_future(_call("sleep 300", context))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    _run("true", context)  # from now on there is a reaper
    before = _open_files()
    for turns in range(12):
        asyncio.run(cancelled(turns))
    assert _all_gone([child.pid for child in psutil.Process().children() if "sleep" in name_of(child)])
    assert _open_files() == before


def test_is_not_held_up_by_a_background_child_with_the_pipe(cwd: Path, context: ToolContext) -> None:
    began = time.monotonic()
    text = _run("sleep 300 & echo $! > pids; echo done", context)
    assert text == "done\nexit code: 0"
    assert time.monotonic() - began < 60
    assert _all_gone([int((cwd / "pids").read_text())])


DAEMON = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("daemon", "w").write(str(os.getpid()))
time.sleep(300)
"""


def test_ends_what_left_the_group_as_well(cwd: Path, context: ToolContext) -> None:
    (cwd / "daemon.py").write_text(DAEMON)
    began = time.monotonic()
    text = _run(
        "setsid sleep 300 & nohup sleep 300 2>/dev/null & (setsid sh -c 'echo $$ > session; exec sleep 300' &)\n"
        "python daemon.py; while [ ! -s daemon ] || [ ! -s session ]; do sleep 0.01; done; jobs -p > jobs; echo done",
        context,
    )
    assert text == "done\nexit code: 0"
    assert time.monotonic() - began < 60
    pids = [pid for file in ("jobs", "session", "daemon") for pid in _pids(cwd / file)]
    assert len(pids) == 4
    assert [pid for pid in pids if not is_gone(pid)] == [], "nothing is left when the call has ended"


@pytest.mark.usefixtures("briefly")
def test_ends_what_left_the_group_with_a_command_that_is_cancelled(cwd: Path, context: ToolContext) -> None:
    (cwd / "daemon.py").write_text(DAEMON)

    async def cancelled() -> None:
        call = asyncio.ensure_future(_call("trap '' TERM; python daemon.py; while :; do sleep 1; done", context))
        await _pids_in(cwd / "daemon", 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert is_gone(_pids(cwd / "daemon")[0])


def test_leaves_the_processes_of_other_calls_alone(cwd: Path, context: ToolContext) -> None:
    """Both calls start daemons that only the reaper could find; one call ends first."""

    async def two() -> str:
        other = asyncio.ensure_future(
            _call("(setsid sh -c 'echo $$ > other; exec sleep 300' &); while [ ! -e go ]; do sleep 0.01; done", context)
        )
        await _pids_in(cwd / "other", 1)
        await _call("(setsid sh -c 'echo $$ > first; exec sleep 300' &); while [ ! -s first ]; do :; done", context)
        assert is_gone(_pids(cwd / "first")[0])
        assert not is_gone(_pids(cwd / "other")[0])
        (cwd / "go").touch()
        return await other

    assert asyncio.run(two()) == "exit code: 0"
    assert is_gone(_pids(cwd / "other")[0])


def test_a_command_that_kills_whoever_watches_over_it_ends_with_an_error(cwd: Path, context: ToolContext) -> None:
    kills = (
        "(setsid sh -c 'echo $$ > left; exec sleep 300' &); while [ ! -s left ]; do :; done; kill -9 $PPID; sleep 300"
    )
    with pytest.raises(ToolError, match="watched over it was killed; what it did is unknown"):
        _run(kills, context)
    assert _all_gone(_pids(cwd / "left"))
    assert _run("echo still here", context) == "still here\nexit code: 0"


def test_sees_nothing_of_the_workers_environment_above_it(
    cwd: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "s3cret")
    assert "s3cret" not in _run("tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/cmdline", context)


def test_runs_many_at_once(context: ToolContext) -> None:
    async def many() -> list[str]:
        return await asyncio.gather(*(_call(f"echo {n}", context) for n in range(30)))

    assert asyncio.run(many()) == [f"{n}\nexit code: 0" for n in range(30)]


def test_explains_what_cannot_be_started(cwd: Path, context: ToolContext) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        _run("echo a\0b", context)
    with pytest.raises(ToolError, match="could not be started: No such file"):
        _run("true", replace(context, cwd=cwd / "gone"))


def test_a_failing_start_leaves_no_open_files(cwd: Path) -> None:
    async def start() -> None:
        await run_command(["/does/not/exist"], cwd=cwd, env={}, timeout_s=1, max_chars=10)

    with pytest.raises(FileNotFoundError):
        asyncio.run(start())  # from now on there is a reaper
    before = _open_files()
    with pytest.raises(FileNotFoundError):
        asyncio.run(start())
    assert _open_files() == before
