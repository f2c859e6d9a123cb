"""Runs legs in processes of their own, because they took workers along before: they take no neighbours along then.

``Quarantine`` is the worker's side; ``python -m shared.relay.alone BOOTSTRAP`` is the process. It serves one message
after the other (lines of JSON on its standard input, a verdict a line on its standard output) and ends with its parent.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO

import structlog

from shared.logs import configure_logs
from shared.relay.beat import Beat, Chore
from shared.relay.leases import Leases
from shared.relay.runner import PROCESS, Runner
from shared.relay.served import imported
from shared.server import server_url
from shared.settings import load_settings
from shared.stores.opening import Stores, open_stores
from shared.telemetry.starting import start_telemetry

__all__ = ["Quarantine"]

AT_ONCE = 4
"""Legs of one worker that may be in quarantine; the others wait on the server, where they hold no slot."""
IDLE_S = 30.0
"""How long a process without work is kept: after a worker's death many legs may have to go through it."""
GRACE_S = 2.0
"""How long a process that is told to end may take to give its leg back."""

log = structlog.get_logger(__name__)


class Quarantine:
    """The processes that run one leg at a time for a worker; they end with it."""

    def __init__(self, bootstrap: str, url: str) -> None:
        self._bootstrap = bootstrap
        self._url = url
        self._jobs: set[str] = set()
        self._idle: list[asyncio.subprocess.Process] = []

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
            log.error("leg_died_alone", job=job, leg=message.get("leg"), exit_code=await child.wait())
            return "died_alone"
        self._idle.append(child)
        asyncio.get_running_loop().call_later(IDLE_S, self._dismiss, child)
        return verdict

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the current folder may be anybody's, with packages that are named like ours
            "-m",
            __name__,
            self._bootstrap,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "EKIDEN_REDIS_URL": self._url},  # settings of the command line are in there, too
            start_new_session=True,  # Ctrl-C in the terminal reaches only the worker, who decides what becomes of it
        )

    async def _serve(self, child: asyncio.subprocess.Process, message: dict[str, Any], queue: str) -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with suppress(ConnectionError):
                child.stdin.write(json.dumps([message, queue]).encode() + b"\n")
                await child.stdin.drain()
            return (await child.stdout.readline()).decode().strip()
        except asyncio.CancelledError:  # the worker stops
            await _end(child)
            raise

    def _dismiss(self, child: asyncio.subprocess.Process) -> None:
        if child in self._idle:
            self._idle.remove(child)
            assert child.stdin is not None
            child.stdin.close()


async def _end(child: asyncio.subprocess.Process) -> None:
    """Let the process give its leg back; kill it when it does not."""
    try:
        child.terminate()
        await asyncio.wait_for(child.wait(), GRACE_S)
    except ProcessLookupError:
        return
    except TimeoutError:
        child.kill()


def main() -> None:
    """Serve messages until there are no more, or the parent is gone."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a leg prints is no verdict
    configure_logs(os.environ.get("EKIDEN_LOG_LEVEL", "WARNING"))
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve_all(sys.argv[1], answers))


async def _serve_all(bootstrap: str, answers: BinaryIO) -> None:
    settings = load_settings()
    url = server_url(settings)
    stores = open_stores(url)
    stop_telemetry = start_telemetry("ekiden-worker", settings.model_copy(update={"metrics_port": None}), is_host=True)
    leases = Leases(settings.lease_s)
    messages: asyncio.Queue[bytes] = asyncio.Queue()
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    threading.Thread(target=_read, args=(loop, messages, task), daemon=True).start()
    beat = Beat(url, settings, leases, describe=None)
    beat.also(Chore(1.0, lambda _: _end_if_wedged(leases)))
    beat.start()
    served = await imported(bootstrap)(settings, stores)
    runner = Runner(
        stores.jobs,
        leases,
        served.handler,
        cycles=settings.handoff_cycles,
        sessions=stores.sessions,
        live=stores.live,
        until_progress=True,
    )
    try:
        while line := await messages.get():
            message, queue = json.loads(line)
            verdict = await runner.run(message, queue)
            log.info("leg_ran_alone", job=message.get("job"), verdict=verdict, process=PROCESS)
            answers.write(verdict.encode() + b"\n")
    finally:
        await _close(beat, stores)
        await asyncio.to_thread(stop_telemetry)


async def _close(beat: Beat, stores: Stores) -> None:
    await asyncio.to_thread(beat.stop)
    await stores.close()


def _read(loop: asyncio.AbstractEventLoop, messages: "asyncio.Queue[bytes]", task: "asyncio.Task[None]") -> None:
    """Take messages from the parent. Their end is the end of the process: what runs is given back."""
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(messages.put_nowait, line)
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(task.cancel)
    time.sleep(GRACE_S)
    os._exit(1)


async def _end_if_wedged(leases: Leases) -> None:
    """A leg that never lets go of the loop has lost its lease, and nothing else would ever end it."""
    if leases.are_wedged:
        log.error("leg_wedged_alone", process=PROCESS)
        os._exit(1)


if __name__ == "__main__":
    main()
