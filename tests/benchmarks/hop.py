"""What a durable handoff costs beside a bare Celery hop.

    python -m tests.benchmarks.hop [--jobs 300]

Chains of three hops each, first as stock Celery tasks that send the next one (no state, no recovery: a killed worker
loses them), then as Ekiden legs with claim, journal, model call and commit. Prints the CPU of worker and server per
hop, and the ratio; CPU and not wall time, because machines are noisy.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

from celery import Celery

from ekiden.dispatcher.client import Client
from ekiden.shared.processes.children import ChildProcess, start_child
from ekiden.shared.stores.redis import as_any, connect
from tests.benchmarks.inflight import CHAIN, agent_file, cpu_s, script
from tests.benchmarks.stack import Stack, stack
from tests.integration.celery_worker import kombu_url

HOPS = 3


def main() -> None:
    """Print both and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    jobs = parser.parse_args().jobs
    agents = {name: agent_file(index) for index, name in enumerate(CHAIN)}
    with stack(agents, script(0.0)) as made:
        bare = asyncio.run(bare_hops(made, jobs))
        ours = asyncio.run(durable_hops(made, jobs))
    for name, (worker, server) in {"bare Celery": bare, "Ekiden": ours}.items():
        print(f"{name}: {worker * 1000:.2f} ms worker + {server * 1000:.2f} ms server CPU a hop")
    print(f"ratio {sum(ours) / sum(bare):.2f}")


async def bare_hops(made: Stack, jobs: int) -> tuple[float, float]:
    """CPU seconds of worker and server per hop of stock Celery."""
    env = {**os.environ, "EKIDEN_REDIS_URL": made.url}
    command = [
        sys.executable,
        "-m",
        "tests.celery_program",
        "-A",
        "tests.benchmarks.bare_celery",
        "worker",
        "-l",
        "WARNING",
    ]
    worker = start_child([*command, "-P", "solo", "-Q", "bare"], env=env, log=made.folder / "bare.log")
    made.children.append(worker)
    sender = Celery(broker=kombu_url(made.url))
    client = connect(made.url)

    async def run(count: int) -> None:
        await as_any(client.delete("bare.end"))
        for _ in range(count):
            sender.send_task("hop", [HOPS - 1], queue="bare")
        await until(lambda: as_any(client.llen("bare.end")), count)

    async with Client(made.url) as ekiden:
        server = await ekiden.server_pid()
    await run(1)
    figures = await metered(worker, server, run, jobs)
    worker.stop(0.0)
    await client.aclose()
    return figures


async def durable_hops(made: Stack, jobs: int) -> tuple[float, float]:
    """CPU seconds of worker and server per leg of ours; the dispatcher's legs run in another process."""
    made.start("dispatcher", concurrency=jobs)
    worker = made.start("workers", *(f"ekiden.agent.{name}" for name in CHAIN), concurrency=jobs)
    async with Client(made.url) as client:
        await made.ready(client, 2)

        async def run(count: int) -> None:
            ids = [await client.submit("go", agent="first") for _ in range(count)]
            for job in ids:
                await client.wait(job)

        await run(1)
        return await metered(worker, await client.server_pid(), run, jobs)


async def metered(
    worker: ChildProcess, server: int, run: Callable[[int], Awaitable[None]], jobs: int
) -> tuple[float, float]:
    """Run ``jobs`` chains; return the CPU per hop of worker and server."""
    before = cpu_s(worker.pid), cpu_s(server)
    await run(jobs)
    after = cpu_s(worker.pid), cpu_s(server)
    return (after[0] - before[0]) / (jobs * HOPS), (after[1] - before[1]) / (jobs * HOPS)


async def until(count: Callable[[], Awaitable[int]], wanted: int, within_s: float = 60.0) -> None:
    """Wait until ``count()`` reaches ``wanted``."""
    deadline = time.monotonic() + within_s
    while await count() < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not {wanted} within {within_s} s")
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    main()
