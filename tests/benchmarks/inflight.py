"""How many legs one worker process holds at once.

    python -m tests.benchmarks.inflight [--jobs 200] [--turn-s 1.0]

Every job is a chain of three agents whose model takes ``turn-s`` a turn. All jobs are submitted at once; the ideal is
that nobody ever waits: three turns.
"""

import argparse
import asyncio
import contextlib
import itertools
import time

import psutil

from ekiden.dispatcher.client import Client
from tests.benchmarks.stack import Stack, stack

CHAIN = ("first", "second", "third")


def main() -> None:
    """Print wall time, ideal and ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--turn-s", type=float, default=1.0)
    options = parser.parse_args()
    with stack(dict(zip(CHAIN, map(agent_file, range(3)), strict=True)), script(options.turn_s)) as made:
        asyncio.run(measure(made, options.jobs, options.turn_s))


def agent_file(index: int) -> str:
    """An agent that hands over to the next of the chain."""
    handoffs = f"handoffs: [{{to: {CHAIN[index + 1]}}}]\n" if index + 1 < len(CHAIN) else ""
    return f"---\nname: {CHAIN[index]}\ndescription: Runner {index}.\ntools: []\n{handoffs}---\nRun.\n"


def script(turn_s: float) -> str:
    """Replies of the chain, each after ``turn_s``."""
    moves = [
        f"  {here}:\n  - {{name: run, delay_s: {turn_s}, call: [{{tool: transfer_to_{to}, args: {{reason: go}}}}]}}\n"
        for here, to in itertools.pairwise(CHAIN)
    ]
    return "agents:\n" + "".join(moves) + f"  {CHAIN[-1]}:\n  - {{name: end, delay_s: {turn_s}, say: done}}\n"


async def measure(made: Stack, jobs: int, turn_s: float) -> None:
    """Run ``jobs`` through one worker process and print the figures."""
    made.start("dispatcher", concurrency=jobs)
    worker = made.start("workers", *(f"ekiden.agent.{name}" for name in CHAIN), concurrency=jobs)
    async with Client(made.url) as client:
        await made.ready(client, 2)
        await client.wait(await client.submit("warm up", agent="third"))
        cpu_before, memory_before = cpu_s(worker.pid), resident(worker.pid)
        began = time.monotonic()
        ids = await asyncio.gather(*(client.submit("go", agent="first") for _ in range(jobs)))
        submitted = time.monotonic() - began
        most = asyncio.create_task(most_resident(worker.pid))
        views = await asyncio.gather(*(client.wait(job) for job in ids))
        wall = time.monotonic() - began
        cpu = cpu_s(worker.pid) - cpu_before
        most.cancel()
        kb = (await most - memory_before) / jobs / 1024
    assert all(view.result == "done" for view in views), "a job went wrong"
    ideal = turn_s * len(CHAIN)
    print(f"jobs {jobs}, turns {len(CHAIN)} x {turn_s:g} s, one worker process")
    print(f"the worker's CPU: {cpu / (jobs * len(CHAIN)) * 1000:.2f} ms a leg (one claim, one model call, one commit)")
    print(f"the worker's memory: {kb:.1f} KB a leg in flight, at most")
    print(f"submitted in {submitted:.2f} s, all done in {wall:.2f} s, ideal {ideal:.2f} s, ratio {wall / ideal:.2f}")


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(psutil.Process(pid).memory_info().rss)


async def most_resident(pid: int) -> int:
    """The most that it holds until this is cancelled."""
    most = 0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            most = max(most, resident(pid))
            await asyncio.sleep(0.1)
    return most


def cpu_s(pid: int) -> float:
    """CPU time of a process so far: unlike wall time, not the neighbours' doing."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
