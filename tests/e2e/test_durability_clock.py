"""The clock of a real server jumps while jobs run, sleep and wait, and in the same moment a worker is killed."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.records import LegStarted, LegSuspended
from tests.doubles.clocks import ServerClock
from tests.e2e.program import wait_until
from tests.integration.proxy import Server
from tests.integration.team import Effects, Team, counting, over

HOUR_S = 3_600
DAY_S = 86_400
LEASE_S = 6.0
DEADLINE_S = 90.0
"""Far less than any jump."""
AGENT = "---\nname: {name}\ndescription: {name}\ntools: '*'\n---\nWork.\n"
SCRIPT = """
agents:
  runner:
    - {name: work, when: {turn: 1}, delay_s: 3, call: [{tool: print_receipt, args: {amount: 1}}]}
    - {name: end, delay_s: 1.5, say: done}
  sleeper:
    - {name: end, say: done}
"""
RUNNERS = 20
SLEEPERS = 4
SLEEP_S = 8.0
AT_ONCE = {"lives": 12, "dies": 4}
"""Legs of a worker: some runners wait in the queue, and who lives has room for the legs of who dies."""


@dataclass
class World:
    """All that the tests need."""

    clock: ServerClock
    team: Team
    effects: Effects

    def start(self, worker: str) -> int:
        """Start a worker that serves both agents; return its pid once it has announced itself."""
        queues = ("ekiden.agent.runner", "ekiden.agent.sleeper")
        pid = self.team.start(worker, "worker", *queues, concurrency=AT_ONCE[worker], lease_s=LEASE_S)
        wait_until(lambda: pid in {pool.pid for pool in self.team.ask(Client.pools)}, what=f"{worker} is ready")
        return pid


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("clock")
    clock = ServerClock(folder)
    server = Server(folder, clock.env)
    try:
        clock.skip_unless_it_works(server.admin)
        url = f"redis://127.0.0.1:{server.port}/0"
        files = {name: AGENT.format(name=name) for name in ("runner", "sleeper")}
        with counting() as effects, Team(url, folder, files, SCRIPT, EFFECTS_URL=effects.url, SLEEP_S=SLEEP_S) as team:
            made = World(clock, team, effects)
            team.start("router", "router", "ekiden.dispatch", lease_s=LEASE_S)
            made.start("lives")
            yield made
    finally:
        server.kill()


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S, 8 * DAY_S], ids=["an_hour_on", "an_hour_back", "eight_days_on"])
def test_a_jump_ends_no_job_and_a_killed_workers_jobs_go_on_after_its_lease(world: World, by_s: int) -> None:
    dying = world.start("dies")
    jumps = world.team.logs().count("server_clock_jumped")

    async def scenario() -> None:
        async with Client(world.team.url) as client:
            jobs = [await client.submit("go", agent="sleeper") for _ in range(SLEEPERS)]
            jobs += [await client.submit("go", agent="runner") for _ in range(RUNNERS)]
            await until_all_ways_of_waiting_are_there(client, jobs, dying)
            world.clock.jump(by_s)
            world.team.let_go("dies")
            os.kill(dying, signal.SIGKILL)
            killed_ms = await client.now_ms()
            views = await over(client, jobs, DEADLINE_S, lambda: world.team.logs()[-5000:])
            assert {(view.status, view.reason, view.result) for view in views} == {("done", "GOAL", "done")}
            waited_s = [waited for job in jobs async for waited in waits(client, job, killed_ms, dying)]
        print(f"taken over {sorted(waited_s)} s after the worker's death")  # pytest shows it with -rP
        assert waited_s
        assert max(waited_s) < DEADLINE_S
        for job in jobs:
            assert set(world.effects.of("plain", job).values()) <= {1}

    asyncio.run(scenario())
    assert world.team.logs().count("server_clock_jumped") == jumps + 1


async def until_all_ways_of_waiting_are_there(client: Client, jobs: Sequence[str], dying: int) -> None:
    """Wait until jobs sleep, wait in the queue, and have just begun in the dying worker."""
    deadline = time.monotonic() + DEADLINE_S
    statuses: Counter[str] = Counter()
    while not (statuses["suspended"] and statuses["queued"] and await begun_in(client, jobs, dying)):
        assert time.monotonic() < deadline, statuses
        statuses = Counter([(await client.job(job)).status for job in jobs])


async def begun_in(client: Client, jobs: Sequence[str], pid: int) -> int:
    """How many legs have begun in a process and done nothing yet."""
    newest = [(await client.entries(job))[-1].record for job in jobs]
    return sum(isinstance(record, LegStarted) and f".{pid}." in record.worker for record in newest)


async def waits(client: Client, job: str, killed_ms: int, dying: int) -> AsyncIterator[float]:
    """Yield how long after the death legs of ``job`` were begun again, in s; none but the dead one's may be."""
    begun: dict[int, str] = {}
    for entry in await client.entries(job):
        match entry.record:
            case LegSuspended(leg=leg):  # which ends an attempt in order, and is not counted as one
                begun.pop(leg)
            case LegStarted(leg=leg, worker=worker):
                if leg in begun:
                    assert f".{dying}." in begun[leg], "a living worker lost a leg"
                    yield (entry.at_ms - killed_ms) / 1000
                begun[leg] = worker
