"""``ekiden status``: who is there, and what waits."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis
from shared.errors import InvalidRequest
from shared.visible import say

if TYPE_CHECKING:
    from dispatcher.cli.output import Output
    from dispatcher.client import Client
    from shared.stores.base import PoolView
    from shared.stores.dead_letters import DeadLetters
    from shared.stores.pools import QueueView

__all__ = ["Look", "look", "show_status", "status", "status_json"]


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Go on, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(metavar="S", min=0.1, help="With --watch: how often.")] = 2.0,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Show what was found in queues and is no message, and why.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="With --dead-letters: forget those that are shown.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show the pools that run, and the queues with what waits in them."""
    import asyncio

    if clear and not dead_letters:
        raise InvalidRequest("--clear forgets dead letters: give it together with --dead-letters")
    if dead_letters and watch:
        raise InvalidRequest("--dead-letters and --watch exclude each other")
    if dead_letters:
        from dispatcher.cli.dead_letters import show_dead_letters

        show_dead_letters(redis, data_dir, clear=clear, as_json=as_json)
        return
    if watch:
        from dispatcher.cli.status_watch import watch_status

        asyncio.run(watch_status(redis, data_dir, interval, as_json=as_json))
        return
    found = asyncio.run(_look_once(redis, data_dir))
    if as_json:
        say(status_json(found))
        return
    from dispatcher.cli.output import Output

    show_status(Output(), found)


@dataclasses.dataclass(frozen=True)
class Look:
    """What there is on a server."""

    pools: "list[PoolView]"
    queues: "list[QueueView]"
    dead_letters: "DeadLetters"


async def look(client: "Client") -> Look:
    """Look at a server."""
    return Look(await client.pools(), await client.queues(), await client.look_at_dead_letters())


def status_json(found: Look) -> str:
    """Return a look at the server as one line of JSON."""
    from dispatcher.cli.dead_letters import fields_of_letter

    newest = found.dead_letters.newest
    fields = {
        "pools": list(map(dataclasses.asdict, found.pools)),
        "queues": list(map(dataclasses.asdict, found.queues)),
        "dead_letters": {"count": found.dead_letters.count, "newest": newest and fields_of_letter(newest)},
    }
    return json.dumps(fields, ensure_ascii=False)


def show_status(out: "Output", found: Look) -> None:
    """Write a look at the server as tables."""
    if found.pools:
        out.table(
            ["POOL", "KIND", "IN FLIGHT", "CAPACITY", "LAG", "WORKSPACE ROOT", "QUEUES"],
            [_pool(pool) for pool in found.pools],
        )
    else:
        out.line("No pool runs: start `ekiden dispatcher` and `ekiden worker`, or `ekiden up`", "yellow")
    if found.queues:
        out.line()
        out.table(["QUEUE", "WAITING", "POOLS", ""], [_queue(queue) for queue in found.queues])
    if (newest := found.dead_letters.newest) is not None:
        out.line()
        text = f"{newest.queue}: {newest.reason} (`ekiden status --dead-letters` shows more)"
        out.line(f"Dead letters: {found.dead_letters.count}, the newest in {text}", "yellow")


async def _look_once(redis: str | None, data_dir: Path | None) -> Look:
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir) as client:
        return await look(client)


def _pool(pool: "PoolView") -> list[str]:
    queues = ", ".join(pool.queues) or "(none yet)"
    root = pool.workspace_root or "-"
    return [pool.id, pool.kind, str(pool.in_flight), str(pool.capacity), _lag(pool), root, queues]


def _lag(pool: "PoolView") -> str:
    """Say how far the pool's event loop is behind, and whether it leaves messages in the queue because of that."""
    lag = f"{pool.extra['lag_ms']} ms" if "lag_ms" in pool.extra else "-"
    return f"{lag}, busy" if pool.extra.get("busy") == "yes" else lag


def _queue(queue: "QueueView") -> list[str]:
    mark = "no list stands under its name" if queue.is_blocked else "" if queue.pools else "no consumer"
    return [queue.name, str(queue.waiting), str(len(queue.pools)), mark]
