"""A limit of a model and a worker that dies while it holds a part of it."""

import asyncio
import json
import os
import signal

from ekiden.dispatcher.client import Client
from ekiden.shared.model_limits import limits_of
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores.opening import open_stores
from tests.benchmarks.stack import Stack, stack

AGENT = "---\nname: asking\ndescription: Asks its model.\ntools: []\n---\nWork.\n"
SCRIPT = "agents:\n  asking:\n  - {name: think, delay_s: 1, say: done}\n"
WITHIN_S = 120.0


def worker(made: Stack) -> int:
    limits = json.dumps({"scripted": {"concurrent": 1}})
    return made.start("workers", "ekiden.agent.asking", model_limits=limits, lease_s=2).pid


async def killed_in_a_call(made: Stack) -> list[str | None]:
    """Kill the worker that has the only slot; return what became of its job, and of the one behind it."""
    made.start("dispatcher")
    first = worker(made)
    [limit] = limits_of({"scripted": ModelLimitValues(concurrent=1)}, {}).values()
    assert limit is not None
    stores = open_stores(made.url)
    async with Client(made.url) as client, asyncio.timeout(WITHIN_S):
        await made.ready(client, 2, WITHIN_S)
        jobs = [await client.submit(f"go {number}", agent="asking") for number in range(2)]
        while not (await stores.model_limits.state(limit)).running:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        worker(made)
        ended = [await client.wait(job) for job in jobs]
        assert (await stores.model_limits.state(limit)).running == 0
    await stores.close()
    return [view.result for view in ended]


def test_a_worker_that_is_killed_in_a_call_gives_its_slot_back() -> None:
    with stack({"asking": AGENT}, SCRIPT) as made:
        assert asyncio.run(killed_in_a_call(made)) == ["done", "done"]
