"""What a sweep costs while many jobs wait in a queue that nobody serves, and how soon it finds an expired lease then.

    python -m tests.benchmarks.sweep [--waiting 0 1000 10000 50000]

Prints the time and the number of the server's commands per sweep, both also as a ratio to those without waiting jobs.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.embedded import attach
from ekiden.shared.handoff import first_context
from ekiden.shared.logs import configure_logs
from ekiden.shared.records import JobRequested
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.stores.base import Claim, Claimed
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.submissions import Submission

__all__ = ["Cost", "cost_beside", "fill"]

SWEEPS = 20
AT_ONCE = 16


@dataclass(frozen=True)
class Cost:
    """What sweeps cost beside so many waiting jobs."""

    waiting: int
    sweep_ms: float
    commands: float
    found_after_ms: float
    """From the end of a lease to its job's next message, when the sweep comes every ``every_s`` seconds."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, nargs="+", default=[0, 1_000, 10_000, 50_000])
    options = parser.parse_args()
    configure_logs()
    costs = []
    for waiting in options.waiting:
        with tempfile.TemporaryDirectory(prefix="ekiden-sweep-") as folder, attach(Path(folder)) as server:
            costs.append(asyncio.run(measure(server.url, waiting)))
    print(f"{'waiting':>8} {'sweep':>10} {'ratio':>6} {'commands':>9} {'ratio':>6} {'expired lease found':>20}")
    for cost in costs:
        times = cost.sweep_ms / costs[0].sweep_ms, cost.commands / costs[0].commands
        print(
            f"{cost.waiting:>8} {cost.sweep_ms:>7.2f} ms {times[0]:>6.2f} {cost.commands:>9.1f} {times[1]:>6.2f} "
            f"{cost.found_after_ms:>14.0f} ms"
        )


async def measure(url: str, waiting: int) -> Cost:
    """Measure on the server at ``url``, which must be empty."""
    stores = open_stores(url)
    try:
        await fill(stores, waiting)
        return await cost_beside(stores, waiting)
    finally:
        await stores.close()


async def fill(stores: Stores, waiting: int) -> None:
    """Let so many jobs wait in the dispatcher's queue."""
    numbers = iter(range(waiting))

    async def submit() -> None:
        for number in numbers:
            await submitted(stores, f"waiting {number}", DISPATCH_QUEUE)

    await asyncio.gather(*(submit() for _ in range(AT_ONCE)))


async def submitted(stores: Stores, request_id: str, queue: str) -> Submission:
    """Submit one job into ``queue``."""
    job = await stores.jobs.reserve(None, request_id)
    context = first_context(job)
    submission = Submission(job, JobRequested(prompt="go"), context, outbox(job, 0, queue, context), 3600.0)
    await stores.jobs.submit(submission)
    return submission


async def cost_beside(stores: Stores, waiting: int, sweeps: int = SWEEPS, every_s: float = 1.0) -> Cost:
    """Sweep some times, then let a lease run out and sweep as a pool does until it is found."""
    await asyncio.sleep(0.01)  # past a grace time of nothing: every waiting job is old enough to be looked at
    before = await commands(stores)
    times = []
    for _ in range(sweeps):
        began = time.perf_counter()
        assert await sweep(stores.jobs, grace_s=0.0, max_attempts=5) == 0, "a message was pushed a second time"
        times.append((time.perf_counter() - began) * 1000)
    used = await commands(stores) - before - 1  # the question itself
    found_after_s = await found_after(stores, every_s)
    return Cost(waiting, statistics.median(times), used / sweeps, found_after_s * 1000)


async def found_after(stores: Stores, every_s: float) -> float:
    """Return how long after its end a lease is found by a sweep every so often."""
    lost = await submitted(stores, "lost", "ekiden.agent.other")
    lease_s = 0.2
    claim = Claim(lost.job, 0, lost.context.metadata.handoff_id, "router", "gone#1")
    assert isinstance(await stores.jobs.claim(claim, lease_s), Claimed)
    ends = time.monotonic() + lease_s
    while True:
        await sweep(stores.jobs, grace_s=0.0, max_attempts=5)
        if (await stores.jobs.job(lost.job)).status == "queued":
            return time.monotonic() - ends
        await asyncio.sleep(every_s)


async def commands(stores: Stores) -> int:
    """How many commands the server has carried out, those within scripts included."""
    stats = await stores.client.info("commandstats")
    return sum(int(one["calls"]) for one in stats.values())


if __name__ == "__main__":
    main()
