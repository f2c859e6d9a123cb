"""Trouble with the server while jobs run: workers go on by themselves; nothing is lost, nothing is done twice."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import StoreNotReady, StoreUnavailable
from ekiden.shared.records import HandedOff, ModelReplied
from tests.integration.proxy import Proxy, Server, proxied_server
from tests.integration.team import Effects, Team, counting, over
from tests.invariants import faults_of_job

AGENT = "---\nname: {name}\ndescription: {name}\ntools: '*'\n{more}---\nWork.\n"
SCRIPT = """
agents:
  first:
    - name: work
      when: {turn: 1}
      delay_s: 0.5
      call: [{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}]
    - {name: hand, delay_s: 0.5, call: [{tool: transfer_to_second, args: {reason: go}}]}
  second:
    - {name: work, when: {turn: 1}, delay_s: 0.5, call: [{tool: pay, args: {amount: 2}}]}
    - {name: end, delay_s: 0.5, say: done}
"""
JOBS = 20
CALM_S = 1.0
GOES_ON_WITHIN_S = 60.0
MOST_LINES = 15
"""Of log, of one process, for one time of trouble."""


@dataclass
class World:
    """All that the tests need."""

    server: Server
    proxy: Proxy
    team: Team
    effects: Effects

    def said(self) -> dict[str, str]:
        """What each process has logged."""
        return {path.name: path.read_text() for path in self.team.folder.glob("*.log")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("trouble")
    agents = {"first": "handoffs: [{to: second}]\n", "second": ""}
    files = {name: AGENT.format(name=name, more=more) for name, more in agents.items()}
    with (
        counting() as effects,
        proxied_server(folder) as (server, proxy),
        Team(proxy.url, folder, files, SCRIPT, EFFECTS_URL=effects.url, CALM_S=CALM_S) as team,
    ):
        team.start("router", "router", "ekiden.dispatch")
        team.start("worker0", "worker", "ekiden.agent.first", "ekiden.agent.second", concurrency=8)
        team.start("worker1", "worker", "ekiden.agent.first", "ekiden.agent.second", concurrency=8)
        team.ready(3)
        yield World(server, proxy, team, effects)


def survives(world: World, trouble: Callable[[], None], within_s: float = GOES_ON_WITHIN_S) -> str:
    """Let jobs run through ``trouble``, then check what they did; return what the processes logged meanwhile."""

    async def scenario() -> None:
        async with Client(f"redis://127.0.0.1:{world.server.port}/0") as client:
            jobs = [await client.submit("go", agent="first") for _ in range(JOBS)]
            while not any(isinstance(e.record, ModelReplied) for e in await client.entries(jobs[0])):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.to_thread(trouble)
        began = time.monotonic()
        async with Client(f"redis://127.0.0.1:{world.server.port}/0") as client:
            views = await over(client, jobs, within_s, lambda: world.team.logs()[-5000:])
            print(f"all over {time.monotonic() - began:.1f} s after the trouble")  # pytest shows it with -rP
            assert {(view.status, view.result) for view in views} == {("done", "done")}
            for view in views:
                entries, job = await client.entries(view.id), view.id
                assert faults_of_job(view, entries) == []
                assert [e.record.leg for e in entries if isinstance(e.record, HandedOff)] == [0, 1]
                assert len(world.effects.of("idempotent", job)) == 2
                assert set(world.effects.of("plain", job).values()) <= {1}

    time.sleep(CALM_S + 0.5)  # the trouble before is over then, and told again if there is more
    before = world.said()
    asyncio.run(scenario())
    said = [text.removeprefix(before.get(name, "")) for name, text in world.said().items()]
    assert not world.team.deaths, "nobody had to be started again"
    whole = "\n".join(said)
    assert "Traceback" not in whole
    assert max(text.count("\n") for text in said) <= MOST_LINES, whole
    return whole


def test_a_killed_server_that_comes_back_on_its_file(world: World) -> None:
    def trouble() -> None:
        world.server.kill()
        world.proxy.drop()
        time.sleep(1.5)
        world.server.start()

    survives(world, trouble)


def test_a_line_that_is_cut_for_20_seconds(world: World) -> None:
    def trouble() -> None:
        world.proxy.be("hang")
        time.sleep(10)
        world.proxy.be("refuse")
        time.sleep(10)
        world.proxy.be("pass")

    assert "server_trouble" in survives(world, trouble)


def test_a_server_that_loads_its_data(world: World) -> None:
    def trouble() -> None:
        world.proxy.be("loading")
        time.sleep(3)
        world.proxy.be("pass")
        world.proxy.drop()

    assert "is loading its data" in survives(world, trouble)


def test_a_server_without_memory(world: World) -> None:
    def trouble() -> None:
        world.server.admin.config_set("maxmemory", "1mb")
        with pytest.raises(StoreNotReady, match="is out of memory: raise its maxmemory") as caught:
            world.team.ask(lambda client: client.submit("go", agent="first"))
        assert caught.value.exit_code == 3
        time.sleep(2)
        world.server.admin.config_set("maxmemory", "0")

    assert "is out of memory" in survives(world, trouble)


def test_a_primary_that_became_a_replica_and_primary_again(world: World) -> None:
    def trouble() -> None:
        world.server.admin.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            world.team.ask(lambda client: client.submit("go", agent="first"))
        time.sleep(2)
        world.server.admin.replicaof("NO", "ONE")

    assert "takes no writes" in survives(world, trouble)


def test_a_primary_that_takes_no_writes_without_its_replicas(world: World) -> None:
    def trouble() -> None:
        world.server.admin.config_set("min-replicas-to-write", "1")
        with pytest.raises(StoreNotReady, match="too few of its replicas are well"):
            world.team.ask(lambda client: client.submit("go", agent="first"))
        assert "too few of its replicas are well" in str(world.team.ask(lambda client: client.health_problem()))
        time.sleep(2)
        world.server.admin.config_set("min-replicas-to-write", "0")

    assert "too few of its replicas are well" in survives(world, trouble)
