"""``ekiden status``: who is there, and what waits."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis

if TYPE_CHECKING:
    from shared.stores.base import PoolView
    from shared.stores.pools import QueueView

__all__ = ["status"]


def status(as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show the pools that run, and the queues with what waits in them."""
    import asyncio

    pools, queues = asyncio.run(_look(redis, data_dir))
    if as_json:
        found = {"pools": list(map(dataclasses.asdict, pools)), "queues": list(map(dataclasses.asdict, queues))}
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    from dispatcher.cli.output import Output

    out = Output()
    if pools:
        out.table(
            ["POOL", "KIND", "IN FLIGHT", "CAPACITY", "WORKSPACE ROOT", "QUEUES"], [_pool(pool) for pool in pools]
        )
    else:
        out.line("No pool runs: start `ekiden dispatcher` and `ekiden worker`, or `ekiden up`", "yellow")
    if queues:
        out.line()
        out.table(["QUEUE", "WAITING", "POOLS", ""], [_queue(queue) for queue in queues])


async def _look(redis: str | None, data_dir: Path | None) -> "tuple[list[PoolView], list[QueueView]]":
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir) as client:
        return await client.pools(), await client.queues()


def _pool(pool: "PoolView") -> list[str]:
    queues = ", ".join(pool.queues) or "(none yet)"
    return [pool.id, pool.kind, str(pool.in_flight), str(pool.capacity), pool.workspace_root or "-", queues]


def _queue(queue: "QueueView") -> list[str]:
    mark = "" if queue.pools else "no consumer"
    return [queue.name, str(queue.waiting), str(len(queue.pools)), mark]
