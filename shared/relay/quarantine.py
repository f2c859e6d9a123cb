"""Runs legs in processes of their own, because they took workers along before: they take no other legs along then.

``Quarantine`` is the worker's side; ``-m ekiden.shared.relay.quarantine BOOTSTRAP`` is the process. A socket is its
standard input and output. An empty line from it says that its memory is closed (``shared.process_secrets``); the first
line to it is JSON of the part of its environment that may hold secrets, every other one a message, which it serves, and
each further line from it is a verdict. It ends with its worker, at once where that is killed: it runs under the
worker's reaper.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from ekiden.shared.environments import open_part
from ekiden.shared.errors import CommandLost
from ekiden.shared.hooks.base import Hooks
from ekiden.shared.logs import configure_logs
from ekiden.shared.process_secrets import close_memory, withheld
from ekiden.shared.processes.grace_periods import ALONE_S, LEAVE_S
from ekiden.shared.processes.tools import Process, start
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.relay.heartbeat import Heartbeat, PeriodicCall
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.pool_components import load_bootstrap
from ekiden.shared.relay.runner import PROCESS, Runner
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.server import server_url
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.replication import ReportReplicas

__all__ = ["Quarantine"]

AT_ONCE = 4
"""Legs of one worker that may be in quarantine; the others wait on the server, where they hold no slot."""
IDLE_S = 30.0
"""How long a process without work is kept: after a worker's death many legs may have to go through it."""

log = structlog.get_logger(__name__)


@dataclass
class _Child:
    """A process of the quarantine, and the socket that is its standard input and output."""

    process: Process
    answers: asyncio.StreamReader
    messages: asyncio.StreamWriter
    secrets: bytes
    """The first line to it, as long as that has not been written."""


class Quarantine:
    """The processes that run one leg at a time for a worker; they end with it."""

    def __init__(self, bootstrap: str, url: str) -> None:
        self._bootstrap = bootstrap
        self._url = url
        self._jobs: set[str] = set()
        self._idle: list[_Child] = []

    @property
    def is_full(self) -> bool:
        """Whether another leg would have to wait."""
        return len(self._jobs) >= AT_ONCE

    async def run(self, message: dict[str, Any], queue: str) -> str:
        """Serve ``message`` from ``queue`` in a process of its own; return what became of it."""
        job = str(message.get("job"))
        if job in self._jobs:
            return "busy"
        self._jobs.add(job)
        try:
            child = self._idle.pop() if self._idle else await self._start()
            verdict = await self._serve(child, message, queue)
        finally:
            self._jobs.discard(job)
        if not verdict:
            child.messages.close()
            log.error("leg_died_alone", job=job, leg=message.get("leg"), exit_code=await _exit_code(child.process))
            return "died_alone"
        self._idle.append(child)
        asyncio.get_running_loop().call_later(IDLE_S, self._dismiss, child)
        return verdict

    async def close(self) -> None:
        """End the processes without work; what they have to tell of their legs is told."""
        await asyncio.gather(*(child.process.end(LEAVE_S) for child in self._idle))

    async def _start(self) -> _Child:
        env = {**os.environ, "EKIDEN_REDIS_URL": self._url}  # settings of the command line are in there, too
        ours, theirs = socket.socketpair()
        with theirs:
            process = await start(
                # -P: the folder may hold packages that are named like ours.
                [sys.executable, "-P", "-m", __name__, self._bootstrap],
                cwd=Path.cwd(),
                env=open_part(env),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=2,  # its log is ours
            )
        return _Child(process, *await asyncio.open_connection(sock=ours), json.dumps(withheld(env)).encode() + b"\n")

    async def _serve(self, child: _Child, message: dict[str, Any], queue: str) -> str:
        """Return the verdict; empty when the process has died."""
        try:
            with suppress(ConnectionError):
                if child.secrets and await child.answers.readline():
                    child.messages.write(child.secrets)
                    child.secrets = b""
                child.messages.write(json.dumps([message, queue]).encode() + b"\n")
                await child.messages.drain()
                return (await child.answers.readline()).decode().strip()
        except asyncio.CancelledError:  # the worker stops: the process gives its leg back
            await child.process.end(ALONE_S)
            child.messages.close()
            raise
        return ""

    def _dismiss(self, child: _Child) -> None:
        if child in self._idle:
            self._idle.remove(child)
            child.messages.close()


async def _exit_code(process: Process) -> int | None:
    try:
        return await process.wait()
    except CommandLost:
        return None


def main() -> None:
    """Serve messages until there are no more, or the parent is gone."""
    # Not sys.stdin: Python closes it as it ends, and aborts when a thread still reads from it.
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a leg prints is no verdict
    close_memory()
    answers.write(b"\n")
    os.environ.update(json.loads(lines.readline() or "{}"))
    configure_logs(os.environ.get("EKIDEN_LOG_LEVEL", "WARNING"))
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve_all(sys.argv[1], lines, answers))


async def _serve_all(bootstrap: str, lines: BinaryIO, answers: BinaryIO) -> None:
    settings = load_settings().model_copy(update={"metrics_port": None})  # which its worker has
    url = server_url(settings)
    stores = open_stores(url, confirming=ReportReplicas(settings.wait_replicas), signing=settings.signing)
    configure_redaction(settings.redact, settings.secrets)
    hooks = Hooks()
    leases = Leases(settings.lease_s, hooks)
    messages: asyncio.Queue[bytes] = asyncio.Queue()
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    threading.Thread(target=_read, args=(lines, loop, messages, task), daemon=True).start()
    heartbeat = Heartbeat(url, settings, leases, describe=None)
    heartbeat.also(PeriodicCall(1.0, lambda _: _end_if_wedged(leases)))
    heartbeat.start()
    served = await load_bootstrap(bootstrap)(settings, stores)
    hooks.add(*served.hooks)
    runner = Runner(
        stores.jobs,
        leases,
        served.handler,
        cycles=settings.handoff_cycles,
        sessions=stores.sessions,
        live=stores.live,
        until_progress=True,
        verifier=MessageVerifier(stores.signing, stores.dead_letters),
        hooks=hooks,
    )
    try:
        while line := await messages.get():
            message, queue = json.loads(line)
            verdict = await runner.run(message, queue)
            log.info("leg_ran_alone", job=message.get("job"), verdict=verdict, process=PROCESS)
            answers.write(verdict.encode() + b"\n")
    finally:
        await _close(heartbeat, stores)
        await asyncio.to_thread(hooks.close)


async def _close(heartbeat: Heartbeat, stores: Stores) -> None:
    await asyncio.to_thread(heartbeat.stop)
    await stores.close()


def _read(
    lines: BinaryIO, loop: asyncio.AbstractEventLoop, messages: "asyncio.Queue[bytes]", task: "asyncio.Task[None]"
) -> None:
    """Take messages from the worker, which has no more of them when it closes the line."""
    with suppress(RuntimeError):  # the loop has ended
        for line in lines:
            loop.call_soon_threadsafe(messages.put_nowait, line)
        loop.call_soon_threadsafe(task.cancel)


async def _end_if_wedged(leases: Leases) -> None:
    """A leg that never lets go of the loop has lost its lease, and nothing else would ever end it."""
    if leases.are_wedged:
        log.error("leg_wedged_alone", process=PROCESS)
        os._exit(1)


if __name__ == "__main__":
    main()
