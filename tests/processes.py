"""What tests ask of the processes that they look at."""

import psutil

__all__ = ["is_gone"]


def is_gone(process: psutil.Process | int) -> bool:
    """Tell whether a process has ended, waited for or not; it may end while it is looked at."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
