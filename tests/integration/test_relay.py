"""Dispatcher and workers as real processes, started as ordinary Celery: stopped, killed, set up wrongly."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.records import Entry, LegStarted, LegSuspended
from ekiden.shared.stores.views import JobView
from tests.integration.celery_worker import eventually
from tests.integration.scratch import scratch_server

T = TypeVar("T")

DEADLINE_S = 60.0
AGENT = """---
name: {name}
description: The {name} of the relay.
tools: []
handoffs: [{handoffs}]
---
You are {name}.
"""
BROKEN_APP = """
from ekiden.shared.errors import DefinitionError
from ekiden.shared.relay.celery_app import make_app

async def build(settings, stores):
    raise DefinitionError("x.yaml: line 3 is no YAML")

app = make_app("worker", "broken_app:build")
"""
SCRIPTS = """agents:
  first:
    - {name: pass-on, call: [{tool: transfer_to_second, args: {reason: it is yours}}]}
  second:
    - {name: answer, delay_s: 2, say: "done by ${agent}"}
  steady:
    - {name: answer, delay_s: 5, say: "done by ${agent}"}
  slow:
    - {name: answer, delay_s: 600, say: "too late"}
"""


@dataclass
class Stack:
    """A server, a dispatcher, and the workers that a test starts."""

    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, app: str, *options: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start ``celery -A <app> worker``."""
        log = (self.folder / f"{app}.{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", app, "worker", "-l", "INFO", *options],
                cwd=self.folder,
                env={
                    **os.environ,
                    "HOME": str(self.folder),
                    "EKIDEN_REDIS_URL": self.url,
                    **self._settings(),
                    **settings,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def output_of(self, process: subprocess.Popen[bytes]) -> str:
        """What a process has written."""
        number = self.processes.index(process)
        [path] = self.folder.glob(f"*.{number}.log")
        return path.read_text()

    def _settings(self) -> dict[str, str]:
        return {"EKIDEN_SCRIPTS_DIR": str(self.folder / "scripts")}

    def kill(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """Kill what still runs of ``processes``."""
        for process in processes:
            process.kill()
            process.wait(DEADLINE_S)

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Ask through a client."""

        async def whole() -> T:
            async with Client(self.url) as client:
                return await question(client)

        return asyncio.run(whole())

    def submit(self, agent: str) -> str:
        """Submit a job for ``agent``."""
        return self.ask(lambda client: client.submit("go", agent=agent))

    def job(self, job: str) -> JobView:
        """A job as it is now."""
        return self.ask(lambda client: client.job(job))

    def entries(self, job: str) -> list[Entry]:
        """A job's journal."""
        return self.ask(lambda client: client.entries(job))

    def starts(self, job: str, agent: str) -> list[tuple[int, int]]:
        """When ``agent`` took the leg (server's ms), and the pids of who did."""
        records = [(entry.at_ms, entry.record) for entry in self.entries(job)]
        return [
            (at, int(record.worker.rsplit(".", 2)[1]))
            for at, record in records
            if isinstance(record, LegStarted) and record.agent == agent
        ]

    def runs(self, job: str, agent: str) -> int:
        """Wait until ``agent`` runs; return the pid of its worker."""
        eventually(lambda: self.starts(job, agent), f"{agent} runs", DEADLINE_S)
        return self.starts(job, agent)[-1][1]

    def ended(self, job: str, within_s: float = DEADLINE_S) -> JobView:
        """Wait for the job's end."""
        eventually(lambda: self.job(job).is_over, "the job ends", within_s)
        return self.job(job)

    def announced(self, count: int) -> None:
        """Wait until ``count`` pools have announced themselves."""
        eventually(lambda: len(self.ask(lambda client: client.pools())) == count, f"{count} pools", DEADLINE_S)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A server and a dispatcher, for all tests of this module."""
    folder = tmp_path_factory.mktemp("stack")
    agents = folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    for name, handoffs in (("first", "{to: second, when: manual}"), ("second", ""), ("steady", ""), ("slow", "")):
        (agents / f"{name}.md").write_text(AGENT.format(name=name, handoffs=handoffs))
    (folder / "broken_app.py").write_text(BROKEN_APP)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "relay.yaml").write_text(SCRIPTS)
    with scratch_server(folder) as server:
        stack = Stack(server.url, folder)
        stack.start("ekiden.dispatcher.app")
        stack.announced(1)
        yield stack
        stack.kill(stack.processes)


@pytest.fixture
def stack(running: Stack) -> Iterator[Stack]:
    """The stack, for one test's workers."""
    yield running
    running.kill(running.processes[1:])
    running.ask(lambda client: client._stores.client.delete("ekiden:pools"))


def test_a_job_goes_on_elsewhere_when_its_worker_is_killed(stack: Stack) -> None:
    workers = {process.pid: process for process in (stack.start("ekiden.workers.app") for _ in range(2))}
    job = stack.submit("first")
    killed = stack.runs(job, "second")
    workers[killed].kill()
    view = stack.ended(job)
    assert (view.status, view.result, view.depth) == ("done", "done by second", 1)
    assert len(stack.starts(job, "first")) == 1  # what was done is not done again
    assert [pid == killed for _, pid in stack.starts(job, "second")] == [True, False]


def test_a_cold_shutdown_gives_the_leg_back_and_another_worker_goes_on_at_once(stack: Stack) -> None:
    # A lease that does not end within this test: only who gives back lets go.
    workers = {
        process.pid: process for process in (stack.start("ekiden.workers.app", EKIDEN_LEASE_S="60") for _ in range(2))
    }
    job = stack.submit("second")
    stopped = stack.runs(job, "second")
    workers[stopped].send_signal(signal.SIGQUIT)
    assert stack.ended(job).result == "done by second"
    [paused] = [entry for entry in stack.entries(job) if isinstance(entry.record, LegSuspended)]
    assert paused.record == LegSuspended(leg=1, cause="retry", delay_s=0, detail="worker stopping")
    [_, (again_ms, pid)] = stack.starts(job, "second")
    assert pid != stopped
    assert again_ms - paused.at_ms < 30_000, "the lease of 60 s was waited for"
    workers[stopped].wait(DEADLINE_S)


def test_a_warm_shutdown_lets_the_leg_end_and_keeps_its_lease_until_then(stack: Stack) -> None:
    worker = stack.start("ekiden.workers.app", EKIDEN_LEASE_S="3")  # shorter than the leg
    job = stack.submit("steady")
    stack.runs(job, "steady")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0
    view = stack.job(job)
    assert (view.status, view.result) == ("done", "done by steady")
    assert len(stack.starts(job, "steady")) == 1
    assert len(stack.ask(lambda client: client.pools())) == 1  # it took its announcement back


def test_a_running_leg_of_a_cancelled_job_is_stopped(stack: Stack) -> None:
    stack.start("ekiden.workers.app")
    job = stack.submit("slow")
    stack.runs(job, "slow")
    assert stack.ask(lambda client: client.cancel(job)) == "flagged"
    assert stack.ended(job).status == "cancelled"


def test_a_worker_serves_the_queues_that_it_is_told_only(stack: Stack) -> None:
    stack.start("ekiden.workers.app", "-Q", "ekiden.agent.first")
    job = stack.submit("first")
    eventually(lambda: stack.job(job).agent == "second", "it is handed over")
    [queue] = [queue for queue in stack.ask(lambda client: client.queues()) if queue.name == "ekiden.agent.second"]
    assert (queue.waiting, queue.pools) == (1, ())
    stack.start("ekiden.workers.app", "-Q", "ekiden.agent.second")
    assert stack.ended(job).status == "done"


@pytest.mark.parametrize(
    ("app", "options", "url", "text"),
    [
        ("ekiden.workers.app", ["-P", "threads"], "", "start the worker without -P"),
        ("broken_app", [], "", "ekiden worker: x.yaml: line 3 is no YAML"),
        ("ekiden.workers.app", [], "redis://127.0.0.1:1/0", "ekiden worker: no Redis server answers at"),
    ],
)
def test_a_worker_that_cannot_work_says_why_in_one_line(
    stack: Stack, app: str, options: list[str], url: str, text: str
) -> None:
    process = stack.start(app, *options, EKIDEN_REDIS_URL=url or stack.url)
    assert process.wait(DEADLINE_S) != 0
    output = stack.output_of(process)
    assert "Traceback" not in output
    assert len([line for line in output.splitlines() if text in line]) == 1


def test_serve_raises_what_keeps_the_pool_from_starting(stack: Stack) -> None:
    begun = "serve('broken_app:app', {}, [], 'WARNING', lambda: print('ready'))"
    program = f"from ekiden.shared.relay.pool_process import serve\n{begun}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=stack.folder,
        env={**os.environ, "HOME": str(stack.folder), "EKIDEN_REDIS_URL": stack.url},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "shared.errors.DefinitionError: x.yaml: line 3 is no YAML" in done.stderr
    assert "ready" not in done.stdout
