"""Runs one leg in a process of its own, because it took workers along before: it takes no neighbours along then.

``run_alone`` is the worker's side; ``python -m shared.relay.alone BOOTSTRAP QUEUE`` is the process.
"""

import asyncio
import json
import os
import sys
import threading
from typing import Any

import structlog

from shared.logs import configure_logs
from shared.relay.beat import Beat
from shared.relay.leases import Leases
from shared.relay.runner import PROCESS, Runner
from shared.relay.served import imported
from shared.server import server_url
from shared.settings import load_settings
from shared.stores.opening import open_stores

__all__ = ["run_alone"]

log = structlog.get_logger(__name__)


async def run_alone(message: dict[str, Any], queue: str, bootstrap: str, url: str) -> str:
    """Serve ``message`` in a new process and wait for its end; the process ends with this one."""
    command = (sys.executable, "-m", "shared.relay.alone", bootstrap, queue)
    environment = {**os.environ, "EKIDEN_REDIS_URL": url}
    child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, env=environment)
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(message).encode() + b"\n")  # and stays open: its end is the end of the child
        code = await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if code:
        log.error("leg_died_alone", job=message.get("job"), leg=message.get("leg"), exit_code=code)
    return "alone" if code == 0 else "died_alone"


def main() -> None:
    """Serve the message on standard input."""
    bootstrap, queue = sys.argv[1:]
    configure_logs(os.environ.get("EKIDEN_LOG_LEVEL", "WARNING"))
    message = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_serve(message, queue, bootstrap))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


async def _serve(message: dict[str, Any], queue: str, bootstrap: str) -> None:
    settings = load_settings()
    url = server_url(settings)
    stores = open_stores(url)
    leases = Leases(settings.lease_s)
    beat = Beat(url, settings, leases, describe=None)
    served = await imported(bootstrap)(settings, stores)
    runner = Runner(
        stores.jobs,
        leases,
        served.handler,
        cycles=settings.handoff_cycles,
        sessions=stores.sessions,
        live=stores.live,
    )
    beat.start()
    try:
        verdict = await runner.run(message, queue)
        log.info("leg_ran_alone", job=message.get("job"), verdict=verdict, process=PROCESS)
    finally:
        await asyncio.to_thread(beat.stop)
        await stores.close()


if __name__ == "__main__":
    main()
