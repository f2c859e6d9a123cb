"""How fast one Python process submits.

    python -m tests.benchmarks.submits [--jobs 10000] [--at-once 100]

Jobs are submitted one after another, then so many at a time. No pool takes them, so that what is timed is the client
and the server alone; the yardstick, in the same run, is PING by redis-py's own client.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from ekiden.dispatcher.client import Client
from ekiden.shared.stores.redis import as_any, connect
from tests.benchmarks.chaos_figures import at
from tests.benchmarks.stack import stack


def main() -> None:
    """Print jobs a second, and how long one takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=100)
    given = parser.parse_args()
    with stack({}, "agents: {}\n") as made:
        asyncio.run(measure(made.url, given.jobs, given.at_once))


async def measure(url: str, jobs: int, at_once: int) -> None:
    """Run both, and the yardstick."""
    plain = connect(url)
    async with Client(url) as client:
        await client.submit("warm up")
        print(f"load {os.getloadavg()[0]:.1f}")
        for name, ask in {"PING": lambda: as_any(plain.ping()), "submit": lambda: client.submit("please look")}.items():
            for width in (1, at_once):
                print(f"{name}, {width} at a time: {await timed(ask, jobs, width)}", flush=True)
    await plain.aclose()


async def timed(ask: Callable[[], Awaitable[object]], count: int, width: int) -> str:
    """Ask so often, so many at a time; say how fast that was."""
    took: list[float] = []

    async def share() -> None:
        for _ in range(count // width):
            began = time.perf_counter()
            await ask()
            took.append((time.perf_counter() - began) * 1000)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(share() for _ in range(width)))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    times = f"p50 {at(took, 0.5):.2f} ms, p99 {at(took, 0.99):.2f} ms, CPU {cpu_s / len(took) * 1000:.2f} ms"
    return f"{len(took) / wall_s:,.0f} a second, {times}"


if __name__ == "__main__":
    main()
