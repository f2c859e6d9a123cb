"""What tests ask of the processes that they look at."""

import psutil

__all__ = ["arguments_of", "is_gone", "name_of"]


def is_gone(process: psutil.Process | int) -> bool:
    """Tell whether a process has ended, waited for or not; it may end while it is looked at."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def name_of(process: psutil.Process) -> str:
    """Return the program's name; empty for a process that is gone."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def arguments_of(process: psutil.Process) -> list[str]:
    """Return the words it was started with; none for a process that is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
