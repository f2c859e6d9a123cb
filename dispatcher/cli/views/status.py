"""Pools, queues and dead letters as programs and people read them."""

import dataclasses
import json

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.dead_letters import fields_of_letter
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import ApprovalView
from ekiden.shared.stores.dead_letters import DeadLetters
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView

__all__ = ["StatusSnapshot", "read_status", "show_status", "status_json"]


@dataclasses.dataclass(frozen=True)
class StatusSnapshot:
    """What there is on a server."""

    pools: list[PoolView]
    queues: list[QueueView]
    dead_letters: DeadLetters
    approvals: list[ApprovalView] = dataclasses.field(default_factory=list)
    """What waits for people."""


async def read_status(client: Client) -> StatusSnapshot:
    """Look at a server."""
    pools, queues, letters = await client.pools(), await client.queues(), await client.look_at_dead_letters()
    return StatusSnapshot(pools, queues, letters, await client.approvals())


def status_json(found: StatusSnapshot) -> str:
    """Return a look at the server as one line of JSON."""
    newest = found.dead_letters.newest
    fields = {
        "pools": list(map(dataclasses.asdict, found.pools)),
        "queues": list(map(dataclasses.asdict, found.queues)),
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


def _lag(pool: PoolView) -> str:
    """Say how far the pool's event loop is behind, if it leaves messages in the queue, how many calls are stuck."""
    lag = f"{pool.extra['lag_ms']} ms" if "lag_ms" in pool.extra else "-"
    stuck = pool.extra.get("stuck_tools", "0")
    notes = [lag, *(["busy"] if pool.extra.get("busy") == "yes" else []), *([f"{stuck} stuck"] if stuck != "0" else [])]
    return ", ".join(notes)


def _queue(queue: QueueView) -> list[str]:
    mark = "no list stands under its name" if queue.is_blocked else "" if queue.pools else "no consumer"
    return [queue.name, str(queue.waiting), str(len(queue.pools)), mark]
