"""What approvals that wait cost: ``python -m tests.benchmarks.approvals [COUNT]``.

Jobs that each wait for one approval, on a server of their own: how long their inbox takes to list, what each takes of
the server's memory, how many workers they hold, and how long an answer takes to wake its leg.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer
from ekiden.shared.embedded import attach
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.contract.relay_world import moved, submitted
from tests.contract.test_approvals import asking, suspended_for

ROUNDS = 20


async def measured(url: str, count: int) -> list[str]:
    stores = open_stores(url)
    async with Client(url) as client:
        jobs = [await submitted(stores, request_id=f"r{n}") for n in range(count)]
        legs = [await moved(stores, job, "lead") for job in jobs]
        before = await _memory(stores)
        for job, leg in zip(jobs, legs, strict=True):
            await suspended_for(stores, leg, asking(job, 1))
        grown = (await _memory(stores) - before) / count
        listed, cpu_s = await _listing(client, count)
        whole = await _answering(client, jobs[:ROUNDS])
        held = await as_any(stores.client.zcard(keys.LEASES))
    await stores.close()
    return [
        f"{count} approvals wait; {held} workers are held",
        f"listing them: {median(listed) * 1000:.1f} ms (median of {ROUNDS}; {cpu_s * 1000:.1f} ms of CPU)",
        f"memory of the server for each: {grown / 1024:.1f} KB more than its leg took while it ran",
        f"an answer, until its leg is queued: {median(whole) * 1000:.1f} ms (median of {len(whole)})",
    ]


async def _listing(client: Client, count: int) -> tuple[list[float], float]:
    took, cpu_s = [], time.process_time()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        assert len(await client.approvals()) == count
        took.append(time.perf_counter() - began)
    return took, (time.process_time() - cpu_s) / ROUNDS


async def _answering(client: Client, jobs: list[str]) -> list[float]:
    took = []
    for job in jobs:
        view = await client.approval(f"{job}:1")
        began = time.perf_counter()
        await client.answer(view.id, Answer("approved", view.digest, by="bench"))
        took.append(time.perf_counter() - began)
        assert (await client.job(job)).status == "queued"
    return took


async def _memory(stores: Stores) -> int:
    return int((await stores.client.info("memory"))["used_memory"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, attach(Path(folder)) as server:
        print("\n".join(asyncio.run(measured(server.url, int(sys.argv[1]) if len(sys.argv) > 1 else 500))))
