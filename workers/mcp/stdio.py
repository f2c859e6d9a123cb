"""A server that is a program: lines of JSON on its standard input and output.

The SDK's own transport joins what it has read with all that came before, at each piece: a line of 20 MB keeps the loop
for half a minute. It also waits for ever behind a byte that is no UTF-8.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

__all__ = ["LastWords", "stdio"]

MAX_LINE = 16_000_000
"""Bytes of one message; a server that sends more is not understood any more."""
_LEAVE_S = 2.0
"""How long a server may take to end when its input is closed, and again when it is told to."""


class LastWords:
    """The end of what a server wrote to its standard error: why it could not start, for people."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque(maxlen=20)

    def add(self, piece: bytes) -> None:
        """Keep a line, and forget an old one."""
        self._pieces.append(piece[-500:])

    def __str__(self) -> str:
        return b"".join(self._pieces).decode(errors="replace").strip()[-1_000:]


@asynccontextmanager
async def stdio(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, words: LastWords
) -> AsyncIterator[TransportStreams]:
    """Start a server, and end it with all that it started. Raises ``OSError``: it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        limit=MAX_LINE,
        start_new_session=True,
    )
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, to_session)
            group.start_soon(_write, process, from_session, to_session)
            group.start_soon(_listen, process, words)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                group.cancel_scope.cancel()
    finally:
        for stream in (to_session, incoming, outgoing, from_session):
            stream.close()


async def _read(process: asyncio.subprocess.Process, to_session: Any) -> None:
    assert process.stdout is not None
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with to_session:
            while line := await _line_of(process.stdout):
                if text := line.decode(errors="replace").strip():
                    await to_session.send(_message_in(text))


async def _line_of(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end, and where one is too long: nothing behind that can be trusted."""
    try:
        return await stream.readline()
    except ValueError:  # over the limit
        return b""


def _message_in(text: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def _write(process: asyncio.subprocess.Process, from_session: Any, to_session: Any) -> None:
    assert process.stdin is not None
    try:
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await to_session.aclose()  # who waits for an answer is told


async def _listen(process: asyncio.subprocess.Process, words: LastWords) -> None:
    assert process.stderr is not None
    with contextlib.suppress(OSError):
        while piece := await process.stderr.read(4_096):
            words.add(piece)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, ask it to end, then end the whole group, which it leads."""
    assert process.stdin is not None
    process.stdin.close()
    for how in (None, signal.SIGTERM):
        if how is not None:
            _signal(process, how)
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _LEAVE_S)
        if process.returncode is not None:
            break
    _signal(process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)
