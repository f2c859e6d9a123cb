"""Child processes that end when their parent ends, also when it is killed.

The parent keeps the only write end of a pipe and gives the child the read end: when the parent is gone, however it
went, the kernel closes the pipe and the child reads its end. That works on every Unix and has no race with the
parent's death, as asking for its pid would have. A program that is not ours, or that may hang, is not asked to watch:
it runs under the reaper (``shared.processes.tools``).
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.process_secrets import handed_on, withdraw
from ekiden.shared.processes.grace_periods import ORPHAN_S, STOP_S

__all__ = ["PARENT_FD", "ChildProcess", "start_child", "stop_all", "watch_parent"]

PARENT_FD = "EKIDEN_PARENT_FD"
"""The environment variable that names the descriptor which ends with the parent."""

_TAIL_BYTES = 65_536


class ChildProcess:
    """A program of ours that runs in a session of its own; made by :func:`start_child`."""

    def __init__(self, process: subprocess.Popen[bytes], life_line: int, log: Path, log_start: int) -> None:
        self._process = process
        self._life_line: int | None = life_line
        self._log = log
        self._log_start = log_start

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group and session."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code (``-n``: ended by signal ``n``), or None while it runs."""
        return self._process.poll()

    def stop(self, grace_s: float = STOP_S) -> int:
        """Ask the child to end, wait ``grace_s``, then kill it with its whole group; returns the exit code."""
        return stop_all([self], grace_s)[0]

    def ask(self) -> None:
        """Ask the child to end."""
        if self.poll() is None:
            self._process.terminate()

    def ends_within(self, seconds: float) -> int:
        """Wait for the end, but not longer: then kill the child with its whole group; returns the exit code."""
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            _kill_group(self.pid)
            self._process.kill()
        code = self._process.wait()
        if self._life_line is not None:
            os.close(self._life_line)
            self._life_line = None
        return code

    def tail(self, lines: int = 10) -> str:
        """The last lines of what this child wrote, for error messages."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""


def start_child(argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> ChildProcess:
    """Start a program that calls :func:`watch_parent` first thing.

    It gets a session of its own: Ctrl-C in the terminal reaches only the parent, who decides what becomes of it.

    Args:
        argv: The program and its arguments.
        env: The child's whole environment; ``EKIDEN_PARENT_FD`` is added. What of it may be a secret goes to it by a
            socket, once it asks for it (``shared.process_secrets``).
        log: The file that its standard output and error are appended to.

    Raises:
        ConfigurationError: The program or the log file cannot be opened.
    """
    read, write = os.pipe()  # both close on exec; only the read end is passed on
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output, handed_on(env) as (first_env, passed):
            start = output.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                argv,
                env={**first_env, PARENT_FD: str(read)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[read, *passed],
                start_new_session=True,
            )
    except BaseException as error:
        os.close(write)
        if isinstance(error, OSError):
            raise _not_started(argv[0], error) from error
        raise
    finally:
        os.close(read)
    return ChildProcess(process, write, log, start)


def stop_all(children: Sequence[ChildProcess], grace_s: float = STOP_S) -> list[int]:
    """Ask children to end, all at once, and kill those that still run after ``grace_s``.

    Returns their exit codes. A ``KeyboardInterrupt`` comes through at once; then some may still run.
    """
    deadline = time.monotonic() + grace_s
    for child in children:
        child.ask()
    return [child.ends_within(deadline - time.monotonic()) for child in children]


def watch_parent(grace_s: float = ORPHAN_S) -> None:
    """End this process when its parent ends: SIGTERM (a warm stop) at once, SIGKILL for its group after ``grace_s``.

    In a process that :func:`start_child` did not start it only does what ``shared.process_secrets.withdraw`` does.
    Programs that this one starts know nothing of it.

    Raises:
        ConfigurationError: ``EKIDEN_PARENT_FD`` or ``EKIDEN_SECRETS_FD`` does not name an open descriptor, or
            the parent has not sent what it was to hand on.
    """
    withdraw()
    name = os.environ.pop(PARENT_FD, None)
    if name is None:
        return
    try:
        descriptor = int(name)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"{PARENT_FD} is {name!r}, expected an open descriptor: Ekiden sets it for its own children, unset it"
        ) from error
    threading.Thread(target=_end_with, args=(descriptor, grace_s), name="watch-parent", daemon=True).start()


def _end_with(descriptor: int, grace_s: float) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    if os.getpgrp() == os.getpid():  # else the group is not ours to kill
        _kill_group(os.getpid())
    os._exit(1)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS denies it for a group of zombies
        os.killpg(leader, signal.SIGKILL)


def _not_started(program: str, error: OSError) -> ConfigurationError:
    where = error.filename or program
    return ConfigurationError(
        f"cannot start {program!r}: {str(where)!r}: {error.strerror}; check that it can be opened"
    )
