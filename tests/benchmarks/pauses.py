"""How long a worker's event loop stands still for one leg, while hundreds of others wait for their turn on it.

    python -m tests.benchmarks.pauses [--entries 15000] [--megabytes 5] [--runs 5]

A journal of so many entries is opened as the runner does it; then a reply of so many megabytes is recorded. Between two
turns of the loop the CPU of its thread counts, and not the time, which is the neighbours' too: the longest is printed,
beside a yardstick that the same run measures, reading JSON of as many bytes in one go.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ekiden.shared.embedded import attach
from ekiden.shared.relay.celery_app import spare_the_collector
from ekiden.shared.relay.leg import PAGE, Leg, freed, journal_of
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores, open_stores
from tests.contract.relay_world import moved, reply, submitted

BATCH = 500


def main() -> None:
    """Print the longest pauses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=15_000)
    parser.add_argument("--megabytes", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, attach(Path(folder)) as server:
        asyncio.run(measure(server.url, given.entries, given.megabytes * 1_000_000, given.runs))


async def measure(url: str, entries: int, length: int, runs: int) -> None:
    """Fill a journal; open it and record a long reply, a few times each."""
    spare_the_collector()  # as a worker does
    stores = open_stores(url)
    claimed = await moved(stores, await submitted(stores), "writer")
    for first in range(0, entries, BATCH):
        records = [reply("x" * 200) for _ in range(min(BATCH, entries - first))]
        await stores.jobs.append(claimed.lease, f"fill {first}", records, used_ms=0, is_progress=True)

    print(f"load {os.getloadavg()[0]:.1f}; the longest of {runs} runs")
    opening = await longest_ms(lambda: opened(stores, claimed), runs)
    legs = [await opened(stores, claimed) for _ in range(runs)]
    letting_go = await longest_ms(lambda: freed(legs.pop()), runs)
    print(
        f"a journal of {entries:,} entries is opened: {opening:.1f} ms (and let go, at the leg's end: {letting_go:.1f})"
    )
    leg, long = await opened(stores, claimed), reply("x" * length)
    print(f"a reply of {length:,} bytes is recorded: {await longest_ms(lambda: leg.record(long), runs):.1f} ms")
    text, began = json.dumps("x" * length), time.thread_time()
    json.loads(text)
    print(f"JSON of {length:,} bytes is read: {(time.thread_time() - began) * 1000:.1f} ms")
    await stores.close()


async def opened(stores: Stores, claimed: Claimed) -> Leg:
    """Open the leg as the runner does."""
    entries = await journal_of(stores.jobs, claimed.lease.job, claimed.lease.seq)
    leg = Leg(claimed, entries[:PAGE], stores.jobs)
    await leg.read_on(entries[PAGE:])
    return leg


async def longest_ms(do: Callable[[], Awaitable[object]], runs: int) -> float:
    """Return the longest that the loop was kept by one thing while it did this, in ms of its thread's CPU."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch())
    made = [await do() for _ in range(runs)]  # what was made is freed behind the watch: ``freed`` is watched by itself
    watching.cancel()
    made.clear()
    return longest * 1000


if __name__ == "__main__":
    main()
