"""A leg that kills its process among many others: it ends alone, and takes nobody along."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.client import Client
from shared.embedded import attach
from shared.records import LegStarted
from tests.integration.team import Team, over

AGENT = "---\nname: {name}\ndescription: {name}\n---\nWork.\n"
SCRIPT = """
agents:
  neighbour:
    - {name: think, delay_s: 0.2, say: fine}
  poisonous:
    - {name: bite, when: {turn: 1}, call: [{tool: poison}]}
    - {name: end, say: survived}
"""
NEIGHBOURS = 199


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    agents = {name: AGENT.format(name=name) for name in ("neighbour", "poisonous")}
    with attach(tmp_path / "data") as server, Team(server.url, tmp_path, agents, SCRIPT, PARDON=tmp_path / "p") as made:
        quick = {"lease_s": 1.0, "sweep_s": 0.3, "queued_grace_s": 1.0}
        made.start("router", "router", "ekiden.dispatch", **quick)
        queues = ("ekiden.agent.neighbour", "ekiden.agent.poisonous")
        made.start("worker", "worker", *queues, concurrency=400, **quick)
        made.ready(2)
        yield made


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
            [dead] = await over(client, [poison], 30)
            assert (dead.status, dead.attempts) == ("dead", 5)
            assert team.deaths == {"worker": 3}, "once with progress, twice without; then it took nobody along"

            starts = [e.record for e in await client.entries(poison) if isinstance(e.record, LegStarted)][1:]
            assert [start.attempt for start in starts] == [1, 1, 2, 3, 4, 5]
            assert len({start.worker for start in starts}) == 6
            assert "leg_died_alone" in team.logs("worker")

            (team.folder / "p").touch()
            await client.retry(poison)
            [view] = await over(client, [poison], 20)
            assert (view.status, view.result) == ("done", "survived")

    asyncio.run(scenario())
