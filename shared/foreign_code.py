"""What comes out of other people's code: somebody's wish that this program stops, or a fault of any class."""

import threading

__all__ = ["is_interruption", "is_interruption_of_task", "said_by"]


def is_interruption(error: BaseException) -> bool:
    """Tell whether ``error``, out of a plain call of somebody else's code, is a Ctrl-C, which nobody may swallow.

    Python raises it in the main thread alone; in any other one the code has done so itself. A cancellation is none: it
    comes at an ``await``, which a plain call has not, so one that was asked for is still to come.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def is_interruption_of_task(error: BaseException) -> bool:
    """Tell the same of what was awaited: there a cancellation is one, too, if somebody has asked for it."""
    import asyncio  # which `ekiden --help` does without

    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) or is_interruption(error)  # the former: the loop has gone


def said_by(error: BaseException) -> str:
    """Return an error's text, as a plain str, also where the error cannot give any."""
    try:
        return str.__str__(str(error))  # __str__ may return a str of any class
    except BaseException as unsaid:
        if is_interruption(unsaid):
            raise
        return "(its text cannot be had)"
