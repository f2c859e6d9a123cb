"""A leg that kills its process among many others: it ends alone, and takes nobody along."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.processes.children import ChildProcess, start_child
from ekiden.shared.records import LegStarted, LegSuspended
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import open_stores
from tests.integration.celery_worker import DEADLINE_S, eventually
from tests.integration.team import Team, over
from tests.processes import is_gone

AGENT = "---\nname: {name}\ndescription: {name}\ntools: '*'\n---\nWork.\n"
SCRIPT = """
agents:
  neighbour:
    - {name: think, delay_s: 0.2, say: fine}
  poisonous:
    - {name: bite, when: {turn: 1}, call: [{tool: poison}]}
    - {name: end, say: survived}
  lingering:
    - {name: think, delay_s: 600, say: too late}
"""
NEIGHBOURS = 199


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    agents = {name: AGENT.format(name=name) for name in ("neighbour", "poisonous", "lingering")}
    with attach(tmp_path / "data") as server, Team(server.url, tmp_path, agents, SCRIPT, PARDON=tmp_path / "p") as made:
        quick: dict[str, Any] = {"lease_s": 2.0, "sweep_s": 0.3, "queued_grace_s": 1.0}
        made.start("router", "router", "ekiden.dispatch", **quick)
        queues = ("ekiden.agent.neighbour", "ekiden.agent.poisonous")
        made.start("worker", "worker", *queues, concurrency=400, **quick)
        made.ready(2)
        yield made


@contextmanager
def alone(team: Team) -> Iterator[tuple[ChildProcess, str, int]]:
    """A worker as people start it, a job whose leg runs in quarantine there, and the pid of that process."""

    async def condemned(client: Client) -> str:
        job = await client.submit("go", agent="lingering")
        stores = open_stores(team.url)
        async with asyncio.timeout(DEADLINE_S):
            while not await stores.client.llen("ekiden.agent.lingering"):  # noqa: ASYNC110  # the router's doing
                await asyncio.sleep(0.01)
        await stores.client.hset(keys.job(job), "attempts", 2)
        await stores.close()
        return job

    job = team.ask(condemned)
    env = {**os.environ, "EKIDEN_SCRIPTS_DIR": str(team.folder / "scripts"), "HOME": str(team.folder)}
    env["EKIDEN_LEASE_S"] = str(9 * DEADLINE_S)  # no renewal tells it of anything in the meantime
    options = ["--agents", "lingering", "--workspace-root", str(team.folder), "--redis", team.url]
    command = [sys.executable, "-m", "ekiden.dispatcher", "worker", *options]
    worker = start_child(command, env=env, log=team.folder / "people.log")
    try:
        eventually(lambda: started_by(team, job), "it runs alone")
        yield worker, job, started_by(team, job)
    finally:
        worker.stop(0)


def started_by(team: Team, job: str) -> int:
    """The pid of who runs the job's agent; 0 for nobody."""
    records = [entry.record for entry in team.ask(lambda client: client.entries(job))]
    return next((int(r.worker.rsplit(".", 2)[1]) for r in records if isinstance(r, LegStarted) and r.leg == 1), 0)


def test_a_process_in_quarantine_has_its_workers_settings_and_ends_with_it_when_it_is_killed(team: Team) -> None:
    with alone(team) as (worker, _, pid):
        assert pid != worker.pid
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert f"EKIDEN_WORKSPACE_ROOT={team.folder}".encode() in environment
        os.kill(worker.pid, signal.SIGKILL)
        eventually(lambda: is_gone(pid), "the process ends with its parent")


def test_a_leg_in_quarantine_is_cancelled_at_once(team: Team) -> None:
    with alone(team) as (_, job, pid):
        assert team.ask(lambda client: client.cancel(job)) == "flagged"
        eventually(lambda: team.ask(lambda client: client.job(job)).status == "cancelled", "it is cancelled")
        assert not is_gone(pid), "it waits for the next leg"


def test_a_leg_in_quarantine_is_given_back_when_its_worker_stops(team: Team) -> None:
    with alone(team) as (worker, job, pid):
        os.kill(worker.pid, signal.SIGQUIT)  # a cold stop
        eventually(lambda: is_gone(pid), "the process ends")
        [paused] = [
            entry.record
            for entry in team.ask(lambda client: client.entries(job))
            if isinstance(entry.record, LegSuspended)
        ]
        assert paused.detail == "worker stopping"
        assert "Fatal Python error" not in (team.folder / "people.log").read_text()
        assert team.ask(lambda client: client.job(job)).attempts == 2, "to stop is no failed attempt"


@pytest.mark.timeout(240)
def test_a_poisonous_leg_dies_alone_and_every_neighbour_finishes(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with Client(team.url) as client:
            began = time.monotonic()
            half = [await client.submit("go", agent="neighbour") for _ in range(NEIGHBOURS // 2)]
            poison = await client.submit("go", agent="poisonous")
            jobs = [*half, *[await client.submit("go", agent="neighbour") for _ in range(NEIGHBOURS - len(half))]]
            views = await over(client, jobs, 90, lambda: team.logs()[-3000:])
            with capsys.disabled():
                print(f"\n{NEIGHBOURS} neighbours done after {time.monotonic() - began:.1f} s, {team.deaths}")
            assert {view.result for view in views} == {"fine"}
            [dead] = await over(client, [poison], DEADLINE_S)
            assert (dead.status, dead.attempts) == ("dead", 5)
            assert team.deaths == {"worker": 3}, "once with progress, twice without; then it took nobody along"

            starts = [e.record for e in await client.entries(poison) if isinstance(e.record, LegStarted)][1:]
            assert [start.attempt for start in starts] == [1, 1, 2, 3, 4, 5]
            assert len({start.worker for start in starts}) == 6
            assert "leg_died_alone" in team.logs("worker")

            (team.folder / "p").touch()
            await client.retry(poison)
            [view] = await over(client, [poison], DEADLINE_S)
            assert (view.status, view.result) == ("done", "survived")

    asyncio.run(scenario())
