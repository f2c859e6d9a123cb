"""Ctrl-C while a job is shown: on a terminal the user is asked once, elsewhere it has its effect at once."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

from ekiden.shared.terminal_text import visible

__all__ = ["Interrupted", "ask", "interruptible", "is_on_terminal", "typed", "typed_unless"]

_Handler = Callable[[int, FrameType | None], object] | int | None


class Interrupted(Exception):
    """The user pressed Ctrl-C (``by_user``), or somebody asked the program to end.

    ``wants_cancel``: the user was asked what becomes of the job and said so; ``is_urgent``: pressed Ctrl-C instead.
    """

    def __init__(self, *, by_user: bool, wants_cancel: bool = False, is_urgent: bool = False) -> None:
        """Keep what is known of it."""
        super().__init__("interrupted")
        self.by_user = by_user
        self.wants_cancel = wants_cancel
        self.is_urgent = is_urgent


@asynccontextmanager
async def interruptible() -> AsyncIterator[None]:
    """Turn the first Ctrl-C or SIGTERM inside the block into ``Interrupted``; a Ctrl-C outside ends the program."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def receive(number: int) -> None:
        if not received:
            task.cancel()
        received.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, receive, number)
    try:
        yield
    except asyncio.CancelledError:
        if not received:
            raise
        task.uncancel()
        raise Interrupted(by_user=received[0] == signal.SIGINT) from None
    finally:
        _restore(loop, before)


def _restore(loop: asyncio.AbstractEventLoop, before: dict[signal.Signals, _Handler]) -> None:
    """Put the handlers of ``asyncio.run`` back: they cancel the task, so that it ends in order.

    The loop alone would leave Python's own, which throws KeyboardInterrupt into whatever callback happens to run.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, before)  # none must arrive between the two
    try:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)


def is_on_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def ask(question: str) -> bool:
    """Ask on the terminal; anything but y or yes is a no. Raises ``Interrupted`` at Ctrl-C."""
    return (await typed(f"\n{question} [y/N] ")).strip().lower() in ("y", "yes")


async def typed(question: str) -> str:
    """Return the line that is typed after ``question``; empty at Ctrl-D. Raises ``Interrupted`` at Ctrl-C."""
    async with interruptible():  # before the question is there to be answered by another Ctrl-C
        print(visible(question), end="", flush=True)  # noqa: T201 - the program's own output
        return await _typed_line()


async def typed_unless(question: str, gone: asyncio.Future[Any]) -> str | None:
    """Return the line that is typed after ``question``, with its end; empty at Ctrl-D, None when ``gone`` comes first.

    What was typed before the question was there is no answer to it. Raises ``Interrupted`` at Ctrl-C.
    """
    async with interruptible():
        with contextlib.suppress(termios.error):  # no terminal
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        print(visible(question), end="", flush=True)  # noqa: T201 - the program's own output
        line = asyncio.create_task(_typed_line())
        try:
            await asyncio.wait({line, gone}, return_when=asyncio.FIRST_COMPLETED)
            return line.result() if line.done() else None
        finally:
            line.cancel()


async def _typed_line() -> str:
    """Return the next line of standard input without keeping the loop from its work."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            line.set_result(os.read(descriptor, 4096).decode(errors="replace"))

    loop.add_reader(descriptor, read)
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)
