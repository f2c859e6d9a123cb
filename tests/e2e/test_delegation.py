"""Delegation over real worker processes: no slot is held by who waits, and a killed worker costs no result."""

import asyncio
import json
import os
import signal
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import UnknownJob
from ekiden.shared.records import Ended, LegStarted, ToolFinished
from tests.e2e.program import Program, Running, wait_until

CHILDREN = 10
LEAD = "---\nname: lead\ndescription: Leads.\ntools: []\nsubagents: [scout]\n---\nLead.\n"
SCOUT = "---\nname: scout\ndescription: Looks.\ntools: []\n---\nLook.\n"


def script(delay_s: float) -> str:
    """A lead that delegates ten times in one turn, and a scout that takes its time."""
    calls = ", ".join(f"{{tool: delegate_to_scout, args: {{objective: part {n}}}}}" for n in range(CHILDREN))
    return (
        "agents:\n"
        "  lead:\n"
        "  - {name: all, when: {turn: 2}, say: all is done}\n"
        f"  - {{name: ask, call: [{calls}]}}\n"
        "  scout:\n"
        f"  - {{name: look, delay_s: {delay_s}, say: found it}}\n"
    )


def begun(ekiden: Program, delay_s: float, *concurrencies: int) -> list[Running]:
    """Start a dispatcher and a worker for each of ``concurrencies``; wait for them."""
    folder = ekiden.folder / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "lead.md").write_text(LEAD)
    (folder / "scout.md").write_text(SCOUT)
    ekiden.env |= ekiden.scripts(script(delay_s))
    ekiden.start("dispatcher")
    workers = [ekiden.start("worker", "--concurrency", count) for count in concurrencies]
    wait_until(lambda: len(status(ekiden)["pools"]) == 1 + len(workers), what="the pools")
    return workers


def status(ekiden: Program) -> dict[str, Any]:
    """What ``ekiden status`` says."""
    found: dict[str, Any] = json.loads(ekiden.run("status", "--json").stdout)
    return found


def submitted(ekiden: Program) -> str:
    """Submit the job and return its id."""
    return ekiden.run("submit", "look everywhere", "--agent", "lead").stdout.split()[-1]


def records(url: str, job: str) -> list[Any]:
    """The journal of a job, as far as there is one."""

    async def read() -> list[Any]:
        async with Client(url) as client:
            try:
                return [entry.record for entry in await client.entries(job)]
            except UnknownJob:
                return []

    return asyncio.run(read())


def attempts(url: str, job: str) -> list[LegStarted]:
    """The attempts at the job's legs."""
    return [record for record in records(url, job) if isinstance(record, LegStarted)]


def has_ended(url: str, job: str) -> bool:
    """Whether the job is over."""
    return any(isinstance(record, Ended) for record in records(url, job))


def results(url: str, job: str) -> list[str]:
    """What the job's tool calls gave, without the marks."""
    contents = [record.result.content for record in records(url, job) if isinstance(record, ToolFinished)]
    return [content.split("\n")[1] for content in contents]


def test_a_worker_with_room_for_one_leg_finishes_a_parent_with_ten_children(ekiden: Program, redis_url: str) -> None:
    begun(ekiden, 0.0, 1)
    job = submitted(ekiden)
    wait_until(lambda: has_ended(redis_url, job), 60, "the end of the parent")
    assert ekiden.run("job", "result", job).stdout.strip() == "all is done"
    assert results(redis_url, job) == ["found it"] * CHILDREN


def test_the_children_of_a_killed_worker_go_on_elsewhere_and_the_parent_wakes_once(
    ekiden: Program, redis_url: str
) -> None:
    workers = {worker.process.pid: worker for worker in begun(ekiden, 4.0, CHILDREN, CHILDREN)}
    job = submitted(ekiden)
    last = f"{job}.{CHILDREN}"
    wait_until(lambda: attempts(redis_url, last), what="the last child")
    victim = workers[int(attempts(redis_url, last)[0].worker.split(".")[-2])]
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    wait_until(lambda: has_ended(redis_url, job), 60, "the end of the parent")
    assert results(redis_url, job) == ["found it"] * CHILDREN
    kinds = [record.type for record in records(redis_url, job)]
    assert kinds.count("delegated") == CHILDREN
    assert kinds.count("model_reply") == 2, "it was asked to delegate, and for its answer"
    assert [one.attempt for one in attempts(redis_url, last)] == [1, 2]
