"""Opens the way to a server, whichever it is, and takes out of its listings what would hide the rest."""

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.tls import tls_context
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.stdio import MAX_LINE, LastWords, stdio

__all__ = ["Open", "transport_to"]

_CONNECT_S = 10.0
_READ_S = 300.0
_HELPER_S = 10.0

Open = Callable[[], AbstractAsyncContextManager[TransportStreams]]


@asynccontextmanager
async def transport_to(
    entry: ServerEntry,
    starter: Starter,
    words: LastWords,
    dropped: dict[str, str],
    on_end: Callable[[], None],
    *,
    events: bool = False,
) -> AsyncIterator[TransportStreams]:
    """Open the way to a server whose variables are filled in.

    Args:
        entry: The server.
        starter: Starts one that is a program.
        words: Takes what a program writes to its standard error.
        dropped: Takes the tools that cannot be used, by name, with why.
        on_end: Called when nothing more comes from the server, also while nobody waits for anything.
        events: Speak the older way (server-sent events) to an address.
    """
    async with _opened(entry, starter, words, events=events) as (incoming, outgoing):
        yield _Sieve(incoming, dropped, on_end), outgoing


@asynccontextmanager
async def _opened(
    entry: ServerEntry, starter: Starter, words: LastWords, *, events: bool
) -> AsyncIterator[TransportStreams]:
    if entry.transport == "stdio":
        async with starter.started(entry, MAX_LINE) as program, stdio(program, words) as streams:
            yield streams
        return
    headers = {**entry.headers, **await _made_headers(entry, starter.env)}
    if events:
        async with sse_client(entry.address, headers=headers, timeout=_CONNECT_S, sse_read_timeout=_READ_S) as streams:
            yield streams
        return
    timeout = httpx2.Timeout(_CONNECT_S, read=_READ_S)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, verify=tls_context()) as client,
        streamable_http_client(entry.address, http_client=client) as streams,
    ):
        yield streams


async def _made_headers(entry: ServerEntry, env: Mapping[str, str]) -> dict[str, str]:
    """Return what the server's command for headers prints. Its output is no part of any error: it holds tokens."""
    helper = entry.headers_helper
    if not helper:
        return {}
    command = shlex.split(helper[0]) if len(helper) == 1 else list(helper)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **env},
        )
    except OSError as error:
        raise ConfigurationError(f"'headersHelper' {command[0]!r} cannot be started: {error.strerror}") from None
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), _HELPER_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise ConfigurationError(f"'headersHelper' {command[0]!r} took more than {_HELPER_S:g} s") from None
    if process.returncode:
        raise ConfigurationError(f"'headersHelper' {command[0]!r} ended with exit code {process.returncode}")
    return _headers_in(printed, command[0])


def _headers_in(printed: bytes, command: str) -> dict[str, str]:
    try:
        headers = json.loads(printed)
    except ValueError:
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ConfigurationError(f"'headersHelper' {command!r} must print a JSON object of texts")
    return headers


class _Sieve:
    """Passes a server's messages on, a listing of tools without those that no client could read.

    The SDK refuses a listing as a whole.
    """

    def __init__(self, stream: Any, dropped: dict[str, str], on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end
        self._dropped = dropped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return self._sifted(await self._stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise

    def __aiter__(self) -> "_Sieve":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Sieve":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *how: Any) -> bool | None:
        return await self._stream.__aexit__(*how)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _sifted(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        message = None if isinstance(item, Exception) else item.message
        result = message.result if isinstance(message, types.JSONRPCResponse) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        if isinstance(result, dict) and isinstance(tools, list):
            result["tools"] = [tool for tool in tools if self._is_usable(tool)]
        return item

    def _is_usable(self, tool: Any) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        try:
            types.Tool.model_validate(tool, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            self._dropped[str(name)[:100]] = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            return False
        schema = tool.get("inputSchema")  # that of an older protocol must say its type, or the listing is refused
        if isinstance(schema, Mapping) and schema.get("type") != "object":
            self._dropped[str(name)[:100]] = "inputSchema.type: must be 'object'"
            return False
        return True
