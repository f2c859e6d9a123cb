"""Workers stopped, jobs cancelled, deadlines passed, legs parked, versions mixed: real processes, real signals."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import ekiden.shared.stores.jobs
from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.records import Ended, LastTurn, LegStarted, LoopDetected, ModelReplied, ToolFinished, ToolStarted
from tests.integration.team import Effects, Team, counting, over

AGENT = "---\nname: {name}\ndescription: {name}\n{more}---\nWork.\n"
NAMES = ("quick", "slow", "writing", "paying", "circling", "shell", "newest")
AGENTS = {**dict.fromkeys(NAMES, "tools: '*'\n"), "lacking": "tools: [bash]\n"}
SCRIPT = """
agents:
  quick:
    - {name: end, say: done}
  slow:
    - {name: end, delay_s: 600, say: too late}
  writing:
    - {name: end, pace_s: 1, think: "**Adding up** of what there is", say: one word after the other for many seconds}
  circling:
    - {name: end, when: {tool_missing: pay}, delay_s: 2, say: as far as I got}
    - {name: again, times: 99, delay_s: 0.1, call: [{tool: pay, args: {amount: 1}}]}
  paying:
    - name: pay
      when: {turn: 1}
      delay_s: 2
      call: [{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}]
    - {name: end, say: paid}
  shell:
    - {name: hang, when: {turn: 1}, call: [{tool: bash, args: {command: "echo > started; sleep 600 & wait"}}]}
    - {name: end, say: too late}
  newest:
    - {name: end, say: new}
"""
QUICK: dict[str, Any] = {"lease_s": 3.0, "sweep_s": 0.2, "queued_grace_s": 0.5}
DEADLINE_S = 60.0
SOON_S = 8.0


@dataclass
class World:
    """All that the tests need."""

    team: Team
    effects: Effects
    root: Path

    def run(self, scenario: Callable[[Client], Awaitable[None]]) -> None:
        """Run with a client."""

        async def whole() -> None:
            async with Client(self.team.url) as client:
                await scenario(client)

        asyncio.run(whole())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server and a dispatcher; each test starts its workers."""
    folder = tmp_path_factory.mktemp("durable")
    root = folder / "root"
    root.mkdir()
    files = {name: AGENT.format(name=name, more=more) for name, more in AGENTS.items()}
    with (
        counting() as effects,
        attach(folder / "data") as server,
        Team(server.url, folder, files, SCRIPT, EFFECTS_URL=effects.url) as team,
    ):
        team.start("router", "router", "ekiden.dispatch", **QUICK)
        team.ready(1)
        yield World(team, effects, root)


def queue(*agents: str) -> list[str]:
    """The queues of agents."""
    return [f"ekiden.agent.{agent}" for agent in agents]


async def until(condition: Callable[[], Awaitable[object]], what: str, within_s: float = DEADLINE_S) -> float:
    """Wait for ``condition``; return how long that took."""
    began = time.monotonic()
    while not await condition():  # what we wait for lies in other processes
        assert time.monotonic() - began < within_s, what
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def recorded(client: Client, job: str, kind: type, leg: int = 1) -> list[object]:
    """The job's records of a kind."""
    records = [entry.record for entry in await client.entries(job)]
    return [record for record in records if isinstance(record, kind) and record.leg == leg]


def test_a_worker_that_was_stopped_past_its_lease_writes_nothing_when_it_goes_on(world: World) -> None:
    async def scenario(client: Client) -> None:
        first = world.team.start("zombie", "worker", *queue("paying"), **QUICK)
        job = await client.submit("go", agent="paying")
        await until(lambda: recorded(client, job, LegStarted), "the leg begins")
        os.kill(first, signal.SIGSTOP)
        world.team.start("heir", "worker", *queue("paying"), **QUICK)
        await until(lambda: recorded_twice(client, job), "another worker takes the leg")
        os.kill(first, signal.SIGCONT)  # its model call is over long before the heir's
        [view] = await over(client, [job], DEADLINE_S, world.team.logs)
        await asyncio.sleep(0.5)  # for anything that the zombie might still write
        assert (view.status, view.result) == ("done", "paid")
        assert len(await recorded(client, job, ModelReplied)) == 2
        assert len(await recorded(client, job, Ended)) == 1
        starts = await recorded(client, job, LegStarted)
        assert [f".{first}." in start.worker for start in starts] == [True, False]  # type: ignore[attr-defined]
        for kind in ("plain", "idempotent"):
            assert list(world.effects.of(kind, job).values()) == [1]
        assert len(await client.messages(job.partition(".")[0])) == 2
        for name in ("zombie", "heir"):
            world.team.let_go(name).stop(0)

    async def recorded_twice(client: Client, job: str) -> bool:
        return len(await recorded(client, job, LegStarted)) == 2

    world.run(scenario)


def test_jobs_end_by_their_deadline_with_a_worker_and_without(world: World) -> None:
    async def scenario(client: Client) -> None:
        world.team.start("sloth", "worker", *queue("slow"), **QUICK)
        running = await client.submit("go", agent="slow", deadline_s=SOON_S)
        without_pool = await client.submit("go", agent="newest", deadline_s=SOON_S)
        orphaned = await client.submit("go", agent="slow", deadline_s=2 * SOON_S)
        await until(lambda: recorded(client, running, LegStarted), "it runs")
        await until(lambda: recorded(client, orphaned, LegStarted), "it runs, too")
        views = await over(client, [running, without_pool], DEADLINE_S)
        world.team.let_go("sloth").stop(0)  # from here on there is a dispatcher only
        views += await over(client, [orphaned], DEADLINE_S)
        assert {(view.status, view.reason) for view in views} == {("failed", "TIMEOUT")}
        took_s = [((view.ended_ms or 0) - view.created_ms) / 1000 for view in views]
        assert all(took >= due for took, due in zip(took_s, (SOON_S, SOON_S, 2 * SOON_S), strict=True)), took_s

    world.run(scenario)


def test_a_flagged_job_whose_worker_dies_ends_without_another_worker(world: World) -> None:
    async def scenario(client: Client) -> None:
        pid = world.team.start("frozen", "worker", *queue("slow"), **QUICK)
        job = await client.submit("go", agent="slow")
        await until(lambda: recorded(client, job, LegStarted), "it runs")
        os.kill(pid, signal.SIGSTOP)
        assert await client.cancel(job) == "flagged"
        world.team.let_go("frozen").stop(0)
        [view] = await over(client, [job], DEADLINE_S, world.team.logs)
        assert (view.status, view.reason) == ("cancelled", "ABORTED")

    world.run(scenario)


def test_a_worker_that_dies_in_a_loop_or_in_a_last_turn_forgets_neither(world: World) -> None:
    async def scenario(client: Client) -> None:
        job = await client.submit("go", agent="circling")
        for name, kind in (("circles", LoopDetected), ("ends", LastTurn)):
            pid = world.team.start(name, "worker", *queue("circling"), **QUICK)
            await until(partial(recorded, client, job, kind), f"there is a {kind.__name__}")
            os.kill(pid, signal.SIGKILL)
            world.team.let_go(name).stop(0)
        world.team.start("heir", "worker", *queue("circling"), **QUICK)
        [view] = await over(client, [job], DEADLINE_S, world.team.logs)
        assert (view.status, view.reason, view.result) == ("done", "LOOP", "as far as I got")
        counts = [len(await recorded(client, job, kind)) for kind in (LoopDetected, LastTurn, LegStarted, Ended)]
        assert counts == [1, 1, 3, 1]
        assert len(await recorded(client, job, ModelReplied)) == 5 + 5 + 1, "no turn more than without the deaths"
        [end] = await recorded(client, job, Ended)
        assert end.recovered  # type: ignore[attr-defined]
        world.team.let_go("heir").stop(0)

    world.run(scenario)


def test_a_cancel_is_heard_at_once_in_a_model_call_in_a_streaming_one_and_in_a_tool(world: World) -> None:
    async def scenario(client: Client) -> None:
        agents = queue("slow", "writing", "shell")
        world.team.start("worker", "worker", *agents, workspace_root=world.root, lease_s=9 * DEADLINE_S)
        model = await client.submit("go", agent="slow")
        stream = await client.submit("go", agent="writing")
        tool = await client.submit("go", agent="shell", cwd=world.root)
        await until(lambda: recorded(client, model, LegStarted), "the model is asked")
        await until(lambda: said(client, stream), "the model writes")
        await until(lambda: recorded(client, tool, ToolStarted), "the tool runs")
        started = world.root / "started"
        await until(lambda: asyncio.to_thread(started.exists), "bash runs")
        assert await asyncio.to_thread(at_work_in, world.root), "it is found"
        for job in (model, stream, tool):
            assert await client.cancel(job) == "flagged"
            [view] = await over(client, [job], DEADLINE_S)  # the next renewal would be later
            assert view.status == "cancelled"
        [answer] = await recorded(client, tool, ToolFinished)
        assert answer.result.content == "Not finished: ABORTED."  # type: ignore[attr-defined]
        await until(lambda: asyncio.to_thread(lambda: not at_work_in(world.root)), "the tool's processes are gone")
        world.team.let_go("worker").stop(0)

    async def said(client: Client, job: str) -> object:
        return (await client.live(job))[1]

    world.run(scenario)


def at_work_in(folder: Path) -> list[str]:
    """Return the programs that a tool has started there; in a sandbox they have process ids of their own."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() in ("bash", "sleep") and process.cwd() == str(folder):
                found.append(process.name())
    return found


def test_parked_legs_hold_no_slot_and_no_memory_and_are_cancelled_at_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    parked, slots = 200, 1

    async def scenario(client: Client) -> None:
        pid = world.team.start("one", "worker", *queue("lacking", "quick"), concurrency=slots, **QUICK)
        warm = await client.submit("go", agent="quick")
        await over(client, [warm], DEADLINE_S, world.team.logs)
        before = memory_kb(pid)
        jobs = [await client.submit("go", agent="lacking") for _ in range(parked)]
        await until(lambda: all_suspended(client, jobs), "all are parked")
        after = memory_kb(pid)
        began = time.monotonic()
        other = await client.submit("go", agent="quick")
        [view] = await over(client, [other], DEADLINE_S)
        waited = time.monotonic() - began
        with capsys.disabled():
            print(f"\n{parked} parked legs: {(after - before) / parked:.1f} KB each; other work done in {waited:.2f} s")
        assert view.result == "done"
        assert (after - before) / parked < 50
        for job in jobs:
            assert await client.cancel(job) in ("ok", "flagged")
        views = await over(client, jobs, DEADLINE_S)
        assert {view.status for view in views} == {"cancelled"}
        world.team.let_go("one").stop(0)

    async def all_suspended(client: Client, jobs: list[str]) -> bool:
        views = [await client.job(job) for job in jobs]
        return all(view.status in ("suspended", "queued") and view.leg == 1 for view in views) and all(
            [await recorded(client, job, LegStarted) for job in jobs]
        )

    world.run(scenario)


def memory_kb(pid: int) -> int:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_an_older_worker_leaves_newer_jobs_to_newer_workers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: Client) -> None:
        world.team.start("old", "worker", *queue("newest"), **QUICK)
        world.team.start("newer-router", "router", "ekiden.dispatch", env={"AS_VERSION": "2"}, **QUICK)
        with monkeypatch.context() as patched:
            patched.setattr(ekiden.shared.stores.jobs, "VERSION", 2)
            jobs = [await client.submit("go", agent="newest") for _ in range(10)]
        await until(lambda: all_routed(client, jobs), "they are routed")
        await asyncio.sleep(1.5)  # several sweeps, in which the old worker sees them
        assert {(await client.job(job)).status for job in jobs} == {"queued"}
        assert not [job for job in jobs if await recorded(client, job, LegStarted)]
        world.team.start("new", "worker", *queue("newest"), env={"AS_VERSION": "2"}, **QUICK)
        views = await over(client, jobs, DEADLINE_S, world.team.logs)
        assert {view.result for view in views} == {"new"}
        for name in ("old", "new", "newer-router"):
            world.team.let_go(name).stop(0)

    async def all_routed(client: Client, jobs: list[str]) -> bool:
        return all([(await client.job(job)).leg == 1 for job in jobs])

    world.run(scenario)


def test_a_consumer_that_hears_nothing_is_noticed_and_connects_again(world: World, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        order = tmp_path / "deafen"
        pid = world.team.start("deaf", "worker", *queue("quick"), env={"DEAFEN": str(order), "DEAF_S": "5"}, **QUICK)
        await over(client, [await client.submit("go", agent="quick")], DEADLINE_S, world.team.logs)
        order.touch()
        await until(lambda: asyncio.to_thread(lambda: not order.exists()), "it is deaf")
        views = await over(client, [await client.submit("go", agent="quick")], DEADLINE_S, world.team.logs)
        assert views[0].result == "done"
        assert world.team.pid("deaf") == pid, "it did not have to be started again"
        assert world.team.logs("worker").count("consumer_deaf") == 1
        world.team.let_go("deaf").stop(0)

    world.run(scenario)
