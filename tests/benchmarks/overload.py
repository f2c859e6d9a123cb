"""More at once than one process can do: it gets slower, and nothing else.

    python -m tests.benchmarks.overload [--legs 5000] [--against 500] [--turn-s 2.0] [--submits 10000] [--within-s 300]

Legs of one model call of ``turn-s`` are submitted at once to one worker that may run them all; the ideal is that nobody
waits for anything but the model. The same with fewer legs is what their CPU is compared with. Then ``submits`` submits
at once from one process. ``within-s`` bounds each of the three parts.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ekiden.dispatcher.client import Client
from ekiden.shared.records import Ended, LegStarted
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.redis import as_any
from tests.benchmarks.chaos_figures import at
from tests.benchmarks.inflight import cpu_s
from tests.benchmarks.stack import Stack, stack

AGENT = "---\nname: patient\ndescription: Waits for its model.\ntools: []\n---\nWork.\n"
QUEUE = "ekiden.agent.patient"


@dataclass(frozen=True)
class Figures:
    """What a run of legs in one worker showed."""

    legs: int
    wall_s: float
    ideal_s: float
    again: int
    parked: int
    given_back: int
    cpu_ms: float
    """Of the worker, for a leg."""

    def line(self) -> str:
        """The figures for people."""
        ratio = self.wall_s / self.ideal_s
        return (
            f"legs {self.legs} of {self.ideal_s:g} s: {self.wall_s:.1f} s, wall / ideal {ratio:.1f}; "
            f"claimed more than once {self.again}, parked in quarantine {self.parked}, given back before they ran "
            f"{self.given_back}; the worker's CPU {self.cpu_ms:.2f} ms a leg"
        )


def main() -> None:
    """Print the figures and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--legs", type=int, default=5000)
    parser.add_argument("--against", type=int, default=500)
    parser.add_argument("--turn-s", type=float, default=2.0)
    parser.add_argument("--submits", type=int, default=10_000)
    parser.add_argument("--within-s", type=float, default=300.0)
    options = parser.parse_args()
    runs = {}
    for legs in (options.against, options.legs):
        with patient(options.turn_s) as made:
            runs[legs] = asyncio.run(run_legs(made, legs, options.turn_s, options.within_s))
        print(runs[legs].line(), flush=True)
    few, many = runs[options.against], runs[options.legs]
    print(f"CPU of a leg, {many.legs} at once / {few.legs} at once: {many.cpu_ms / few.cpu_ms:.2f}")
    with patient(options.turn_s) as made:
        took = asyncio.run(run_submits(made, options.submits, options.within_s))
    p50, p99 = at(took, 0.5), at(took, 0.99)
    print(f"submits {len(took)} at once, none failed: p50 {p50:.2f} s, p99 {p99:.2f} s, p99 / p50 {p99 / p50:.2f}")


@contextmanager
def patient(turn_s: float) -> Iterator[Stack]:
    """A server, and an agent whose model takes ``turn_s``."""
    with stack({"patient": AGENT}, f"agents:\n  patient:\n  - {{name: think, delay_s: {turn_s}, say: done}}\n") as made:
        yield made


async def run_legs(made: Stack, legs: int, turn_s: float, within_s: float) -> Figures:
    """Run ``legs`` at once in one worker process."""
    made.start("dispatcher", concurrency=200)
    worker = made.start("workers", QUEUE, concurrency=legs)
    async with Client(made.url) as client:
        await made.ready(client, 2)
        await client.wait(await client.submit("warm up", agent="patient"))
        began, cpu_before = time.monotonic(), cpu_s(worker.pid)
        jobs = await asyncio.gather(*(client.submit(f"go {n}", agent="patient") for n in range(legs)))
        parked = await all_over(made.url, within_s)
        wall_s, cpu = time.monotonic() - began, cpu_s(worker.pid) - cpu_before
        again = sum([await claims_of(client, job) > 1 for job in jobs])
    given_back = (made.folder / "workers1.log").read_text().count("leg_lost_before_it_ran")
    return Figures(legs, wall_s, turn_s, again, parked, given_back, cpu / legs * 1000)


async def all_over(url: str, within_s: float) -> int:
    """Wait until every job has ended; return how many legs at most were parked in quarantine."""
    stores, parked = open_stores(url), 0
    async with asyncio.timeout(within_s):
        while await as_any(stores.client.zcard(keys.DEADLINES)):
            parked = max(parked, (await stores.pools.suspended())["quarantine"])
            await asyncio.sleep(0.2)
    await stores.close()
    return parked


async def claims_of(client: Client, job: str) -> int:
    """How often the agent's leg of a job was claimed; the job must have ended well."""
    records = [entry.record for entry in await client.entries(job)]
    assert isinstance(records[-1], Ended), job
    assert records[-1].answer == "done", job
    return sum(isinstance(record, LegStarted) and record.leg == 1 for record in records)


async def run_submits(made: Stack, submits: int, within_s: float) -> list[float]:
    """Submit so often at once; return how long each took, in s."""

    async def submit(number: int) -> float:
        began = time.monotonic()
        await client.submit(f"go {number}", agent="patient")
        return time.monotonic() - began

    async with Client(made.url) as client, asyncio.timeout(within_s):
        return list(await asyncio.gather(*map(submit, range(submits))))


if __name__ == "__main__":
    main()
