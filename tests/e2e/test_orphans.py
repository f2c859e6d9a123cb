"""Whatever ends a program of ours, nothing of its tools is left, and their legs go on elsewhere behind that."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.records import LegStarted, ToolFinished
from tests.e2e.program import Program, Running, wait_until
from tests.integration.team import Team, over
from tests.processes import arguments_of, is_gone, name_of

# Ignores SIGTERM, ticks, and leaves something behind in every way there is.
COMMAND = (
    "trap '' TERM; sleep 300 & setsid sleep 300 & nohup sleep 300 2>/dev/null & (setsid sh -c 'sleep 300 & wait' &) ; "
    "while :; do date +%s%3N >> ticks; sleep 0.05; done"
)
SCRIPT = f"""
agents:
  "*":
    - {{name: work, when: {{turn: 1}}, call: [{{tool: bash, args: {{command: "{COMMAND}"}}}}]}}
    - {{name: end, say: went on}}
"""
REQUEST = "it fails with an error"
LEFT = 4
"""How many processes sleep."""


def ticks(folder: Path) -> list[int]:
    """When (ms since the epoch) the command was alive."""
    file = folder / "ticks"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def below(pid: int, of: Path) -> list[psutil.Process]:
    """Everything that the process has started, once the command in the folder has started all it starts."""

    def sleeping() -> int:
        return sum(arguments_of(one)[-2:] == ["sleep", "300"] for one in psutil.Process(pid).children(recursive=True))

    wait_until(lambda: ticks(of), what="the command runs")
    wait_until(lambda: sleeping() >= LEFT, what="all that it leaves behind runs")
    return psutil.Process(pid).children(recursive=True)


def wait_until_none_is_left(processes: list[psutil.Process]) -> None:
    wait_until(lambda: all(map(is_gone, processes)), what="nothing is left")


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    (tmp_path / "root").mkdir()
    agents = {"shell": "---\nname: shell\ndescription: shell\ntools: [bash]\n---\nWork.\n"}
    with attach(tmp_path / "data") as server, Team(server.url, tmp_path, agents, SCRIPT) as made:
        made.start("router", "router", "ekiden.dispatch", lease_s=3.0)
        yield made


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_nothing_of_a_lost_worker_is_alive_when_its_leg_goes_on(team: Team, fault: signal.Signals) -> None:
    async def scenario() -> None:
        async with Client(team.url) as client:
            job = await client.submit("go", agent="shell", cwd=root)
            started = [one for one in await asyncio.to_thread(below, first, root) if "reaper" not in name_of(one)]
            os.kill(first, fault)
            team.let_go("lost")
            team.start("heir", "worker", "ekiden.agent.shell", workspace_root=root, lease_s=3.0, sweep_s=0.2)
            [view] = await over(client, [job], 60, team.logs)
            assert (view.status, view.result) == ("done", "went on")
            assert all(map(is_gone, started)), "also what a stopped worker had started"
            entries = [entry for entry in await client.entries(job) if entry.record.leg == 1]
            [told] = [entry.record.result.content for entry in entries if isinstance(entry.record, ToolFinished)]
            assert told.startswith("Outcome unknown")
            begun, resumed = (entry.at_ms for entry in entries if isinstance(entry.record, LegStarted))
            assert begun < ticks(root)[-1] < resumed

    root = team.folder / "root"
    first = team.start("lost", "worker", "ekiden.agent.shell", workspace_root=root, lease_s=3.0)
    asyncio.run(scenario())


def working(ekiden: Program, program: Running) -> list[psutil.Process]:
    """Everything below a program that serves requests, once its tool runs."""
    return below(program.process.pid, ekiden.folder)


def is_given_back(ekiden: Program) -> bool:
    """Whether the job waits for a worker, and not for the end of a lease."""
    return json.loads(ekiden.run("jobs", "--json").stdout)["status"] in ("queued", "suspended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_up_leaves_nothing_behind_however_it_is_ended(ekiden: Program, number: signal.Signals) -> None:
    up = ekiden.start("up", env=ekiden.scripts(SCRIPT))
    up.wait_for("ready")
    ekiden.run("submit", REQUEST)
    started = working(ekiden, up)
    up.process.send_signal(number)
    assert up.ends() == (-9 if number == signal.SIGKILL else 0), up.output
    wait_until_none_is_left(started)
    ekiden.wait_until_gone()
    if number != signal.SIGKILL:
        assert is_given_back(ekiden), "the tool had its grace, and the leg could still be given back after it"


def test_a_killed_run_leaves_nothing_behind(ekiden: Program) -> None:
    run = ekiden.start("run", REQUEST, env=ekiden.scripts(SCRIPT))
    started = working(ekiden, run)
    run.process.kill()
    run.ends()
    wait_until_none_is_left(started)
    ekiden.wait_until_gone()


def test_a_worker_that_is_told_twice_to_stop_gives_its_leg_back_behind_its_tools(
    ekiden: Program, redis_url: str
) -> None:
    ekiden.env |= ekiden.scripts(SCRIPT) | {"EKIDEN_DRAIN_S": "60"}
    ekiden.start("dispatcher")
    worker = ekiden.start("worker", "--workspace-root", ekiden.folder)
    worker.wait_for("Serving")
    ekiden.run("submit", REQUEST, "--cwd", ekiden.folder)
    started = working(ekiden, worker)
    worker.interrupt()
    worker.wait_for("Hitting Ctrl+C again")
    worker.interrupt()
    worker.ends()
    assert all(map(is_gone, started))
    assert is_given_back(ekiden)
