"""``ekiden status``: who is there, and what waits."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis

if TYPE_CHECKING:
    from dispatcher.cli.output import Output
    from shared.stores.base import PoolView
    from shared.stores.pools import QueueView

__all__ = ["show_status", "status", "status_json"]


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Go on, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(metavar="S", min=0.1, help="With --watch: how often.")] = 2.0,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show the pools that run, and the queues with what waits in them."""
    import asyncio

    if watch:
        from dispatcher.cli.status_watch import watch_status

        asyncio.run(watch_status(redis, data_dir, interval, as_json=as_json))
        return
    pools, queues = asyncio.run(_look(redis, data_dir))
    if as_json:
        typer.echo(status_json(pools, queues))
        return
    from dispatcher.cli.output import Output

    show_status(Output(), pools, queues)


def status_json(pools: "list[PoolView]", queues: "list[QueueView]") -> str:
    """Return a look at the server as one line of JSON."""
    found = {"pools": list(map(dataclasses.asdict, pools)), "queues": list(map(dataclasses.asdict, queues))}
    return json.dumps(found, ensure_ascii=False)


def show_status(out: "Output", pools: "list[PoolView]", queues: "list[QueueView]") -> None:
    """Write a look at the server as tables."""
    if pools:
        out.table(
            ["POOL", "KIND", "IN FLIGHT", "CAPACITY", "LAG", "WORKSPACE ROOT", "QUEUES"],
            [_pool(pool) for pool in pools],
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
    root = pool.workspace_root or "-"
    return [pool.id, pool.kind, str(pool.in_flight), str(pool.capacity), _lag(pool), root, queues]


def _lag(pool: "PoolView") -> str:
    """Say how far the pool's event loop is behind, and whether it leaves messages in the queue because of that."""
    lag = f"{pool.extra['lag_ms']} ms" if "lag_ms" in pool.extra else "-"
    return f"{lag}, busy" if pool.extra.get("busy") == "yes" else lag


def _queue(queue: "QueueView") -> list[str]:
    mark = "" if queue.pools else "no consumer"
    return [queue.name, str(queue.waiting), str(len(queue.pools)), mark]
