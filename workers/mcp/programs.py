"""Starts servers that are programs: under the reaper, which ends all that they start, and confined where asked for."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from ekiden.shared.errors import CommandLost, ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.processes.confinement import UNCONFINED, Confinement
from ekiden.shared.processes.tools import Process, start
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.sandbox.view import Readable
from ekiden.workers.tools.command_place import place_of
from ekiden.workers.tools.protected_paths import Protected

__all__ = ["Program", "Starter"]

_LEAVE_S = 2.0
"""How long a server may take to end when its input is closed, and again when it is told to."""


@dataclass(frozen=True)
class Program:
    """A server that runs."""

    process: Process
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def end(self) -> None:
        """Close its input, ask it to end, then end it with all that it started."""
        with anyio.CancelScope(shield=True):
            self.stdin.close()
            with suppress(TimeoutError, CommandLost):
                await asyncio.wait_for(self.process.wait(), _LEAVE_S)
            await self.process.end(_LEAVE_S)


async def _no_sandbox() -> Sandbox:
    return OFF


class Starter:
    """How one worker starts the programs of servers."""

    def __init__(
        self,
        env: Mapping[str, str],
        sandbox: Callable[[], Awaitable[Sandbox]] = _no_sandbox,
        protected: Protected | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            env: What programs get of the worker's environment.
            sandbox: Returns the sandbox of this worker; asked where an entry says ``sandbox: true``.
            protected: What a program in it may not change.
        """
        self.env = env
        self._sandbox = sandbox
        self._protected = protected or Protected()

    @asynccontextmanager
    async def started(self, entry: ServerEntry, max_line: int) -> AsyncIterator[Program]:
        """Start a server whose variables are filled in, and end it with all that it started.

        Raises:
            OSError: it cannot be started, or not confined.
            ConfigurationError: its folder is not there, or nothing here confines what is to be confined.
        """
        env = {**self.env, **entry.env}
        with _folder_of(entry) as cwd:
            confinement = UNCONFINED
            if entry.sandbox:
                sandbox = await self._holding()
                confinement = await asyncio.to_thread(self._confinement, sandbox, entry, cwd)
                env = sandbox.environment(env)
            program = await _started([str(entry.command), *entry.args], cwd, env, confinement, max_line)
            try:
                yield program
            finally:
                await program.end()

    async def _holding(self) -> Sandbox:
        sandbox = await self._sandbox()
        if sandbox.holds:
            return sandbox
        why = sandbox.why or "no filter of system calls"
        raise ConfigurationError(
            f"its entry says 'sandbox: true', and nothing confines programs here ({why}): it is not started. "
            "Install bubblewrap, or take that out of the entry"
        )

    def _confinement(self, sandbox: Sandbox, entry: ServerEntry, cwd: Path) -> Confinement:
        place, bases = place_of(cwd, cwd, self._protected)
        return sandbox.confinement(place, network=bool(entry.network), further=[*bases, *_named_in(entry)])


@contextmanager
def _folder_of(entry: ServerEntry) -> Iterator[Path]:
    """Yield where the program starts: a confined one whose entry names no folder gets an empty one, gone with it."""
    if entry.cwd is None and entry.sandbox:
        with tempfile.TemporaryDirectory(prefix="ekiden-mcp-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    cwd = Path(entry.cwd or ".").expanduser().absolute()
    if not cwd.is_dir():
        raise ConfigurationError(f"its folder {str(cwd)!r} ('cwd') is not there")
    yield cwd


def _named_in(entry: ServerEntry) -> list[Readable]:
    """Return the files that the command line names: who wrote it wants the program to read them."""
    files = [Path(part) for part in (str(entry.command), *entry.args) if os.path.isabs(part) and os.path.isfile(part)]  # noqa: PTH113, PTH117 - which take any text
    return [Readable(path, Path(os.path.realpath(path))) for path in files]


async def _started(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], confinement: Confinement, max_line: int
) -> Program:
    with ExitStack() as theirs, ExitStack() as ours:
        given, stdin = await _writer(theirs, ours)
        out, stdout = await _reader(max_line, theirs, ours)
        err, stderr = await _reader(max_line, theirs, ours)
        process = await start(command, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err, confinement=confinement)
        ours.pop_all()  # they close with what is at their other end
        return Program(process, stdin, stdout, stderr)


async def _writer(theirs: ExitStack, ours: ExitStack) -> tuple[int, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    theirs.callback(os.close, reading)
    flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: flow, os.fdopen(writing, "wb", buffering=0))
    ours.callback(transport.close)
    return reading, asyncio.StreamWriter(transport, flow, None, loop)


async def _reader(max_line: int, theirs: ExitStack, ours: ExitStack) -> tuple[int, asyncio.StreamReader]:
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    reader = asyncio.StreamReader(limit=max_line)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: protocol, os.fdopen(reading, "rb", buffering=0)
    )
    ours.callback(transport.close)
    return writing, reader
