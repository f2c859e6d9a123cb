"""A limit of calls that several worker processes keep together: never more, hardly less, and a share for everybody.

    python -m tests.benchmarks.limits [--workers 4] [--jobs 2000] [--rpm 1000]

One user submits all jobs at once, of one model call each, and then another one a single job every ten seconds. The
first minute begins with a burst; how much of the limit was used is told of what comes behind it.
"""

import argparse
import asyncio
import json
import time
from bisect import bisect_left
from collections.abc import Sequence

from ekiden.dispatcher.client import Client
from ekiden.shared.records import Ended, LegStarted, ModelReplied
from tests.benchmarks.chaos_figures import at
from tests.benchmarks.inflight import cpu_s
from tests.benchmarks.stack import Stack, stack

AGENT = "---\nname: asking\ndescription: Asks its model.\ntools: []\n---\nWork.\n"
SCRIPT = "agents:\n  asking:\n  - {name: think, delay_s: 0.1, say: done}\n"
EVERY_S = 10.0
WINDOW_MS = 60_000


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rpm", type=int, default=1000)
    options = parser.parse_args()
    with stack({"asking": AGENT}, SCRIPT) as made:
        asyncio.run(measure(made, options.workers, options.jobs, options.rpm))


async def measure(made: Stack, workers: int, jobs: int, rpm: int) -> None:
    """Run the jobs through so many worker processes, and print the figures."""
    limits = json.dumps({"scripted": {"rpm": rpm}})
    made.start("dispatcher", concurrency=100)
    for _ in range(workers):
        made.start("workers", "ekiden.agent.asking", concurrency=100, model_limits=limits)
    async with Client(made.url) as client:
        await made.ready(client, workers + 1)
        began, cpu = time.monotonic(), sum(cpu_s(child.pid) for child in made.children)
        many = await asyncio.gather(
            *(client.submit(f"go {number}", agent="asking", user="many") for number in range(jobs))
        )
        beside = asyncio.create_task(single_jobs(client))
        await asyncio.gather(*map(client.wait, many))
        wall_s = time.monotonic() - began
        beside.cancel()
        waits = await beside
        cpu = sum(cpu_s(child.pid) for child in made.children) - cpu
        called, claims = await calls_of(client, many)
    report(called, rpm)
    print(f"jobs {jobs}, {workers} worker processes, limit {rpm} a minute: {wall_s:.0f} s")
    print(
        f"claims of a job: {claims / jobs:.2f}; CPU of all processes but the server: {cpu / jobs * 1000:.1f} ms a job"
    )
    alone = f"p50 {at(waits, 0.5):.1f} s, most {max(waits):.1f} s" if waits else "none has ended"
    print(f"a single job of another user meanwhile ({len(waits)}): {alone}")


async def single_jobs(client: Client) -> list[float]:
    """Submit a job from time to time, until this is cancelled; return how long each took."""
    took: list[float] = []
    try:
        while True:
            await asyncio.sleep(EVERY_S)
            began = time.monotonic()
            await client.wait(await client.submit("go", agent="asking", user="one"))
            took.append(time.monotonic() - began)
    except asyncio.CancelledError:
        return took


async def calls_of(client: Client, jobs: Sequence[str]) -> tuple[list[int], int]:
    """Return when each call was made, in order, and how often the legs were claimed."""
    called, claims = [], 0
    for job in jobs:
        entries = await client.entries(job)
        end = entries[-1].record
        assert isinstance(end, Ended), job
        assert end.answer == "done", job
        called += [one.at_ms - one.record.duration_ms for one in entries if isinstance(one.record, ModelReplied)]
        claims += sum(isinstance(entry.record, LegStarted) and entry.record.leg == 1 for entry in entries)
    assert len(called) == len(jobs), "each asks once"
    return sorted(called), claims


def report(called: list[int], rpm: int) -> None:
    """Print how much of the limit a minute has used, at most and behind the first one."""
    most = max(bisect_left(called, first + WINDOW_MS) - number for number, first in enumerate(called))
    print(f"calls in any minute: at most {most} of {rpm}, {most / rpm - 1:+.1%}")
    behind = [one for one in called if one >= called[0] + WINDOW_MS]
    if behind and (lasted_ms := called[-1] - called[0] - WINDOW_MS) > 0:
        print(f"used of it behind the first minute: {len(behind) / (rpm * lasted_ms / WINDOW_MS):.1%}")


if __name__ == "__main__":
    main()
