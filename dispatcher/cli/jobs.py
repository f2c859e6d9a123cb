"""``ekiden jobs``: the newest jobs."""

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis

if TYPE_CHECKING:
    from shared.stores.base import JobView

__all__ = ["jobs", "local_time"]

Status = Literal["waiting", "queued", "running", "suspended", "done", "failed", "cancelled", "dead"]


def jobs(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 20,
    status: Annotated[Status | None, typer.Option(help="Only those in this state.")] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the newest jobs, newest first."""
    import asyncio

    found = asyncio.run(_newest(redis, data_dir, limit, status))
    if as_json:
        for job in found:
            typer.echo(json.dumps(dataclasses.asdict(job), ensure_ascii=False))
        return
    from dispatcher.cli.output import Output

    Output().table(["JOB", "STATUS", "AGENT", "LEG", "CREATED", "REQUEST"], [_row(job) for job in found])


def local_time(at_ms: int) -> str:
    """Return a server's time for people."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def _newest(redis: str | None, data_dir: Path | None, limit: int, status: Status | None) -> "list[JobView]":
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir) as client:
        return await client.jobs(limit, status)


def _row(job: "JobView") -> list[str]:
    from dispatcher.cli.output import one_line

    created = local_time(job.created_ms)
    return [job.id, job.status, job.agent, str(job.leg), created, one_line(job.summary, 60)]
