"""What ends the code of other people: somebody who wants this program to stop, or a fault of theirs."""

import threading

__all__ = ["is_interruption"]


def is_interruption(error: BaseException) -> bool:
    """Tell whether ``error``, out of a plain call of somebody else's code, is a Ctrl-C, which nobody may swallow.

    Python raises it in the main thread alone; in any other one the code has done so itself. A cancellation is none: it
    comes at an ``await``, which a plain call has not, so one that was asked for is still to come.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
