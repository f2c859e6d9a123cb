"""The MCP servers of one process: one thread with a loop of its own, on which every session lives.

A session that is used from another loop hangs for ever, and to read a large answer must not keep the legs waiting.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ekiden.shared.mcp.entries import ServerEntry, identity_of
from ekiden.workers.mcp.listing import Listing
from ekiden.workers.mcp.programs import Starter

if TYPE_CHECKING:
    from ekiden.workers.mcp.connection import Connection

__all__ = ["Hub"]

T = TypeVar("T")
CLOSE_S = 6.0


class Hub:
    """Opens connections at first use, one for each server however many agents use it."""

    def __init__(self, environ: Mapping[str, str], starter: Starter) -> None:
        """``environ``: what fills in variables of entries; ``starter``: starts those that are programs."""
        self._environ = environ
        self._starter = starter
        self._connections: dict[str, Connection] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, servers: Mapping[str, ServerEntry]) -> None:
        """Open those of ``servers`` that are to be there from the start; nobody waits for them."""
        for name, entry in servers.items():
            if entry.auto_start and not entry.disabled:
                asyncio.run_coroutine_threadsafe(self._opened(name, entry), self._started())

    async def listing(self, name: str, entry: ServerEntry) -> Listing:
        """Return what a server offers. Raises ``NotReached``."""
        return await self._do(lambda: self._connection(name, entry).open())

    async def call(self, name: str, entry: ServerEntry, tool: str, args: Mapping[str, Any], **further: Any) -> Any:
        """Call a tool; see ``Connection.call``."""
        return await self._do(lambda: self._connection(name, entry).call(tool, args, **further))

    async def read(self, name: str, entry: ServerEntry, uri: str, **further: Any) -> Any:
        """Read a resource; see ``Connection.read``."""
        return await self._do(lambda: self._connection(name, entry).read(uri, **further))

    async def prompt(self, name: str, entry: ServerEntry, prompt: str, args: Mapping[str, str]) -> Any:
        """Have a prompt written; see ``Connection.prompt``."""
        return await self._do(lambda: self._connection(name, entry).prompt(prompt, args))

    def health(self) -> dict[str, str]:
        """Return for each server that was used: empty where it is well, else what is wrong."""
        return {one.name: one.problem for one in list(self._connections.values())}

    def close(self) -> None:
        """End every session, and the servers that are programs."""
        if self._loop is None or self._thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)

    async def _opened(self, name: str, entry: ServerEntry) -> None:
        with contextlib.suppress(Exception):  # what is wrong is in its health, and in the log
            await self._connection(name, entry).open()

    def _connection(self, name: str, entry: ServerEntry) -> "Connection":
        """Return the server's connection; agents whose files name the same server share it. On the hub's loop."""
        from ekiden.workers.mcp.connection import Connection

        key = identity_of(name, entry)
        if key not in self._connections:
            self._connections[key] = Connection(name, entry, self._environ, self._starter)
        return self._connections[key]

    async def _close_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for connection in self._connections.values():
                group.create_task(connection.close())

    async def _do(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run what ``make`` makes on the hub's loop; a caller that is cancelled cancels it there."""

        async def made() -> T:
            return await make()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made(), self._started()))

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="mcp", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.closing(loop):
        loop.run_forever()
