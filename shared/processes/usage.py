"""What runs below a process, and what it uses up (Linux), read from procfs in tens of microseconds.

The kernel's own counters do not fit: ``RLIMIT_NPROC`` counts all processes of a user and none of root's, and control
groups are for whoever may write to them, which in most containers nobody may.
"""

import os
from typing import NamedTuple

from ekiden.shared.processes.confinement import Limits

__all__ = ["Usage", "exceeded", "usage_below"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """What runs below a process at a moment."""

    pids: list[int]
    tasks: int
    """Processes and threads."""
    memory_bytes: int
    """What is in memory of each of them and in no file; what a fork shares is counted for both."""


def usage_below(pid: int) -> Usage:
    """Look at everything that runs below a process."""
    pids = _children_of(pid, _read_folder(f"/proc/{pid}/task"))
    tasks = memory = 0
    for child in pids:  # which grows meanwhile
        threads = _read_folder(f"/proc/{child}/task")
        tasks += len(threads)
        memory += _memory_of(child)
        pids += _children_of(child, threads)
    return Usage(pids, tasks, memory)


def exceeded(pid: int, limits: Limits) -> str:
    """Return which of the limits is exceeded by what runs below a process: ``processes``, ``memory``, or none."""
    usage = usage_below(pid)
    if 0 < limits.processes < usage.tasks:
        return "processes"
    return "memory" if 0 < limits.memory_bytes < usage.memory_bytes else ""


def _children_of(pid: int, threads: list[str]) -> list[int]:
    found: list[int] = []
    for thread in threads:
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _memory_of(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if fields else 0


def _read_folder(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib would double what a look costs
    except OSError:  # it has ended
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - likewise
            return file.read()
    except OSError:
        return ""
