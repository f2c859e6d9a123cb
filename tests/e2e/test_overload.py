"""More than a worker can do at once makes it slow, and nothing else: real pools, one of them made slow."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.records import LegStarted
from ekiden.shared.stores.views import PoolView
from tests.integration.team import Team, over

AGENTS = {name: f"---\nname: {name}\ndescription: {name}\ntools: []\n---\nWork.\n" for name in ("patient", "quick")}
SCRIPT = """
agents:
  patient:
    - {name: think, delay_s: 1, say: done}
  quick:
    - {name: end, say: done}
"""
LEGS = 1_500
WITHIN_S = 100.0
"""On a machine that others use, too; by itself it takes a fifth of that."""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server and a dispatcher; each test starts its workers."""
    folder = tmp_path_factory.mktemp("overload")
    with attach(folder / "data") as server, Team(server.url, folder, AGENTS, SCRIPT) as made:
        made.start("router", "router", "ekiden.dispatch", concurrency=200)
        made.ready(1)
        yield made


@contextmanager
def serving(team: Team, name: str, agent: str, *, stumble_s: float = 0.0, **settings: Any) -> Iterator[int]:
    """A worker of the agent inside the block, each of whose legs holds up its loop; its pid."""
    pid = team.start(name, "worker", f"ekiden.agent.{agent}", env={"STUMBLE_S": str(stumble_s)}, **settings)
    try:
        yield pid
    finally:
        team.let_go(name).stop(0)


async def starts_of(client: Client, job: str) -> list[LegStarted]:
    """The claims of the agent's leg of a job."""
    records = [entry.record for entry in await client.entries(job)]
    return [record for record in records if isinstance(record, LegStarted) and record.leg == 1]


@pytest.mark.timeout(2 * WITHIN_S)
def test_legs_by_the_thousand_in_a_slow_worker_are_claimed_once_each_and_none_is_taken_for_poison(team: Team) -> None:
    async def scenario(client: Client) -> None:
        jobs = await asyncio.gather(*(client.submit(f"go {n}", agent="patient") for n in range(LEGS)))
        async with asyncio.timeout(WITHIN_S):
            while not all(view.is_over for view in await client.jobs(LEGS)):  # noqa: ASYNC110  # in other processes
                await asyncio.sleep(0.5)  # each look is work for the machine that is short of it
        assert {view.result for view in await client.jobs(LEGS)} == {"done"}
        starts = [await starts_of(client, job) for job in jobs]
        assert Counter(len(one) for one in starts) == {1: LEGS}, team.logs("worker")[-5000:]
        assert "leg_lost_before_it_ran" not in team.logs("worker")

    with serving(team, "crowded", "patient", stumble_s=0.003, concurrency=LEGS, lease_s=5.0):
        team.ready(2)
        team.ask(scenario)


def test_a_worker_whose_loop_stands_still_says_so_and_leaves_the_messages_to_one_that_is_free(team: Team) -> None:
    async def scenario(client: Client) -> None:
        stuck = await client.submit("go", agent="quick")
        async with asyncio.timeout(30):
            while not await starts_of(client, stuck) or not any(map(is_busy, await client.pools())):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        with serving(team, "free", "quick") as free:
            jobs = [await client.submit(f"go {n}", agent="quick") for n in range(40)]
            await over(client, jobs, 30, team.logs)
        assert {f".{free}." in started.worker for job in jobs for started in await starts_of(client, job)} == {True}
        assert (await client.job(stuck)).status == "running"
        await client.cancel(stuck)

    with serving(team, "stumbling", "quick", stumble_s=60, lease_s=30.0):
        team.ready(2)
        team.ask(scenario)


def is_busy(pool: PoolView) -> bool:
    """Whether a pool says that it leaves messages in the queue."""
    return pool.extra.get("busy") == "yes"
