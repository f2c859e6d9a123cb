"""What runs below a process (Linux): children, their children, and all that a subreaper adopts of them."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["children_of", "descendants_of", "is_ending", "kill_all"]

_AGAIN_S = 0.01
_PF_EXITING = 0x4


def children_of(pid: int) -> list[int]:
    """Return the children of a process, of all its threads; those that have ended are not among them."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, children.read_text().split())
    return [child for child in found if not _has_ended(child)]


def descendants_of(pid: int) -> list[int]:
    """Return everything that runs below a process."""
    found = children_of(pid)
    for child in found:  # which grows meanwhile
        found += children_of(child)
    return found


def kill_all(look: Callable[[], Iterable[int]], within_s: float) -> None:
    """Kill what ``look`` finds until it finds nothing: they may start others. Give up after ``within_s``."""
    give_up_at = time.monotonic() + within_s
    while (pids := list(look())) and time.monotonic() < give_up_at:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # where it is a child of ours
        time.sleep(_AGAIN_S)


def is_ending(pid: int) -> bool:
    """Tell whether a process ends or has ended: its children get another parent before anybody can wait for its end."""
    fields = _stat(pid)
    return not fields or bool(int(fields[6]) & _PF_EXITING)


def _has_ended(pid: int) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] in "ZX"


def _stat(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the state on; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
