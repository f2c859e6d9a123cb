"""Programs that end with what they were started for: with their call, with the lease it runs under, with this process.

    process = await start(["make", "test"], cwd=folder, env=environ, stdout=pipe, lifetime=context.lifetime)
    try:
        code = await process.wait()
    finally:
        await process.end()          # when this returns, nothing is left of it, whatever it started

This process's reaper (``shared.processes.reaper``) starts them, and outlives it for as long as it takes to end them.
One that was stopped or killed watches over nothing: this process watches it (Linux), kills all that is below it, and
starts another.
Programs of our own that are to end warmly watch their parent themselves (``shared.processes.children``).

A command runs as the same user, so no more than this can be held: one that kills or stops this process, its reaper and
its own shim at the same moment has nobody left who watches it. A sandbox with its own process ids keeps it from that.
"""

import asyncio
import atexit
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ekiden.shared.errors import CommandLost
from ekiden.shared.processes import reaper
from ekiden.shared.processes.confinement import UNCONFINED, Confinement
from ekiden.shared.processes.grace_periods import TERM_S, TOOL_S
from ekiden.shared.processes.reaper import adopt
from ekiden.shared.processes.tree import children_of, descendants_of, is_ending, kill_all

__all__ = ["Lifetime", "Process", "prepare", "start"]

START_S = 30.0
"""A reaper that has started nothing within this time never will: it is killed, and the next command gets another."""
_AGAIN_S = 0.01
_CAN_WATCH = sys.platform == "linux"
_OVER = "the command was ended: its worker has lost the lease that it ran under"
_UNWATCHED = "the command was ended: the process that watched over it was killed"
_LOST = {"lease": _OVER, "reaper": _UNWATCHED}
_RUN = "import sys; sys.path.append(sys.argv[2]); from ekiden.shared.processes import reaper; reaper.main()"
_NEEDED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the reaper gets of our environment: every command can read the reaper's."""


class Lifetime(Protocol):
    """What a process must not outlive, such as the lease of the leg that started it."""

    valid_until: float
    """When it is over (monotonic time), unless it is prolonged before."""
    prolonged: set[Callable[[], None]]
    """Called, from any thread, when ``valid_until`` has moved."""


class Process:
    """A program under the reaper; made by ``start``."""

    def __init__(self, pid: int, line: "_Line", lifetime: Lifetime | None) -> None:
        self.pid = pid
        """Its process id, which is also the id of its group and session."""
        self.exceeded = ""
        """Once it has ended: ``processes`` or ``memory`` if that limit is why it was ended."""
        self._line = line
        if lifetime is not None:
            self._live_as_long_as(lifetime)

    async def wait(self) -> int:
        """Return the exit code (``-n``: ended by signal ``n``); what it has left behind is ended meanwhile.

        Raises:
            CommandLost: It was ended because its lifetime was over, or because whoever watched over it was killed.
        """
        report = await asyncio.shield(self._line.ended)
        if "status" not in report:  # with its watcher gone, its group is all that can be found of it
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        if "status" not in report or report["lost"] in _LOST:
            raise CommandLost(_LOST.get(report.get("lost", ""), _UNWATCHED))
        self.exceeded = report["lost"]
        return os.waitstatus_to_exitcode(report["status"])

    async def end(self, grace_s: float = TERM_S) -> None:
        """End it with all that it started: SIGTERM, ``grace_s``, SIGKILL; when cancelled meanwhile, SIGKILL at once."""
        await self._line.end(grace_s)
        if not self._line.gone.done():  # whoever was to end it has been stopped
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _live_as_long_as(self, lifetime: Lifetime) -> None:
        def prolong() -> None:
            self._line.prolong(lifetime)

        lifetime.prolonged.add(prolong)
        self._line.gone.add_done_callback(lambda _: lifetime.prolonged.discard(prolong))
        prolong()


class _Line(asyncio.Protocol):
    """The connection to a shim: its two reports, empty where it could make none, and its end."""

    def __init__(self, call: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.ended: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.gone: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._received = b""
        self._call = call.dup()  # for any thread to write to; asyncio reads from the other one
        self._writing = threading.Lock()

    def prolong(self, lifetime: Lifetime) -> None:
        """Tell the shim, from any thread, how long the lifetime lasts now."""
        with self._writing, suppress(OSError):  # it has left
            self._call.send(_encoded(_lease(lifetime)), socket.MSG_DONTWAIT)

    async def end(self, grace_s: float) -> None:
        """Have the shim end what it started, and wait until it has left; it kills at once when this is cancelled."""
        self.transport.write(_encoded({"end": grace_s}))
        try:
            await self.gone_within(grace_s + TOOL_S - TERM_S)
        finally:
            with self._writing, suppress(OSError):  # it has left
                self._call.shutdown(socket.SHUT_WR)

    async def gone_within(self, seconds: float) -> None:
        """Wait until the shim has left, but no longer than ``seconds``."""
        await asyncio.wait([self.gone], timeout=seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for report in map(json.loads, lines):
            self._tell(self.ended if "status" in report else self.began, report)

    def connection_lost(self, _: Exception | None) -> None:
        with self._writing:
            self._call.close()
        for future in (self.began, self.ended, self.gone):
            self._tell(future, {})

    def _tell(self, future: "asyncio.Future[dict[str, Any]]", report: dict[str, Any]) -> None:
        if not future.done():
            future.set_result(report)


class _Reaper:
    """The reaper of this process: started when it is first needed, and again when somebody has killed it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._adopts = False
        self._others: set[int] = set()
        """Where this process adopts: its children, the reaper among them, when a program was last asked for."""

    def adopt(self) -> None:
        """Have what is left of a reaper that was killed become children of this process, which kills them."""
        adopt()
        self._adopts = True

    def prepare(self) -> socket.socket:
        """Start it unless it runs; return our end of the line to it."""
        with self._lock:
            if self._control is None:
                self._control, theirs = socket.socketpair()
                self._control.setblocking(False)
                with theirs:
                    self._process = self._start(theirs)
                atexit.register(self.close)
                if _CAN_WATCH:
                    threading.Thread(target=self._watch, args=[self._process], name="reaper", daemon=True).start()
            return self._control

    def ask(self, call: socket.socket, streams: Sequence[int | None]) -> bool:
        """Have a shim serve ``call``; None stands for /dev/null. False: too many have asked, ask again later."""
        self._look_around()
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            descriptors = [call.fileno(), *(nothing.fileno() if one is None else one for one in streams)]
            try:
                socket.send_fds(self.prepare(), [b"."], descriptors)
            except ConnectionError:  # somebody has killed it, and who watches it may not know yet
                self._give_up()
                socket.send_fds(self.prepare(), [b"."], descriptors)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ETOOMANYREFS):
                    raise
                return False
            return True

    def close(self, *, kill: bool = False) -> None:
        """Have it leave, with all that it has started. It does so by itself when this process has ended."""
        with self._lock:
            if self._control is not None and self._process is not None:
                self._control.close()
                if kill:
                    self._process.kill()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(TOOL_S)
                self._control = self._process = None

    def _give_up(self) -> None:
        """Be done with a reaper that does not answer; what it cannot watch over any more is killed first."""
        with self._lock:
            if (process := self._process) is not None:
                self._forget(process)
                self._kill_left_by(process)

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Return when the reaper has ended; kill what it cannot watch over any more."""
        is_stopped = _is_stopped(process.pid)
        with self._lock:  # the next program waits for the next reaper
            if is_stopped:
                kill_all(lambda: descendants_of(process.pid), reaper.GONE_S)
                process.kill()
            self._forget(process)
            self._kill_left_by(process)

    def _forget(self, process: "subprocess.Popen[bytes]") -> None:
        """Let the next program start another reaper, unless that has happened. The lock is held, as below."""
        if self._process is process and self._control is not None:
            self._control.close()
            self._control = self._process = None

    def _kill_left_by(self, process: "subprocess.Popen[bytes]") -> None:
        with suppress(subprocess.TimeoutExpired):
            if process.wait(TOOL_S) and self._adopts:  # it has not left by itself
                kill_all(self._adopted, reaper.GONE_S)

    def _look_around(self) -> None:
        """Note who are children of ours; only as long as the reaper lives, for then it is none who was below it."""
        if self._adopts and (process := self._process) is not None:
            others = set(children_of(os.getpid()))
            if not is_ending(process.pid):
                self._others = others

    def _adopted(self) -> list[int]:
        """Return those children of ours that were below a reaper that has ended: they are in sessions of their own."""
        children = set(children_of(os.getpid())) - self._others - {self._process.pid if self._process else 0}
        return [pid for pid in children if _session_of(pid) != os.getsid(0)]

    def _start(self, control: socket.socket) -> "subprocess.Popen[bytes]":
        ours = str(Path(reaper.__file__).absolute().parents[3])
        argv = [sys.executable, "-I", "-S", "-c", _RUN, str(os.getpid()), ours]  # the pid tells ps(1) whose it is
        env = {name: os.environ[name] for name in _NEEDED if name in os.environ}
        return subprocess.Popen(
            argv, env=env, stdin=control.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
        )


def _is_stopped(pid: int) -> bool:
    """Wait until a child has been stopped or has ended, and tell which; it stays as it is."""
    try:
        event = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # it has ended, and somebody has asked how
        return False
    return event is not None and event.si_code == os.CLD_STOPPED


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return os.getsid(0)


_reaper = _Reaper()


def prepare() -> None:
    """Start this process's reaper, so that the first command does not wait for it, and be the next one to adopt.

    What is left of a reaper that was killed becomes children of this process then, which is to start no others in
    sessions of their own.
    """
    _reaper.adopt()
    _reaper.prepare()


async def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    lifetime: Lifetime | None = None,
    confinement: Confinement = UNCONFINED,
) -> Process:
    """Start a program in a session of its own; it ends with this process and with ``lifetime``, and all that it starts.

    Args:
        argv: The program, looked up in ``env``'s PATH, and its arguments.
        cwd: The folder that it starts in.
        env: Its whole environment.
        stdin: A descriptor that stays the caller's to close; None: /dev/null.
        stdout: Likewise.
        stderr: Likewise.
        lifetime: What it must not outlive.
        confinement: What holds it; the paths of ``cwd`` and ``argv`` are as it sees them.

    Raises:
        OSError: It cannot be started, or not confined; ``filename`` is the program or the folder.
        ValueError: An argument or a variable holds a null character.
        CommandLost: The reaper was killed meanwhile, or does not answer.
    """
    request = _request(argv, cwd, env) | {"confinement": confinement.to_json()}
    try:
        async with asyncio.timeout(START_S) as timeout:
            line = await _called([stdin, stdout, stderr])
            line.transport.write(_encoded(request | _lease(lifetime)))
            return Process(await _begun(line), line, lifetime)
    except TimeoutError:
        if not timeout.expired():  # the program lies on a file system that does not answer
            raise
        _reaper.close(kill=True)
        raise CommandLost(f"the command was not started within {START_S:g} s: its reaper has been killed") from None


async def _called(streams: Sequence[int | None]) -> _Line:
    """Return a line to a shim that is to serve it."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            while not _reaper.ask(theirs, streams):  # noqa: ASYNC110 - nothing announces that there is room again
                await asyncio.sleep(_AGAIN_S)
        _, line = await asyncio.get_running_loop().create_unix_connection(lambda: _Line(ours), sock=ours)
    except BaseException:
        ours.close()
        raise
    return line


async def _begun(line: _Line) -> int:
    """Return the process id once the program runs; when this is cancelled meanwhile, end it."""
    try:
        report = await asyncio.shield(line.began)
    except asyncio.CancelledError:
        await line.end(TERM_S)
        raise
    if "pid" in report:
        return int(report["pid"])
    await line.gone_within(TOOL_S)
    if "errno" in report:
        why = f"it cannot be confined: {report['why']}" if report["why"] else os.strerror(report["errno"])
        raise OSError(report["errno"], why, os.fsdecode(report["file"].encode("latin-1")))
    raise CommandLost(_UNWATCHED)


def _request(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> dict[str, Any]:
    return {
        "argv": [_text(part) for part in argv],
        "cwd": _text(cwd.absolute()),
        "env": {_text(name): _text(value) for name, value in env.items()},
    }


def _text(value: str | Path) -> str:
    """Return the bytes that the system knows it by, as text."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError("embedded null character")
    return encoded.decode("latin-1")


def _lease(lifetime: Lifetime | None) -> dict[str, float]:
    """Return what is left of a lifetime: a length of time, since clocks may differ."""
    return {} if lifetime is None else {"lease_s": lifetime.valid_until - time.monotonic()}


def _encoded(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
