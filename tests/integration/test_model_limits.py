"""Limits of models and a worker that dies while it holds a part of them."""

import asyncio
import json
import os
import signal

from ekiden.dispatcher.client import Client
from ekiden.shared.model_limits import limits_of
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores.model_limits import LimitState
from ekiden.shared.stores.opening import open_stores
from tests.benchmarks.stack import Stack, stack

AGENT = "---\nname: asking\ndescription: Asks its model.\ntools: []\n---\nWork.\n"
EITHER = AGENT.replace("tools", "models: {use: [scripted-a, scripted-b], on: [limit]}\ntools")
SCRIPT = "agents:\n  asking:\n  - {name: think, delay_s: 1, say: done}\n"
WITHIN_S = 120.0


ROUTED = """\
agents:
  router-agent:
  - {name: send, delay_s: 1, call: [{tool: transfer_to_asking, args: {reason: its work}}]}
  asking:
  - {name: answer, say: done}
"""


def worker(made: Stack, *models: str) -> int:
    limits = json.dumps({model: {"concurrent": 1} for model in models})
    return made.start("workers", "ekiden.agent.asking", model_limits=limits, lease_s=2).pid


async def killed_in_a_call(made: Stack, count: int, *models: str) -> list[str | None]:
    """Kill the worker that has the only slot of each model; return what became of all jobs."""
    made.start("dispatcher")
    first = worker(made, *models)
    limits = [limit for limit in limits_of(dict.fromkeys(models, ModelLimitValues(concurrent=1)), {}).values() if limit]
    stores = open_stores(made.url)

    async def states() -> list[LimitState]:
        return [await stores.model_limits.state(limit) for limit in limits]

    async with Client(made.url) as client, asyncio.timeout(WITHIN_S):
        await made.ready(client, 2, WITHIN_S)
        jobs = [await client.submit(f"go {number}", agent="asking") for number in range(count)]
        while not all(state.running for state in await states()):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        worker(made, *models)
        ended = [await client.wait(job) for job in jobs]
        assert {(state.running, state.waiting) for state in await states()} == {(0, 0)}
    await stores.close()
    return [view.result for view in ended]


def test_a_worker_that_is_killed_in_a_call_gives_its_slot_back() -> None:
    with stack({"asking": AGENT}, SCRIPT) as made:
        assert asyncio.run(killed_in_a_call(made, 2, "scripted")) == ["done"] * 2


def test_a_worker_that_is_killed_in_calls_of_two_models_leaves_nothing_behind_at_either() -> None:
    with stack({"asking": EITHER}, SCRIPT) as made:
        assert asyncio.run(killed_in_a_call(made, 4, "scripted-a", "scripted-b")) == ["done"] * 4


def dispatcher(made: Stack) -> int:
    limits = json.dumps({"scripted": {"concurrent": 1}})
    strategy = {"routing_strategy": "llm", "routing_llm_model": "scripted", "routing_llm_timeout": "60000"}
    return made.start("dispatcher", model_limits=limits, lease_s="2", **strategy).pid


async def killed_while_it_routes(made: Stack) -> str | None:
    """Kill the dispatcher while its model is asked; return what became of its job."""
    first = dispatcher(made)
    made.start("workers", "ekiden.agent.asking")
    [limit] = limits_of({"scripted": ModelLimitValues(concurrent=1)}, {}).values()
    assert limit is not None
    stores = open_stores(made.url)
    async with Client(made.url) as client, asyncio.timeout(WITHIN_S):
        await made.ready(client, 2, WITHIN_S)
        job = await client.submit("whose is this?")
        while not (await stores.model_limits.state(limit)).running:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        dispatcher(made)
        ended = await client.wait(job)
        state = await stores.model_limits.state(limit)
        assert (state.running, state.waiting) == (0, 0)
    await stores.close()
    return ended.result


def test_a_dispatcher_that_is_killed_while_its_model_chooses_gives_its_slot_back() -> None:
    with stack({"asking": AGENT}, ROUTED) as made:
        assert asyncio.run(killed_while_it_routes(made)) == "done"
