"""Pools, queues and dead letters as programs and people read them."""

import dataclasses
import json
from collections.abc import Sequence

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.dead_letters import fields_of_letter
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.dispatcher.cli.views.waterfall import duration
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import ApprovalView
from ekiden.shared.current_task import last_action_of
from ekiden.shared.records import LegSuspended, Record
from ekiden.shared.redaction import preview
from ekiden.shared.stores.dead_letters import DeadLetters
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView

__all__ = ["RunningJob", "StatusSnapshot", "read_status", "show_status", "status_json"]

_SHOWN = 10
"""Jobs that run: first those that hold a worker."""
_LOOKED_THROUGH = 200
"""The newest jobs, among which they are looked for: who watches must not read ten thousand every two seconds."""
_LOOKED_AT = 10
"""Entries of a journal in which its newest step is looked for."""


@dataclasses.dataclass(frozen=True)
class StatusSnapshot:
    """What there is on a server."""

    pools: list[PoolView]
    queues: list[QueueView]
    dead_letters: DeadLetters
    approvals: list[ApprovalView] = dataclasses.field(default_factory=list)
    """What waits for people."""
    jobs: list["RunningJob"] = dataclasses.field(default_factory=list)
    """What runs, the newest first."""


@dataclasses.dataclass(frozen=True)
class RunningJob:
    """A job that runs, or waits for something, as an operator sees it."""

    id: str
    status: str
    agent: str
    age_ms: int
    step: str
    """The newest thing that was done, such as ``tool_call: bash``; empty: nothing yet."""
    summary: str


async def read_status(client: Client) -> StatusSnapshot:
    """Look at a server."""
    pools, queues, letters = await client.pools(), await client.queues(), await client.look_at_dead_letters()
    return StatusSnapshot(pools, queues, letters, await client.approvals(), await _running(client))


def _wait_in(newest_first: Sequence[Record]) -> str:
    match newest_first:
        case [LegSuspended(cause="limit", detail=detail), *_]:
            return f"waits for {detail}"
        case _:
            return ""


async def _running(client: Client) -> list[RunningJob]:
    now_ms = await client.now_ms()
    going = [job for job in await client.jobs(_LOOKED_THROUGH) if job.status in ("running", "suspended")]
    found = []
    for job in sorted(going, key=lambda job: job.status)[:_SHOWN]:
        newest = [entry.record for entry in reversed(await client.newest_entries(job, _LOOKED_AT))]
        step = _wait_in(newest) or last_action_of(newest)
        age_ms = max(0, now_ms - job.created_ms)
        found.append(RunningJob(job.id, job.status, job.agent, age_ms, step, job.summary))
    return found


def status_json(found: StatusSnapshot) -> str:
    """Return a look at the server as one line of JSON."""
    newest = found.dead_letters.newest
    fields = {
        "pools": list(map(dataclasses.asdict, found.pools)),
        "queues": list(map(dataclasses.asdict, found.queues)),
        "jobs": list(map(dataclasses.asdict, found.jobs)),
        "approvals": {"waiting": len(found.approvals), "expires_ms": _expires_ms(found.approvals)},
        "dead_letters": {"count": found.dead_letters.count, "newest": newest and fields_of_letter(newest)},
    }
    return json.dumps(fields, ensure_ascii=False)


def show_status(out: Output, found: StatusSnapshot) -> None:
    """Write a look at the server as tables."""
    if found.pools:
        out.table(
            ["POOL", "KIND", "IN FLIGHT", "CAPACITY", "LAG", "WORKSPACE ROOT", "SANDBOX", "QUEUES"],
            [_pool(pool) for pool in found.pools],
        )
    else:
        out.line("No pool runs: start `ekiden dispatcher` and `ekiden worker`, or `ekiden up`", "yellow")
    for pool in found.pools:
        for server, problem in sorted(pool.servers.items()):
            if problem:
                out.line(f"MCP server {server!r} does not work at {pool.id}: {problem}", "yellow")
    if found.queues:
        out.line()
        out.table(["QUEUE", "WAITING", "POOLS", ""], [_queue(queue) for queue in found.queues])
    if found.jobs:
        out.line()
        out.table(["JOB", "STATUS", "AGENT", "AGE", "STEP", "REQUEST"], [_job(one) for one in found.jobs])
    if found.approvals:
        out.line()
        first = min(found.approvals, key=lambda one: one.expires_at_ms)
        until = f", the first until {local_time(first.expires_at_ms)}"
        out.line(f"Waiting for people: {len(found.approvals)}{until} (`ekiden approvals list` shows them)", "yellow")
    if (newest := found.dead_letters.newest) is not None:
        out.line()
        text = f"{newest.queue}: {newest.reason} (`ekiden status --dead-letters` shows more)"
        out.line(f"Dead letters: {found.dead_letters.count}, the newest in {text}", "yellow")


def _expires_ms(approvals: list[ApprovalView]) -> int | None:
    return min((one.expires_at_ms for one in approvals), default=None)


def _pool(pool: PoolView) -> list[str]:
    queues = ", ".join(pool.queues) or "(none yet)"
    root = pool.workspace_root or "-"
    sandbox = pool.sandbox.partition(" (")[0].partition(";")[0] or "-"
    return [pool.id, pool.kind, str(pool.in_flight), str(pool.capacity), _lag(pool), root, sandbox, queues]


def _job(job: RunningJob) -> list[str]:
    age = duration(job.age_ms)
    return [job.id, job.status, job.agent, age, job.step.replace("_", " ") or "-", preview(job.summary, 60)]


def _lag(pool: PoolView) -> str:
    """Say how far the pool's event loop is behind, if it leaves messages in the queue, how many calls are stuck."""
    lag = f"{pool.extra['lag_ms']} ms" if "lag_ms" in pool.extra else "-"
    stuck = pool.extra.get("stuck_tools", "0")
    notes = [lag, *(["busy"] if pool.extra.get("busy") == "yes" else []), *([f"{stuck} stuck"] if stuck != "0" else [])]
    return ", ".join(notes)


def _queue(queue: QueueView) -> list[str]:
    mark = "no list stands under its name" if queue.is_blocked else "" if queue.pools else "no consumer"
    return [queue.name, str(queue.waiting), str(len(queue.pools)), mark]
