"""Running a command to its end, and collecting what it says."""

import asyncio
import codecs
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.errors import ToolError
from ekiden.shared.processes.confinement import UNCONFINED, Confinement
from ekiden.shared.processes.grace_periods import TERM_S
from ekiden.shared.processes.tools import Lifetime, Process, start
from ekiden.workers.sandbox.view import Place, Readable
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.command_place import place_of

__all__ = ["TIMED_OUT", "Finished", "run_command", "run_confined"]

TIMED_OUT = 124
"""The exit code of a command that ran out of time, as timeout(1) gives it."""

_DRAIN_S = 0.5
_SETTING = {"processes": "processes", "memory": "memory_mib"}


@dataclass(frozen=True)
class Finished:
    """How a command ended. An ``exit_code`` over 128 names the signal that ended it, as in a shell."""

    output: str
    exit_code: int
    timed_out: bool
    exceeded: str = ""
    """``processes`` or ``memory`` if it was ended because it used up more of them than it may."""

    @property
    def why_ended(self) -> str:
        """Why it was ended before it ended by itself; empty: it was not."""
        if self.exceeded:
            return (
                f"with all its processes: it used more {self.exceeded} than tools.max_{_SETTING[self.exceeded]} allows"
            )
        return "with all its processes: timed out" if self.timed_out else ""


async def run_confined(
    command: Sequence[str],
    context: ToolContext,
    *,
    env: Mapping[str, str],
    timeout_s: float,
    max_chars: int,
    further: Sequence[Readable] = (),
) -> Finished:
    """Run a program in the job's folder as ``run_command`` does, in the sandbox of this worker.

    Args:
        command: The program and its arguments.
        context: Of the call that it serves.
        env: The program's environment, of which the sandbox replaces what names folders that are not seen in it.
        timeout_s: When it is ended.
        max_chars: How much of its output is kept.
        further: What it must read beside what all commands may.

    Raises:
        OSError: it could not be started, or not confined.
        ValueError: ``command`` holds a null character.
        CommandLost: see ``shared.processes.tools``.
        ToolError: the agent's file forbids a network, and this worker cannot.
    """
    sandbox = context.sandbox
    if context.network is False and not sandbox.closes_network:
        raise ToolError("this agent's file says 'network: false', and nothing on this worker keeps commands from one")
    place, bases = Place(context.root, context.cwd), list[Readable]()
    if sandbox.mechanism != "none":
        place, bases = await asyncio.to_thread(place_of, context.root, context.cwd, context.protected)
    return await run_command(
        command,
        cwd=context.cwd,
        env=sandbox.environment(env),
        timeout_s=timeout_s,
        max_chars=max_chars,
        lifetime=context.lifetime,
        confinement=sandbox.confinement(place, network=bool(context.network), further=[*bases, *further]),
    )


async def run_command(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_chars: int,
    lifetime: Lifetime | None = None,
    confinement: Confinement = UNCONFINED,
) -> Finished:
    """Run ``command`` in a session of its own, without input, stdout and stderr in one stream.

    When it ends, times out or this coroutine is cancelled, whatever is left of it is ended, daemons included: SIGTERM,
    a second of grace, SIGKILL. Longer output than ``max_chars`` keeps its two ends.

    Raises:
        OSError: it could not be started.
        ValueError: ``command`` holds a null character.
        CommandLost: see ``shared.processes.tools``.
    """
    output = _Output(max_chars)
    writing, transport = await _pipe_into(output)
    try:
        try:
            process = await start(
                command, cwd=cwd, env=env, stdout=writing, stderr=writing, lifetime=lifetime, confinement=confinement
            )
        finally:
            os.close(writing)
        exit_code = await _wait(process, timeout_s)
        await asyncio.wait([output.closed], timeout=_DRAIN_S)
    finally:
        transport.close()
    code = TIMED_OUT if exit_code is None else _as_in_a_shell(exit_code)
    return Finished(output.text, code, timed_out=exit_code is None, exceeded=process.exceeded)


async def _wait(process: Process, timeout_s: float) -> int | None:
    """Return the exit code, or None when the time ran out; nothing is left of the process then."""
    try:
        async with asyncio.timeout(timeout_s):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        await process.end(TERM_S)


def _as_in_a_shell(exit_code: int) -> int:
    return exit_code if exit_code >= 0 else 128 - exit_code


class _Output(asyncio.Protocol):
    """Collects what a pipe gives: the first and the last characters, up to a number together."""

    def __init__(self, max_chars: int) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._half = max_chars // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._head = ""
        self._tail: deque[str] = deque()
        self._in_tail = self._left_out = 0

    def data_received(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail.append(text[room:])
        self._in_tail += len(self._tail[-1])
        while self._in_tail - len(self._tail[0]) >= self._half:  # whole pieces go: nothing is copied
            self._in_tail -= len(self._tail[0])
            self._left_out += len(self._tail.popleft())

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def text(self) -> str:
        excess = max(0, self._in_tail - self._half)
        left_out = self._left_out + excess
        note = f"\n(cut: {left_out:,} characters left out here)\n" if left_out else ""
        return self._head + note + "".join(self._tail)[excess:] + self._decoder.decode(b"", final=True)


async def _pipe_into(output: _Output) -> tuple[int, asyncio.ReadTransport]:
    reading, writing = os.pipe()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: output, os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        os.close(writing)
        raise
    return writing, transport
