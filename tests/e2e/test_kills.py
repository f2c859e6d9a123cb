"""The kill matrix: a process dies at a point of a leg; another one goes on, and nothing is lost or done twice."""

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.child_processes import ChildProcess, start_child
from ekiden.shared.embedded import attach
from ekiden.shared.errors import AlreadyDecided
from ekiden.shared.ids import session_id_for
from ekiden.shared.messages import ToolResult
from ekiden.shared.records import Decided, Entry, HandedOff, ToolFinished
from tests.e2e.kill_app import (
    ASKED_POINTS,
    GIVE_BACK_POINTS,
    NUDGE_POINTS,
    POINTS,
    REFUSAL_POINTS,
    ROUTING_POINTS,
)
from tests.e2e.program import PATIENCE_S
from tests.invariants import faults_of_journal

AGENT = """---
name: {name}
description: {name}
tools: "*"
{ends}---
Work.
"""
SCRIPT = """
agents:
  first:
    - name: work
      call: [{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}]
    - {name: stray, call: [{tool: transfer_to_nobody, args: {reason: whoever that is}}]}
    - {name: hand, call: [{tool: transfer_to_second, args: {reason: my part is done}}]}
  second:
    - name: end
      when: {user: is not finished yet}
      call: [{tool: complete_task, args: {result: all done}}]
    - name: work
      call: [{tool: pay, args: {amount: 2}}, {tool: print_receipt, args: {amount: 2}}]
    - {name: say, say: all done}
  asking:
    - {name: work, call: [{tool: print_receipt, args: {amount: 3}}, {tool: pay, args: {amount: 3}}]}
    - {name: end, say: all done}
"""
ASKED_AGAIN = {
    "in_model": 0,
    "before_refusal": 1,
    "before_nudge": 1,
    "before_commit": 2,
    "before_give_back": 2,
}
"""Which turn's model is asked a second time, by point: its reply was not in the journal yet."""
RESUMED_WITHIN_S = 10.0


class Effects(ThreadingHTTPServer):
    """The world outside: counts what tools and models do to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Count)
        self.requests: Counter[tuple[str, str]] = Counter()

    def of(self, kind: str, job: str) -> dict[str, int]:
        """How often each key of this kind was asked for, for one job."""
        return {key: n for (what, key), n in self.requests.items() if what == kind and key.startswith(job)}


class _Count(BaseHTTPRequestHandler):
    server: Effects

    def do_POST(self) -> None:
        _, kind, key = self.path.split("/", 2)
        self.server.requests[kind, key] += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class Team:
    """Pools that come back when they die, as under any supervisor."""

    def __init__(self, folder: Path, url: str, effects: Effects) -> None:
        self.url = url
        self.effects = effects
        self.plans = folder / "plans"
        self._env = {
            **os.environ,
            "EKIDEN_REDIS_URL": url,
            "EKIDEN_AGENTS_DIR": f'["{folder / "agents"}"]',
            "EKIDEN_SCRIPTS_DIR": str(folder / "scripts"),
            "EKIDEN_QUARANTINE_FROM": "4",
            "EKIDEN_DRAIN_S": "0",
            "EKIDEN_LEASE_S": "3",
            "HOME": str(folder),
            "KILL_PLANS": str(self.plans),
            "EFFECTS_URL": f"http://127.0.0.1:{effects.server_port}",
        }
        self._log = folder / "pools.log"
        self._pools: dict[str, ChildProcess] = {}
        self._stopping = threading.Event()
        for name in ("router0", "router1", "worker0", "worker1"):
            self._start(name)
        self._watch = threading.Thread(target=self._supervise)
        self._watch.start()

    def _start(self, name: str) -> None:
        app = f"tests.e2e.kill_app:{name[:-1]}"
        queues = (
            "ekiden.dispatch"
            if name.startswith("router")
            else "ekiden.agent.first,ekiden.agent.second,ekiden.agent.asking"
        )
        command = [
            sys.executable,
            "-m",
            "tests.celery_program",
            "-A",
            app,
            "worker",
            "-l",
            "WARNING",
            "-Q",
            queues,
            "-n",
            f"{name}@t",
        ]
        self._pools[name] = start_child(command, env=self._env, log=self._log)

    def _supervise(self) -> None:
        while not self._stopping.wait(0.05):
            for name, pool in list(self._pools.items()):
                if pool.poll() is not None:
                    self._start(name)

    def stop(self) -> None:
        self._stopping.set()
        self._watch.join()
        for pool in self._pools.values():
            pool.stop(0.0)

    def answering(self, approval: str) -> ChildProcess:
        """A client that approves, and dies at points."""
        command = [sys.executable, "-m", "tests.e2e.kill_app", self.url, approval]
        return start_child(command, env=self._env, log=self._log)

    def log(self) -> str:
        return self._log.read_text()[-3000:]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("kills")
    for name in ("agents", "scripts", "plans"):
        (folder / name).mkdir()
    (folder / "agents" / "first.md").write_text(AGENT.format(name="first", ends="handoffs: [{to: second}]\n"))
    (folder / "agents" / "second.md").write_text(AGENT.format(name="second", ends="complete_task: true\n"))
    confirmed = "confirmation: {require: [print_receipt]}\n"
    (folder / "agents" / "asking.md").write_text(AGENT.format(name="asking", ends=confirmed))
    (folder / "scripts" / "script.yaml").write_text(SCRIPT)
    effects = Effects()
    threading.Thread(target=effects.serve_forever, daemon=True).start()
    with attach(folder / "data") as server:
        made = Team(folder, server.url, effects)
        try:
            asyncio.run(all_there(made))
            yield made
        finally:
            made.stop()
            effects.shutdown()
            effects.server_close()


async def all_there(team: Team) -> None:
    """Wait until all four pools have announced themselves."""
    async with Client(team.url) as client:
        deadline = time.monotonic() + PATIENCE_S
        while len(await client.pools()) < 4:
            assert time.monotonic() < deadline, team.log()
            await asyncio.sleep(0.05)


async def gone(plan: Path) -> None:
    """Wait until the point was reached: the news of a job's end may be quicker than the process behind its commit."""
    deadline = time.monotonic() + PATIENCE_S
    while plan.exists():  # noqa: ASYNC240 - a test
        assert time.monotonic() < deadline, "the point was never reached"
        await asyncio.sleep(0.01)


async def run_job(team: Team, name: str, leg: int, point: str) -> tuple[str, list[Entry], float]:
    """Run a job whose ``leg`` dies at ``point``; return its id, journal and duration."""
    job = f"{session_id_for(name)}.1"
    plan = team.plans / f"{job}.{leg}"
    plan.write_text(point)
    async with Client(team.url) as client:
        began = time.monotonic()
        assert await client.submit("go", agent="first", request_id=name) == job
        view = await asyncio.wait_for(client.wait(job), PATIENCE_S)
        took = time.monotonic() - began
        await gone(plan)
        assert (view.status, view.result) == ("done", "all done"), team.log()
        return job, await client.entries(job), took


CASES = [
    *((0, point) for point in ROUTING_POINTS),
    *((1, point) for point in (*POINTS, *REFUSAL_POINTS, *GIVE_BACK_POINTS)),
    *((2, point) for point in (*POINTS, *NUDGE_POINTS)),
]


@pytest.mark.parametrize(("leg", "point"), CASES)
def test_a_process_that_dies_costs_nothing_but_time(team: Team, leg: int, point: str) -> None:
    job, entries, took = asyncio.run(run_job(team, f"{leg} {point} {time.time()}", leg, point))
    records = [entry.record for entry in entries]

    assert [(m.leg, m.context.to_agent) for m in records if isinstance(m, HandedOff)] == [(0, "first"), (1, "second")]
    assert faults_of_journal(entries, is_over=True) == []
    results = [record.result for record in records if isinstance(record, ToolFinished)]
    check_effects(team.effects, job, results, leg, point)
    assert took < RESUMED_WITHIN_S


def check_effects(effects: Effects, job: str, results: list[ToolResult], leg: int, point: str) -> None:
    paid, printed, asked = effects.of("idempotent", job), effects.of("plain", job), effects.of("model", job)
    assert len(paid) == 2, "each payment has one key, so the server applies it once"
    assert set(printed.values()) == {1}, "a tool that must not run again never does"
    told_unknown = [result for result in results if result.content.startswith("Outcome unknown")]
    assert len(told_unknown) == (1 if point == "in_plain_tool" else 0)
    repeated = {key for key, times in asked.items() if times > 1}
    turn = ASKED_AGAIN.get(point) if leg else None
    assert repeated == (set() if turn is None else {f"{job}:{leg}:{turn}"}), "a recorded reply is never asked again"
    if point != "in_idempotent_tool":
        assert set(paid.values()) == {1}, "a finished tool call never runs again"


@pytest.mark.parametrize("point", ASKED_POINTS)
def test_a_process_that_dies_round_an_approval_neither_runs_a_call_by_itself_nor_loses_an_answer(
    team: Team, point: str
) -> None:
    job, entries, answers = asyncio.run(run_asked_job(team, f"asked {point} {time.time()}", point))
    assert faults_of_journal(entries, is_over=True) == []
    decided = [entry.record for entry in entries if isinstance(entry.record, Decided)]
    assert [one.by for one in decided] == answers
    lost_while_it_ran = point == "in_plain_tool"  # which is asked about once more
    assert set(team.effects.of("plain", job).values()) == {1 + lost_while_it_ran}
    assert set(team.effects.of("idempotent", job).values()) == {1}


async def run_asked_job(team: Team, name: str, point: str) -> tuple[str, list[Entry], list[str]]:
    """Run a job whose call of a tool is asked about; return its id, its journal, and who has answered."""
    job = f"{session_id_for(name)}.1"
    plan = team.plans / f"{job}.1"
    if "asking" in point:
        plan.write_text(point)
    async with Client(team.url) as client:
        await client.submit("go", agent="asking", request_id=name)
        [view] = await asked(client, job, f"{job}:1")
        if "asking" not in point:
            plan.write_text(point)
        answers = []
        if "decision" in point:
            dying = await asyncio.to_thread(team.answering, view.id)
            await gone(plan)
            assert await asyncio.to_thread(dying.ends_within, PATIENCE_S) < 0
            answers = ["the one that dies"] if point == "after_decision" else []
        answer = Answer("approved", view.digest, by="anna")
        if answers:
            with pytest.raises(AlreadyDecided, match="by the one that dies"):
                await client.answer(view.id, answer)
        else:
            await client.answer(view.id, answer)
            answers.append("anna")
        if point == "in_plain_tool":
            [again] = await asked(client, job, f"{job}:2")
            await client.answer(again.id, Answer("approved", again.digest, by="ben"))
            answers.append("ben")
        found = await asyncio.wait_for(client.wait(job), PATIENCE_S)
        await gone(plan)
        assert (found.status, found.result) == ("done", "all done"), team.log()
        return job, await client.entries(job), answers


async def asked(client: Client, job: str, approval: str) -> list[ApprovalView]:
    """Wait until this, and nothing else of the job, waits for a person."""
    deadline = time.monotonic() + PATIENCE_S
    found = await client.approvals(job=job)
    while [view.id for view in found] != [approval]:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)
        found = await client.approvals(job=job)
    return found
