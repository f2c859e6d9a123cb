"""A server that is a program: lines of JSON on its standard input and output.

The SDK's own transport joins what it has read with all that came before, at each piece: a line of 20 MB keeps the loop
for half a minute. It also waits for ever behind a byte that is no UTF-8.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from ekiden.workers.mcp.programs import Program

__all__ = ["MAX_LINE", "LastWords", "stdio"]

MAX_LINE = 16_000_000
"""Bytes of one message; a server that sends more is not understood any more."""


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
async def stdio(program: Program, words: LastWords) -> AsyncIterator[TransportStreams]:
    """Speak to a server that runs."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, program.stdout, to_session)
            group.start_soon(_write, program.stdin, from_session, to_session)
            group.start_soon(_listen, program.stderr, words)
            try:
                yield incoming, outgoing
            finally:
                await program.end()  # while what it says at last is still heard
                group.cancel_scope.cancel()
    finally:
        for stream in (to_session, incoming, outgoing, from_session):
            stream.close()


async def _read(stdout: asyncio.StreamReader, to_session: Any) -> None:
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with to_session:
            while line := await _line_of(stdout):
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


async def _write(stdin: asyncio.StreamWriter, from_session: Any, to_session: Any) -> None:
    try:
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await to_session.aclose()  # who waits for an answer is told


async def _listen(stderr: asyncio.StreamReader, words: LastWords) -> None:
    with contextlib.suppress(OSError):
        while piece := await stderr.read(4_096):
            words.add(piece)
