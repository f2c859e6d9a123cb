"""Hooks that are commands: one program for each question, under the reaper, which ends all that it starts."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

from ekiden.shared.definitions.tool_names import all_names
from ekiden.shared.errors import CommandLost, HookFailed
from ekiden.shared.hook_entries import HookEntry, Refused, named_by
from ekiden.shared.hooks.answers import blocked, said
from ekiden.shared.hooks.base import Hook
from ekiden.shared.hooks.events import BeforeTool, Event
from ekiden.shared.hooks.questions import asked
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.patterns import compile_pattern
from ekiden.shared.processes.grace_periods import TERM_S
from ekiden.shared.processes.tools import Process, start

__all__ = ["CommandHook", "RefusingHook", "command_hooks", "refusing_hooks"]

_MOST_OUTPUT = 1_000_000
"""Bytes of what a command may write to one of its two outputs."""
_MOST_SAID = 1_000
"""Characters of what is told of what a command wrote that failed."""
_DRAIN_S = 0.5
_SHELL = "/bin/sh"


class CommandHook(Hook):
    """Asks a command. It is found, and starts, in the folder of whoever wrote the hook: never in a job's."""

    def __init__(self, entry: HookEntry, env: Mapping[str, str], cwd: Path) -> None:
        """``env``: all of the environment that the command gets."""
        self.name = entry.name or entry.command
        self.timeout_s = entry.timeout_s + TERM_S + 1.0  # behind the command's own, which says more
        self.required = entry.required
        self.parallel = not entry.sequential
        self.owner = str(cwd)
        self._entry = entry
        self._env = {**env, **entry.env}
        self._cwd = cwd
        self._pattern = compile_pattern(entry.matcher, ignore_case=True) if entry.matcher else None

    def intervenes_at(self, event: str) -> bool:
        """See ``Intervening``."""
        return event == self._entry.at

    async def intervene(self, event: Event) -> HookReply | None:
        """See ``Intervening``. Raises ``HookFailed``, ``UnreadableReply``."""
        if not self._is_about(event):
            return None
        code, out, err = await self._run(asked(event, self._entry))
        if code == 2:
            return blocked(err, event, self._entry)
        if code:
            ended = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
            raise HookFailed(f"it {ended}: {(err or out).strip()[:_MOST_SAID] or 'it wrote nothing'}")
        return said(out, event, self._entry)

    def _is_about(self, event: Event) -> bool:
        if self._entry.of and event.place.is_delegated != (self._entry.of == "delegated"):
            return False
        pattern = self._pattern
        return pattern is None or any(pattern.search(name.encode()) for name in all_names(event.subject))

    async def _run(self, text: str) -> tuple[int, str, str]:
        """Return the command's exit code and what it wrote. Raises ``HookFailed``."""
        with tempfile.TemporaryFile() as given:  # no pipe: who does not read it keeps nobody waiting
            given.write(text.encode(errors="replace"))
            given.seek(0)
            async with _reading() as (out, out_fd), _reading() as (err, err_fd):
                try:
                    process = await self._started(given, out_fd, err_fd)
                finally:
                    os.close(out_fd)
                    os.close(err_fd)
                code = await self._ended(process, (out, err))
                await asyncio.wait([out.closed, err.closed], timeout=_DRAIN_S)
                return code, out.text, err.text

    async def _started(self, given: IO[bytes], out_fd: int, err_fd: int) -> Process:
        argv = [_SHELL, "-c", self._entry.command]
        try:
            return await start(argv, cwd=self._cwd, env=self._env, stdin=given.fileno(), stdout=out_fd, stderr=err_fd)
        except (OSError, ValueError, CommandLost) as error:
            raise HookFailed(f"it cannot be started: {error}") from error

    async def _ended(self, process: Process, outputs: Iterable["_Output"]) -> int:
        """Wait for the end of the command: it is ended with all that it started where it takes or writes too much."""
        wait = asyncio.ensure_future(process.wait())
        events: list[asyncio.Future[Any]] = [wait, *(one.over for one in outputs)]
        try:
            await asyncio.wait(events, timeout=self._entry.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if any(one.over.done() for one in outputs):
                raise HookFailed(f"it wrote more than {_MOST_OUTPUT:,} bytes")
            if not wait.done():
                raise HookFailed(f"no answer within {self._entry.timeout_s:g} s")
            return wait.result()
        except CommandLost as error:
            raise HookFailed(str(error)) from error
        finally:
            wait.cancel()
            await process.end(TERM_S)


def command_hooks(entries: Iterable[HookEntry], env: Mapping[str, str], cwd: Path) -> tuple[CommandHook, ...]:
    """Return the hooks of ``entries``; where one at an event is sequential, all of them there are, as in gemini-cli."""
    entries = tuple(entries)
    in_order = {entry.at for entry in entries if entry.sequential}
    return tuple(
        CommandHook(entry.model_copy(update={"sequential": entry.at in in_order}), env, cwd) for entry in entries
    )


class RefusingHook(Hook):
    """Stands in for a hook that cannot run here: calls that it would have looked at are denied."""

    name = "that cannot run"

    def __init__(self, refused: Refused) -> None:
        self._why = refused.why
        self._names = named_by(refused.matcher, refused.form)

    async def before_tool(self, event: BeforeTool) -> HookReply | None:
        """See ``Intervening``."""
        is_meant = self._names is None or any(self._names.search(name.encode()) for name in all_names(event.call.name))
        return HookReply(block=self._why) if is_meant else None


def refusing_hooks(refused: Iterable[Refused]) -> tuple[RefusingHook, ...]:
    """Return what stands in for hooks that would have looked at calls beforehand."""
    return tuple(RefusingHook(one) for one in refused if one.at == "BeforeTool")


class _Output(asyncio.Protocol):
    """Collects what a pipe gives, up to a number of bytes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when there is more than that."""
        self._pieces: list[bytes] = []
        self._room = _MOST_OUTPUT

    @property
    def text(self) -> str:
        """What was written."""
        return b"".join(self._pieces).decode(errors="replace")

    def data_received(self, data: bytes) -> None:
        self._pieces += [data[: max(0, self._room)]]
        self._room -= len(data)
        if self._room < 0 and not self.over.done():
            self.over.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


@asynccontextmanager
async def _reading() -> AsyncIterator[tuple[_Output, int]]:
    """Yield what collects, and the descriptor to write to, which is the caller's to close."""
    reading, writing = os.pipe()
    output = _Output()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: output, os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        os.close(writing)
        raise
    try:
        yield output, writing
    finally:
        transport.close()
