"""Programs under the reaper: nothing of them is left when what they were started for is over, however that ends."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from ekiden.shared.errors import CommandLost
from ekiden.shared.processes import tools as tool_processes
from ekiden.shared.processes.tools import Process, start
from tests.processes import is_gone

ROOT = Path(__file__).parents[2]
# Leaves a process behind in every way there is, writes their ids and its own, and goes on.
EVERYWHERE = """
import os, signal, time

def spawn(*how):
    argv = [*how, "sleep", "300"]
    pids.append(os.posix_spawnp(argv[0], argv, os.environ))

def daemon():
    told, tells = os.pipe()
    if not os.fork():
        os.setsid()
        pid = os.fork()
        if not pid:
            os.execvp("sleep", ["sleep", "300"])
        os.write(tells, str(pid).encode())
        os._exit(0)
    os.wait()
    pids.append(int(os.read(told, 20)))

signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids = [os.getpid()]
spawn()
spawn("setsid")
spawn("nohup")
daemon()
with open("pids.new", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename("pids.new", "pids")
time.sleep(300)
"""
# A worker: starts that program, keeps its lifetime moving until a signal makes it a short one, never ends by itself.
WORKER = f"""
import asyncio, os, signal, sys, time
from pathlib import Path
from ekiden.shared.processes.tools import start

class Lifetime:
    valid_until = time.monotonic() + 20
    prolonged = set()

def live_on(seconds):
    Lifetime.valid_until = time.monotonic() + seconds
    for tell in list(Lifetime.prolonged):
        tell()

def stop():
    live_on(0.1)
    os.kill(os.getpid(), signal.SIGSTOP)

async def work():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop)
    await start([sys.executable, "-I", "-S", "-c", {EVERYWHERE!r}], cwd=Path(), env=os.environ, lifetime=Lifetime)
    while True:
        await asyncio.sleep(0.1)
        live_on(2)

asyncio.run(work())
"""
# The same program, once it has harmed those who watch over it.
ATTACK = EVERYWHERE.replace(
    "time.sleep(300)",
    """
shim = os.getppid()
with open(f"/proc/{{shim}}/stat") as stat:
    reaper = int(stat.read().rpartition(")")[2].split()[1])
for watcher in (reaper, shim):
    os.kill(watcher, signal.{signal})
time.sleep(300)
""",
)
# A worker that adopts what is left of its reaper: starts that program, sees it lost, and starts another.
ATTACKED = """
import asyncio, os, sys
from pathlib import Path
from ekiden.shared.errors import CommandLost
from ekiden.shared.processes.tools import prepare, start

async def work():
    prepare()
    argv = [sys.executable, "-I", "-S", "-c", sys.argv[1]]
    while True:  # those that the killed reaper was asked for are lost, too
        try:
            process = await start(argv, cwd=Path(), env=os.environ)
            sys.exit(await process.wait())
        except CommandLost:
            argv = ["sh", "-c", "exit 3"]

asyncio.run(work())
"""
NOBODY = 65534


@dataclass
class Lasting:
    """A lifetime that ends when the test says so."""

    valid_until: float = field(default_factory=lambda: time.monotonic() + 1_000)
    prolonged: set[Callable[[], None]] = field(default_factory=set)

    def until(self, moment: float) -> None:
        """Move the end."""
        self.valid_until = moment
        for tell in list(self.prolonged):
            tell()


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[tool_processes._Reaper]:
    """A reaper that the test may harm."""
    own = tool_processes._Reaper()
    monkeypatch.setattr(tool_processes, "_reaper", own)
    yield own
    own.close()


@dataclass
class Worker:
    """A worker, and what its program has left in every place there is."""

    process: psutil.Process
    left: list[psutil.Process]


@pytest.fixture(params=["as whoever tests", "as nobody"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker whose program runs."""
    user = NOBODY if request.param == "as nobody" else None
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root can become somebody else, and all the other tests run as you")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is for nobody but its owner
        if user is not None:
            os.chown(folder, user, -1)
        child = subprocess.Popen([interpreter(user), "-c", WORKER], cwd=folder, env=env, user=user)
        try:
            assert until(Path(folder, "pids").exists), child.poll()
            yield Worker(psutil.Process(child.pid), left_in(Path(folder)))
        finally:
            child.kill()
            child.wait()


def interpreter(user: int | None) -> str:
    """A Python that the user may run: ours may lie in somebody's home."""
    for program in (sys.executable, "/usr/bin/python3"):
        is_new = [program, "-c", "import sys; raise SystemExit(sys.version_info < (3, 11))"]
        with contextlib.suppress(OSError):
            if subprocess.run(is_new, user=user, check=False).returncode == 0:
                return program
    pytest.skip("this user may run no Python")


def left_in(folder: Path) -> list[psutil.Process]:
    return [psutil.Process(int(pid)) for pid in (folder / "pids").read_text().split()]


def nothing_left_in(folder: Path) -> bool:
    """Whether all have ended, most of them perhaps before anybody looks."""
    pids = map(int, (folder / "pids").read_text().split())
    running = {process.pid: process for process in psutil.process_iter()}
    return all(pid not in running or is_gone(running[pid]) for pid in pids)


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def until_async(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    return await asyncio.to_thread(until, condition, seconds)


async def python(code: str, cwd: Path, **more: Any) -> Process:
    return await start([sys.executable, "-I", "-S", "-c", code], cwd=cwd, env=os.environ, **more)


async def end_of(process: Process) -> int:
    """Return the exit code, when nothing is left."""
    try:
        return await process.wait()
    finally:
        await process.end()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_nothing_is_left_of_a_killed_worker(worker: Worker) -> None:
    below = worker.process.children(recursive=True)
    assert len(worker.left) == 5
    assert set(worker.left) <= set(below), "also those that have left their session are below the reaper"
    worker.process.kill()
    assert until(lambda: all(map(is_gone, below))), [one for one in below if not is_gone(one)]


def test_nothing_is_left_of_a_worker_that_was_stopped_past_its_lease(worker: Worker) -> None:
    time.sleep(2.5)  # longer than its lease, which it renews: that something does not happen takes time to see
    assert not any(map(is_gone, worker.left))
    worker.process.send_signal(signal.SIGUSR1)
    assert until(lambda: all(map(is_gone, worker.left))), [one for one in worker.left if not is_gone(one)]
    assert worker.process.status() == psutil.STATUS_STOPPED


def test_what_outlives_its_lifetime_is_killed_and_its_caller_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        lifetime = Lasting()
        process = await python(EVERYWHERE, tmp_path, lifetime=lifetime)
        assert await until_async((tmp_path / "pids").exists)
        left = left_in(tmp_path)
        lifetime.until(time.monotonic() + 0.1)
        with pytest.raises(CommandLost, match="has lost the lease"):
            await process.wait()
        lifetime.until(time.monotonic() + 100)  # too late
        await process.end()
        assert all(map(is_gone, left))
        assert lifetime.prolonged == set()

    run(scenario())


def test_a_lifetime_that_is_over_already_starts_nothing_that_lasts(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await python(EVERYWHERE, tmp_path, lifetime=Lasting(time.monotonic() - 1))
        with pytest.raises(CommandLost):
            await end_of(process)

    run(scenario())


def test_a_killed_reaper_takes_its_programs_along_and_is_replaced(ours: tool_processes._Reaper, tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await python(EVERYWHERE, tmp_path)
        assert await until_async((tmp_path / "pids").exists)
        left = left_in(tmp_path)
        first = ours._process
        assert first is not None
        first.kill()
        with pytest.raises(CommandLost, match="was killed"):
            await end_of(process)
        assert await until_async(lambda: all(map(is_gone, left)))
        assert await end_of(await python("raise SystemExit(3)", tmp_path)) == 3
        assert first.poll() == -signal.SIGKILL, "it is no zombie"

    run(scenario())


def test_a_reaper_that_does_nothing_is_replaced(
    ours: tool_processes._Reaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_processes, "_CAN_WATCH", False)

    async def scenario() -> None:
        ours.prepare()
        assert ours._process is not None
        ours._process.send_signal(signal.SIGSTOP)
        for name in ("START_S", "TERM_S", "TOOL_S"):
            monkeypatch.setattr(tool_processes, name, 0.2)
        with pytest.raises(CommandLost, match=r"not started within 0\.2 s"):
            await python("", tmp_path)
        monkeypatch.undo()
        assert await end_of(await python("", tmp_path)) == 0

    run(scenario())


def test_programs_wait_for_a_reaper_that_cannot_keep_up(
    ours: tool_processes._Reaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_processes, "_CAN_WATCH", False)

    async def scenario() -> None:
        control = ours.prepare()
        assert ours._process is not None
        ours._process.send_signal(signal.SIGSTOP)
        asking = [asyncio.ensure_future(start(["true"], cwd=tmp_path, env=os.environ)) for _ in range(30)]
        await asyncio.sleep(0)
        assert ours._control is control
        ours._process.send_signal(signal.SIGCONT)
        assert [await end_of(process) for process in await asyncio.gather(*asking)] == [0] * 30
        assert ours._control is control, "nobody has killed it"

    run(scenario())


def test_a_program_whose_shim_was_stopped_is_ended(ours: tool_processes._Reaper, tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await python(EVERYWHERE, tmp_path)
        assert await until_async((tmp_path / "pids").exists)
        left = left_in(tmp_path)
        os.kill(psutil.Process(process.pid).ppid(), signal.SIGSTOP)
        with pytest.raises(CommandLost):
            await end_of(process)
        assert await until_async(lambda: all(map(is_gone, left)))

    run(scenario())


def test_a_program_that_stops_all_who_watch_it_is_killed_at_once(ours: tool_processes._Reaper, tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(CommandLost):  # at its start, if it is quicker than the word of it
            await end_of(await python(ATTACK.format(signal="SIGSTOP"), tmp_path, lifetime=Lasting()))
        assert await until_async(lambda: nothing_left_in(tmp_path))
        assert await end_of(await python("raise SystemExit(3)", tmp_path)) == 3

    if sys.platform != "linux":
        pytest.skip("a reaper is watched on Linux only")
    run(scenario())


@pytest.mark.parametrize("hears", ["at once", "too late"])
def test_nothing_is_left_of_a_program_that_kills_all_who_watch_it(tmp_path: Path, hears: str) -> None:
    if sys.platform != "linux":
        pytest.skip("a reaper is watched on Linux only")
    late = "" if hears == "at once" else "from ekiden.shared.processes import tools; tools._Reaper._watch = print\n"
    beside = subprocess.Popen([sys.executable, "-c", late + ATTACKED, ATTACK.format(signal="SIGKILL")], cwd=tmp_path)
    try:
        assert until((tmp_path / "pids").exists)
        assert until(lambda: nothing_left_in(tmp_path))
        assert beside.wait(60) == 3, "the next program runs under another reaper"
    finally:
        beside.kill()
        beside.wait()


def test_signals_to_everybody_end_neither_the_reaper_nor_reach_what_it_starts(
    ours: tool_processes._Reaper, tmp_path: Path
) -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        process = await python("import sys; sys.stdin.read(); raise SystemExit(5)", tmp_path, stdin=reading)
        os.close(reading)
        assert ours._process is not None
        shim = psutil.Process(process.pid).ppid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            ours._process.send_signal(number)
            os.kill(shim, number)
        os.close(writing)
        assert await end_of(process) == 5
        assert os.getsid(ours._process.pid) != os.getsid(0), "Ctrl-C in the terminal does not reach it"

    run(scenario())


def test_programs_start_with_no_signal_ignored_and_no_descriptor_of_ours(tmp_path: Path) -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        code = "grep SigIgn /proc/self/status; grep SigBlk /proc/self/status; ls /proc/self/fd | wc -l"
        process = await start(["sh", "-c", code], cwd=tmp_path, env=os.environ, stdout=writing)
        os.close(writing)
        assert await end_of(process) == 0
        with os.fdopen(reading) as told:
            _, ignored, _, blocked, count = told.read().split()
        of_the_c_library = 0b11 << 31  # 32 and 33, which no program can set
        assert [int(ignored, 16) & ~of_the_c_library, int(blocked, 16)] == [0, 0]
        assert count == "4", "0, 1, 2 and the listing"

    if sys.platform != "linux":
        pytest.skip("no /proc")
    run(scenario())


def test_a_program_gets_its_streams(tmp_path: Path) -> None:
    async def scenario() -> None:
        ends = [os.pipe() for _ in range(3)]
        (to_read, to_write), (out_read, out_write), (err_read, err_write) = ends
        code = "read line; echo got $line; echo oh >&2"
        process = await start(
            ["sh", "-c", code], cwd=tmp_path, env=os.environ, stdin=to_read, stdout=out_write, stderr=err_write
        )
        for end in (to_read, out_write, err_write):
            os.close(end)
        os.write(to_write, "你好\n".encode())
        assert await end_of(process) == 0
        assert (os.read(out_read, 100).decode(), os.read(err_read, 100).decode()) == ("got 你好\n", "oh\n")
        for end in (to_write, out_read, err_read):
            os.close(end)

    run(scenario())


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        for argv, cwd, name in ((["/no/such"], tmp_path, "/no/such"), (["true"], tmp_path / "gone", "gone")):
            with pytest.raises(FileNotFoundError) as caught:
                await start(argv, cwd=cwd, env=os.environ)
            assert name in caught.value.filename
        with pytest.raises(ValueError, match="null"):
            await start(["a\0b"], cwd=tmp_path, env={})

    run(scenario())


def test_a_finished_program_leaves_no_zombie_and_no_descriptor(ours: tool_processes._Reaper, tmp_path: Path) -> None:
    async def scenario() -> None:
        await (await python("", tmp_path)).end()
        before = psutil.Process().num_fds()
        for _ in range(5):
            process = await python("import os; os.posix_spawnp('sleep', ['sleep', '300'], os.environ)", tmp_path)
            assert await end_of(process) == 0
        assert ours._process is not None
        below = psutil.Process(ours._process.pid)
        assert await until_async(lambda: not below.children(recursive=True))
        assert psutil.Process().num_fds() == before

    run(scenario())


def test_the_reaper_leaves_with_its_worker() -> None:
    code = "import shared.processes.tools as p; p.prepare(); print(p._reaper._process.pid, flush=True)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not psutil.pid_exists(int(done.stdout)), "a worker that ends in order waits for it"


def test_where_nothing_is_adopted_the_group_is_ended(
    ours: tool_processes._Reaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    elsewhere = "sys.platform = 'darwin'; import builtins; builtins.open = lambda *_, **__: os.stat('/nonexistent'); "
    run_there = tool_processes._RUN.replace("from ekiden", f"import os, resource, tempfile; {elsewhere}from ekiden", 1)
    run_there = run_there.replace("reaper.main", "reaper.TERM_S = reaper.GONE_S = 0.2; reaper.main")
    monkeypatch.setattr(tool_processes, "_RUN", run_there)

    async def scenario() -> None:
        outside = "file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)]"
        code = f"import os; print(os.posix_spawnp('sleep', ['sleep', '300'], os.environ, {outside}), flush=True)"
        reading, writing = os.pipe()
        process = await python(code, tmp_path, stdout=writing)
        assert await end_of(process) == 0
        background = int(os.read(reading, 20))
        assert await until_async(lambda: is_gone(background))
        os.close(writing)
        os.close(reading)

    run(scenario())
