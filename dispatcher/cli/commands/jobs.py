"""``ekiden jobs``: the newest jobs."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.jobs import fields_of, local_time
from ekiden.shared.redaction import preview
from ekiden.shared.stores.views import JobView
from ekiden.shared.terminal_text import say

__all__ = ["jobs"]

Status = Literal["waiting", "queued", "running", "suspended", "done", "failed", "cancelled", "dead"]


def jobs(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 20,
    status: Annotated[Status | None, typer.Option(help="Only those in this state.")] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the newest jobs, newest first."""
    found, children = asyncio.run(_newest(redis, data_dir, limit, status))
    if as_json:
        for job, count in zip(found, children, strict=True):
            say(json.dumps({**fields_of(job), "child_count": count}, ensure_ascii=False))
        return

    rows = [_row(job, count) for job, count in zip(found, children, strict=True)]
    columns = ["JOB", "STATUS", "AGENT", "LEG", "CHILDREN", "CREATED", "REQUEST"]
    if not any(children):
        columns, rows = [name for name in columns if name != "CHILDREN"], [[*row[:4], *row[5:]] for row in rows]
    Output().table(columns, rows)


async def _newest(
    redis: str | None, data_dir: Path | None, limit: int, status: Status | None
) -> tuple[list[JobView], list[int]]:
    async with connected(redis, data_dir) as client:
        found = await client.jobs(limit, status)
        return found, await client.count_children(job.id for job in found)


def _row(job: JobView, children: int) -> list[str]:
    created = local_time(job.created_ms)
    count = str(children) if children else ""
    return [job.id, job.status, job.agent, str(job.leg), count, created, preview(job.summary, 60)]
