"""Sweeping beside very many waiting jobs: no flood of messages, few commands, and what is lost is found soon."""

import asyncio

from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.stores.base import Claim, Claimed
from ekiden.shared.stores.opening import Stores
from tests.benchmarks.sweep import cost_beside, fill, submitted
from tests.conftest import Backend

WAITING = 10_000
MOST_COMMANDS = 20
"""Of one sweep, with those inside scripts: three of each script are for the time."""


def test_ten_thousand_waiting_jobs_are_left_alone_and_hide_no_expired_lease(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await fill(stores, WAITING)
        cost = await cost_beside(stores, WAITING, sweeps=5, every_s=0.5)
        assert await stores.client.llen(DISPATCH_QUEUE) == WAITING
        assert cost.commands < MOST_COMMANDS
        assert cost.found_after_ms < 10_000

    valkey.run(scenario)


def test_hundreds_of_expired_leases_are_pushed_once_each_in_one_sweep(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for number in range(300):
            one = await submitted(stores, str(number), "ekiden.agent.x")
            await stores.client.rpop("ekiden.agent.x")
            claim = Claim(one.job, 0, one.context.metadata.handoff_id, "router", f"gone#{number}")
            assert isinstance(await stores.jobs.claim(claim, 0.001), Claimed)
        sweeps = (sweep(stores.jobs, grace_s=2.0, max_attempts=5) for _ in range(3))
        assert sum(await asyncio.gather(*sweeps)) == 300
        assert await stores.client.llen("ekiden.agent.x") == 300

    valkey.run(scenario)
