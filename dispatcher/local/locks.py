"""Commands that run pools in one data folder, known to each other by locks that the kernel frees when they end."""

import fcntl
import math
import os
import time
from pathlib import Path
from typing import Self

from ekiden.shared.embedded import UP_LOCK
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.server_supervisor import is_locked, open_lock, try_lock
from ekiden.shared.terminal_text import note

__all__ = ["RunningCommands", "UpLock", "is_command_running", "root_of_up"]

_COMMANDS_LOCK, _UP_ROOT = "commands.lock", "up.root"
_POLL_S, _QUIET_WAIT_S = 0.05, 2.0


class RunningCommands:
    """Registers this command in a data folder.

    While one that came first has not joined, others wait: until then it may have to ask what becomes of earlier jobs.

    Attributes:
        is_alone: Whether no other command runs here. Until ``join``, later ones wait then.
    """

    def __init__(self, data_dir: Path) -> None:
        self._lock = open_lock(data_dir / _COMMANDS_LOCK)
        try:
            self.is_alone = self._registered()
        except BaseException:  # Ctrl-C
            os.close(self._lock)
            raise

    def join(self) -> None:
        """Let others come beside this command."""
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _registered(self) -> bool:
        """Register as the first, or beside those that have joined; who ends without joining leaves it to the next."""
        told_at = time.monotonic() + _QUIET_WAIT_S
        while not (is_first := try_lock(self._lock, fcntl.LOCK_EX)) and not try_lock(self._lock, fcntl.LOCK_SH):
            if time.monotonic() > told_at:
                note("waiting for another command here, which asks what becomes of earlier jobs")
                told_at = math.inf
            time.sleep(_POLL_S)
        return is_first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


def is_command_running(data_dir: Path) -> bool:
    """Tell whether a command such as ``ekiden run`` has pools in ``data_dir``, which end with it."""
    lock = open_lock(data_dir / _COMMANDS_LOCK)
    try:
        return not try_lock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)


class UpLock:
    """Held by the one ``ekiden up`` of a data folder; tells others its workspace root.

    Raises ``ConfigurationError`` when there is one already.
    """

    def __init__(self, data_dir: Path, root: Path) -> None:
        self._lock = open_lock(data_dir / UP_LOCK)
        if not try_lock(self._lock, fcntl.LOCK_EX):
            os.close(self._lock)
            raise ConfigurationError(
                f"`ekiden up` runs already in {str(data_dir)!r} for {str(root_of_up(data_dir))!r}: use it, stop it, or "
                "give another --data-dir"
            )
        (data_dir / _UP_ROOT).write_bytes(os.fsencode(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


def root_of_up(data_dir: Path) -> Path | None:
    """Return the workspace root of the ``ekiden up`` that runs in ``data_dir``; None when none does."""
    if not is_locked(data_dir / UP_LOCK):
        return None
    try:
        return Path(os.fsdecode((data_dir / _UP_ROOT).read_bytes()))
    except OSError:  # it has only just begun
        return None
