"""Running a command as a process group that ends with its call, whatever it starts."""

import asyncio
import codecs
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TIMED_OUT", "Finished", "run_group"]

TIMED_OUT = 124
"""The exit code of a command that ran out of time, as timeout(1) gives it."""

_GRACE_S = 1.0
_DRAIN_S = 0.5
_POLL_S = 0.02


@dataclass(frozen=True)
class Finished:
    """How a command ended. An ``exit_code`` over 128 names the signal that ended it, as in a shell."""

    output: str
    exit_code: int
    timed_out: bool


async def run_group(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float, max_chars: int
) -> Finished:
    """Run ``command`` in a process group of its own, without input, stdout and stderr in one stream.

    When it ends, times out or this coroutine is cancelled, whatever is left of the group is ended: SIGTERM, a second of
    grace, SIGKILL. Only a process that moved to another session (a daemon) escapes. Longer output keeps its two ends.

    Raises:
        OSError: it could not be started.
        ValueError: ``command`` holds a null character.
    """
    output = _Output(max_chars)
    # A pipe of our own: with asyncio's, some Python versions let wait() wait for every process that holds the pipe.
    writing, transport = await _pipe_into(output)
    try:
        process = await _start(command, cwd, env, writing)
        timed_out = await _wait(process, timeout_s)
        await asyncio.wait([output.closed], timeout=_DRAIN_S)
    finally:
        transport.close()
    return Finished(output.text, TIMED_OUT if timed_out else _as_in_a_shell(process.returncode), timed_out)


class _Output(asyncio.Protocol):
    """Collects what a pipe gives: the first and the last characters, up to a number together."""

    def __init__(self, max_chars: int) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._half = max_chars // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._head = self._tail = ""
        self._left_out = 0

    def data_received(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        excess = max(0, len(self._tail) - self._half)
        self._left_out += excess
        self._tail = self._tail[excess:]

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def text(self) -> str:
        note = f"\n(cut: {self._left_out:,} characters left out here)\n" if self._left_out else ""
        return self._head + note + self._tail + self._decoder.decode(b"", final=True)


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


async def _start(command: Sequence[str], cwd: Path, env: Mapping[str, str], writing: int) -> asyncio.subprocess.Process:
    """Start the group. A cancellation meanwhile waits for the start: otherwise nobody would know whom to end."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise
    finally:
        os.close(writing)


async def _wait(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    """Wait until ``process`` has ended, or ended it is; tell whether the time ran out."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        return True
    finally:
        await _end(process)
    return False


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        _signal(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                while _signal(process.pid, 0):  # noqa: ASYNC110 - nothing announces the end of a grandchild
                    await asyncio.sleep(_POLL_S)
    finally:
        # Also when a second cancellation cuts the grace short.
        _signal(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            await process.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group (0 only asks); tell whether anything in it could be reached."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _as_in_a_shell(returncode: int | None) -> int:
    assert returncode is not None, "the process has been waited for"
    return returncode if returncode >= 0 else 128 - returncode
