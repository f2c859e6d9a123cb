"""The keeper: owns one embedded Valkey server and stops it when its last user has left.

A process of its own, because no user may own the server: any of them can end first, by Ctrl-C or by SIGKILL.
It starts the server, starts it again when it dies, and stops it about a second after the last user has left.
``shared.embedded`` runs this file by its path, isolated and without site packages (40 ms instead of 100):
so it uses the standard library only. Its working directory is the data folder, which may be renamed under it.

Three locks decide everything. They are of ``flock``: the kernel frees them, however a process ends.

    users.lock    shared, by every attached process; exclusive, by the keeper while it stops the server
    keeper.lock   exclusive, by the keeper; taken by whoever starts it and handed over, so there is never a second
    server.lock   exclusive, inherited by the server: while it is taken, a server may write to this folder
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

__all__ = [
    "KEEPER_LOCK",
    "READY",
    "READY_S",
    "SERVER_LOCK",
    "SERVER_LOG",
    "USERS_LOCK",
    "answers",
    "is_locked",
    "open_lock",
    "socket_of",
    "try_lock",
]

USERS_LOCK, KEEPER_LOCK, SERVER_LOCK = "users.lock", "keeper.lock", "server.lock"
SERVER_LOG = "server.log"
SOCKET_POINTER = "socket"
READY = "ready"
READY_S = 20.0
GRACE_S = 1.0
TICK_S = 0.25
POLL_S = 0.005
STOP_S = 10.0

# sun_path holds 104 bytes on macOS and 108 on Linux; a temporary folder longer than this leaves no room for ours.
_LONGEST_TMP = 64
_PR_SET_PDEATHSIG = 1
_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "dir": ".",
    "logfile": "",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
    "enable-protected-configs": "no",
    "enable-module-command": "no",
    "enable-debug-command": "no",
}
_TAKEN_AWAY = (
    "cluster",
    "failover",
    "fcall",
    "fcall_ro",
    "function",
    "migrate",
    "psync",
    "replicaof",
    "slaveof",
    "sync",
)
"""Commands that nobody needs here, and that a file which the server loads must not have executed either."""


def open_lock(path: Path) -> int:
    """Open a lock file, made if it is missing; closing the descriptor gives up its lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take the lock (``fcntl.LOCK_SH`` or ``LOCK_EX``) if that is possible at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock exclusively."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # no such folder, or not ours: nobody whom we could join
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def socket_of(data: Path) -> Path | None:
    """The socket that the data folder names, unless somebody else could have put it there."""
    try:
        path = Path(os.fsdecode((data / SOCKET_POINTER).read_bytes()))
        folder = path.parent.lstat()
    except (OSError, ValueError):
        return None
    private = stat.S_ISDIR(folder.st_mode) and folder.st_mode & 0o077 == 0
    return path if private and folder.st_uid == os.geteuid() else None


def answers(path: Path, command: bytes = b"PING", reply: bytes = b"+PONG") -> bool:
    """Whether a server on this socket gives the reply: to ``PING``, that it is up and has loaded its data."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            connection.connect(str(path))
            connection.sendall(command + b"\r\n")
            return connection.recv(64).startswith(reply)
    except OSError:
        return False


class ServerFailed(Exception):
    """The server does not run; the text says why."""


class ServerSupervisor:
    """Starts, watches and stops the server of the current directory."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self._child: subprocess.Popen[bytes] | None = None
        self._users = open_lock(Path(USERS_LOCK))
        self._socket = _inherited_socket() or _new_socket()

    def start(self) -> None:
        """Return when a server answers: a new one, or the one that a killed keeper has left behind."""
        deadline = time.monotonic() + READY_S
        started = False
        while not answers(self._socket):
            if time.monotonic() > deadline:
                raise ServerFailed(f"no answer within {READY_S:.0f} s")
            if not self._server_lives():
                if started:
                    raise ServerFailed(_last_line(Path(SERVER_LOG)))
                self._spawn()
                started = True
            time.sleep(POLL_S)

    def watch(self) -> None:
        """Return when nobody uses the server any more; from then on, nobody can attach to it either."""
        last_use = time.monotonic()
        while _is_file_of(self._users, Path(USERS_LOCK)):
            time.sleep(TICK_S)
            if not self._server_lives():
                self.start()
            if not try_lock(self._users, fcntl.LOCK_EX):
                last_use = time.monotonic()
            elif time.monotonic() - last_use >= GRACE_S:
                return
            else:
                fcntl.flock(self._users, fcntl.LOCK_UN)

    def stop(self) -> None:
        """End the server with its file written, and remove the socket's folder."""
        # NOSAVE spares the snapshot, not the append-only file; it is also what a server busy with a script accepts.
        answers(self._socket, b"SHUTDOWN NOSAVE")
        if not _wait_until(lambda: not self._server_lives(), STOP_S) and self._child:
            self._child.kill()
            self._child.wait()
        _remove_socket(self._socket)

    def _server_lives(self) -> bool:
        ours = self._child is not None and self._child.poll() is None
        return ours or is_locked(Path(SERVER_LOCK))

    def _spawn(self) -> None:
        lock = open_lock(Path(SERVER_LOCK))
        options = [part for name, value in _OPTIONS.items() for part in (f"--{name}", value)]
        options += [part for name in _TAKEN_AWAY for part in ("--rename-command", name, "")]
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody else starts servers here: it is free
            self._child = subprocess.Popen(
                [self._binary, "--unixsocket", str(self._socket), *options],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                stderr=sys.stderr,
                pass_fds=(lock,),
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this process has one thread
            )
        except OSError as error:
            raise ServerFailed(f"{self._binary}: {error.strerror}") from error
        finally:
            os.close(lock)


def _inherited_socket() -> Path | None:
    """The socket of a server that outlived its keeper; a dead server's is removed."""
    old = socket_of(Path())
    if old is None or is_locked(Path(SERVER_LOCK)):
        return old
    if not answers(old):  # else the folder is a copy of one in use, and the socket is that one's
        _remove_socket(old)
    return None


def _new_socket() -> Path:
    """Make a folder for the socket that only we can enter, and have the data folder name it."""
    root = tempfile.gettempdir()
    if len(os.fsencode(root)) > _LONGEST_TMP:
        root = "/tmp"  # noqa: S108 - what is made in it is ours alone
    path = Path(tempfile.mkdtemp(prefix="ekiden-", dir=root)) / "s.sock"
    draft = Path(SOCKET_POINTER + ".new")
    draft.write_bytes(os.fsencode(path))
    draft.replace(SOCKET_POINTER)
    return path


def _remove_socket(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def _is_file_of(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the open file: a data folder may be deleted while in use."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _die_with_parent() -> Callable[[], None] | None:
    """What the server does before it runs, so that SIGKILL for the keeper is SIGKILL for it (Linux only).

    Nothing that was acknowledged is lost: the server writes to its file before it replies.
    """
    if sys.platform != "linux":
        return None
    prctl, keeper = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != keeper:  # it died before the line above
            os._exit(1)

    return bind


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")[-20:]
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it ended at once")


def _exit(_signal: int, _frame: object) -> NoReturn:
    sys.exit(0)


def _report(text: str) -> None:
    """Tell the starter, who waits for the end of our standard output, and let it go."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, text.encode(errors="replace"))
    os.dup2(2, 1)


def _main(data: str, binary: str) -> None:
    if os.fork():  # the starter reaps this half at once, and never has a keeper among its children
        os._exit(0)
    signal.signal(signal.SIGTERM, _exit)
    os.umask(0o077)
    os.chdir(data)
    keeper = None
    try:
        keeper = ServerSupervisor(binary)
        keeper.start()
        _report(READY)
        keeper.watch()
    except (ServerFailed, OSError) as error:
        _report(str(error))
    finally:
        if keeper:
            keeper.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:3])
