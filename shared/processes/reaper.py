"""The reaper: starts the programs that tools run, and leaves nothing of them behind.

    worker ── reaper ─┬─ shim ── command ── whatever it starts
                      └─ shim ── …

There is one reaper a worker process, and one shim a command. Both are *subreapers* (prctl(2), Linux): a process whose
parent has ended becomes their child, also one that moved to another session or was forked twice, so a shim's children
are all that is left of its command. The shim kills its children until it has none: when the command has ended, when the
worker says so, when the worker's end of their socket is closed, however that came, and when the lease is over under
which the command runs. The reaper kills what is left of a shim that was killed; a shim whose reaper was killed ends its
command, and the worker does so where both were killed or stopped (``shared.processes.tools``). Elsewhere than on Linux
only the command's process group is ended: a daemon in another session escapes.

``shared.processes.tools`` runs it isolated and without site packages, in a session of its own: it uses the standard
library only, has one thread, and forks a shim in a millisecond. On the reaper's standard input, a
Unix socket, every message asks for a shim and carries four descriptors: the shim's socket and the command's standard
input, output and error. On the shim's socket, each line is JSON:

    from the worker                          from the shim
    {argv, env, cwd, lease_s,                {pid}, or {errno, file, why}: it could not be started
     confinement}              first
    {lease_s}                  renewed       {status, lost}: how it ended; lost: because of the lease, the reaper, or
    {end: seconds}             SIGTERM,          a limit that it has exceeded (processes, memory)
                               so long, SIGKILL

and when the shim closes it, nothing is left. Text is the bytes of the file system's encoding, as Latin-1.
"""

import contextlib
import ctypes
import errno
import gc
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NoReturn

from ekiden.shared.processes.confinement import UNCONFINED, Confinement
from ekiden.shared.processes.confining import Confined
from ekiden.shared.processes.usage import exceeded, usage_below

__all__ = ["DESCRIPTORS", "GONE_S", "TERM_S", "adopt", "main"]

TERM_S = 1.0
"""What is left of a command that has ended is given so long between SIGTERM and SIGKILL."""
GONE_S = 1.0
"""How long what SIGKILL does not end is killed again before it is left to the kernel."""
DESCRIPTORS = 4

_AGAIN_S = 0.02
_COUNT_S = 0.1
"""How often a command is held against its limits: a fork bomb makes some hundreds of processes meanwhile."""
_LONGEST_LOOK_S = 3600.0
_LINE_BYTES = 65_536
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The end of the worker is what ends us, not a signal that somebody sends to everything at once."""

_ADOPTS = sys.platform == "linux"
"""Whether all that a command leaves behind are children of ours."""
_prctl = ctypes.CDLL(None).prctl if _ADOPTS else lambda *_: -1


def adopt() -> None:
    """Have everything that runs below this process, and whose parent has ended, become its child (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Children:
    """The children of this process, also those that it adopts. ``changed`` is readable when one of them has ended."""

    def __init__(self, name: bytes) -> None:
        _prctl(_PR_SET_NAME, name, 0, 0, 0)
        adopt()
        self.changed, waking = os.pipe()
        for end in (self.changed, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._list = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
        self.are_gone = False
        """Whether there was none left at the last ``reap``."""

    def reap(self, options: int = 0) -> dict[int, int]:
        """Return the status of each that has ended since."""
        ended = {}
        with contextlib.suppress(BlockingIOError):
            os.read(self.changed, _LINE_BYTES)
        try:
            while (one := os.waitpid(-1, os.WNOHANG | options))[0]:
                ended[one[0]] = one[1]
            self.are_gone = False
        except ChildProcessError:
            self.are_gone = True
        return ended

    def pids(self) -> list[int]:
        """Return them all. Until one is reaped, its pid is nobody else's."""
        try:
            with open(self._list, encoding="ascii") as pids:  # noqa: PTH123 - pathlib would double the start-up time
                return [int(pid) for pid in pids.read().split()]
        except FileNotFoundError:  # no Linux, or one without this list
            return []


class Shim:
    """Runs one command, reports how it ended, and leaves when nothing of it is left."""

    def __init__(self, call: socket.socket, reaper: int, streams: list[int]) -> None:
        self._children = Children(b"ekiden-shim")
        self._call = call
        self._reaper = reaper
        self._streams = streams
        self._received = b""
        self._pid = 0
        self._has_ended = False
        self._lost = ""
        self._confinement = UNCONFINED
        self._confined: Confined | None = None
        self._kill_at = self._lease_until = math.inf
        self._poll = select.poll()
        for descriptor in (call.fileno(), reaper, self._children.changed):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Return when nothing of the command is left, or what is left cannot be killed."""
        try:
            self._run()
        finally:
            if self._confined is not None:
                self._confined.close()

    def _run(self) -> None:
        while not self._pid:  # the first line starts the command
            self._listen()
            if self._kill_at < math.inf:
                return
        give_up_at = math.inf
        while not self._is_over() and (now := time.monotonic()) < give_up_at:
            if now >= self._lease_until:
                self._kill_now("lease")
            if now >= self._kill_at:
                give_up_at = min(give_up_at, now + GONE_S)
                self._signal_all(signal.SIGKILL)
            self._look(max(min(self._kill_at, self._lease_until, self._count_at(now)) - now, _AGAIN_S))

    def _count_at(self, now: float) -> float:
        """Hold what the command uses up against its limits, and return when to do so again."""
        limits = self._confinement.limits
        if self._kill_at < math.inf or not (limits.processes or limits.memory_bytes):
            return math.inf
        if over := exceeded(os.getpid(), limits):
            self._kill_now(over)
        return now + _COUNT_S

    def _is_over(self) -> bool:
        """Take note of what has ended. When the command has, whatever it left behind is to end, too."""
        if (status := self._children.reap().get(self._pid)) is not None:
            self._has_ended = True
            self._tell(status=status, lost=self._lost)
        if not self._has_ended:
            return False
        if self._children.are_gone and (_ADOPTS or not _signal(-self._pid, 0)):
            return True
        self._end(TERM_S)
        return False

    def _look(self, within_s: float) -> None:
        """Wait until something happens, and heed it."""
        for descriptor, _ in self._poll.poll(1 + 1000 * min(within_s, _LONGEST_LOOK_S)):
            if descriptor == self._call.fileno():
                self._listen()
            elif descriptor == self._reaper:
                self._poll.unregister(descriptor)
                self._kill_now("reaper")

    def _listen(self) -> None:
        try:
            data = self._call.recv(_LINE_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self._poll.unregister(self._call)  # the worker has ended, or wants no delay
            self._kill_now()
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._heed(json.loads(line))

    def _kill_now(self, lost: str = "") -> None:
        self._lost = self._lost or lost
        self._kill_at = min(self._kill_at, time.monotonic())

    def _heed(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        if "lease_s" in message and now < self._lease_until:
            self._lease_until = now + message["lease_s"]
        if "argv" in message:
            self._start(message)
        if "end" in message:
            self._end(message["end"])

    def _start(self, request: dict[str, Any]) -> None:
        self._confinement = Confinement.from_json(request["confinement"])
        env = {name.encode("latin-1"): value.encode("latin-1") for name, value in request["env"].items()}
        argv = [part.encode("latin-1") for part in request["argv"]]
        try:
            self._pid = self._started(argv, env, request["cwd"].encode("latin-1"))
            self._tell(pid=self._pid)
        except OSError as error:
            file = os.fsencode(error.filename or "").decode("latin-1")
            self._tell(errno=error.errno, file=file, why="" if self._confined else error.strerror)
            self._kill_now()
        except subprocess.SubprocessError:  # it is all that is told of what went wrong in the child
            self._tell(errno=errno.EPERM, file="", why="the kernel refused")
            self._kill_now()
        for descriptor in self._streams:
            os.close(descriptor)

    def _started(self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes) -> int:
        confined = self._confined = Confined(self._confinement)
        stdin, stdout, stderr = self._streams
        self._command = subprocess.Popen(  # without preexec_fn it need not copy our memory: a third of the time
            [*confined.launcher, *argv],
            cwd=cwd,
            env=env | confined.env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=confined.enter,  # noqa: PLW1509 - there is one thread here
            pass_fds=confined.descriptors if confined.launcher else (),
        )
        confined.begun()
        return self._command.pid

    def _end(self, grace_s: float) -> None:
        """Ask everything to end by itself within ``grace_s``; once, for to ask twice means to insist."""
        if self._kill_at == math.inf:
            self._signal_all(signal.SIGTERM)
            self._kill_at = time.monotonic() + grace_s

    def _signal_all(self, number: int) -> None:
        """Signal the command's group and every other child of ours, each process once.

        A launcher that is asked to end kills what it has launched: then only what is below it is asked.
        """
        if self._confinement.launcher and number != signal.SIGKILL:
            for pid in usage_below(os.getpid()).pids:
                if pid != self._pid:
                    _signal(pid, number)
            return
        groups = {pid: _group_of(pid) for pid in self._children.pids()}
        if not self._has_ended or self._pid in groups.values() or not _ADOPTS:  # else its id may be another group's now
            _signal(-self._pid, number)
        for pid in (pid for pid, group in groups.items() if group != self._pid):
            _signal(pid, number)

    def _tell(self, **report: object) -> None:
        with contextlib.suppress(OSError):  # nobody is there to be told
            self._call.sendall(json.dumps(report).encode() + b"\n")


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _signal(pid: int, number: int) -> bool:
    """Signal a process, or a group by its negative id; 0 only asks. Tell whether anybody could be reached."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class Reaper:
    """Forks shims as long as its worker lives, and kills what has lost its shim."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._children = Children(b"ekiden-reaper")
        self._life, self._living = os.pipe()  # every shim watches the one end, we alone hold the other
        self._shims: set[int] = set()
        self._poll = select.poll()
        for descriptor in (control.fileno(), self._children.changed):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Return when the worker has ended, and all that it started."""
        while self._serve():
            self._poll.poll()
            self._reap()
        self._poll.unregister(self._control.fileno())
        self._shims.clear()
        give_up_at = time.monotonic() + GONE_S
        while not self._children.are_gone and time.monotonic() < give_up_at:
            self._reap()
            self._poll.poll(1000 * _AGAIN_S)

    def _serve(self) -> bool:
        """Fork a shim for each call that was asked for; False when nobody can ask any more."""
        try:
            while True:
                asked, descriptors, *_ = socket.recv_fds(self._control, 1, DESCRIPTORS)
                if not asked:
                    return False
                self._fork(descriptors)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def _fork(self, descriptors: list[int]) -> None:
        try:
            if len(descriptors) < DESCRIPTORS:
                return  # we have too many open; whoever asked sees the socket closed
            if not (pid := os.fork()):
                self._become_shim(*descriptors)
            self._shims.add(pid)
        except OSError as error:  # too many processes
            os.write(descriptors[0], json.dumps({"errno": error.errno, "file": "fork", "why": ""}).encode() + b"\n")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _become_shim(self, call: int, *streams: int) -> NoReturn:
        try:
            os.dup2(1, 0)  # the worker must see at once when the reaper is gone
            os.close(self._living)
            for descriptor in (call, *streams):
                os.set_inheritable(descriptor, False)
            Shim(socket.socket(fileno=call), self._life, [*streams]).run()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Forget shims that have ended and kill what they left; a shim that was stopped watches over nothing."""
        for pid, status in self._children.reap(os.WUNTRACED).items():
            if not os.WIFSTOPPED(status):
                self._shims.discard(pid)
            else:
                _signal(pid, signal.SIGKILL)
        for pid in self._children.pids():
            if pid not in self._shims:
                _signal(pid, signal.SIGKILL)


def main() -> None:
    """Run the reaper of the process at the other end of standard input."""
    for number in _IGNORED:
        signal.signal(number, lambda *_: None)  # SIG_IGN would be the commands' as well
    os.chdir("/")
    gc.disable()
    gc.freeze()  # what a fork does not write to costs it nothing
    Reaper(socket.socket(fileno=0)).run()
