"""``ekiden jobs``: the newest jobs."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.jobs import fields_of, local_time
from ekiden.shared.ids import root_of
from ekiden.shared.redaction import preview
from ekiden.shared.stores.views import JobView
from ekiden.shared.terminal_text import say

__all__ = ["jobs"]

_COLUMNS = ("JOB", "STATUS", "AGENT", "LEG", "CHILDREN", "ASKS", "CREATED", "REQUEST")
_OPTIONAL = ("CHILDREN", "ASKS")
"""Left out where no job has any."""
Status = Literal["waiting", "queued", "running", "suspended", "done", "unfinished", "failed", "cancelled", "dead"]


def jobs(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 20,
    status: Annotated[Status | None, typer.Option(help="Only those in this state.")] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the newest jobs, newest first."""
    found = asyncio.run(_newest(redis, data_dir, limit, status))
    if as_json:
        for one in found:
            counts = {"child_count": one.children, "waiting_approvals": one.asks}
            say(json.dumps({**fields_of(one.job), **counts}, ensure_ascii=False))
        return

    rows = [dict(zip(_COLUMNS, _row(one), strict=True)) for one in found]
    shown = [name for name in _COLUMNS if name not in _OPTIONAL or any(row[name] for row in rows)]
    Output().table(shown, [[row[name] for name in shown] for row in rows])


class _Listed(NamedTuple):
    job: JobView
    children: int
    asks: int
    """How much of it, and of those below it, waits for people."""


async def _newest(redis: str | None, data_dir: Path | None, limit: int, status: Status | None) -> list[_Listed]:
    async with connected(redis, data_dir) as client:
        found = await client.jobs(limit, status)
        asks = Counter(root_of(one.job) for one in await client.approvals())
        counts = await client.count_children(job.id for job in found)
        return [_Listed(job, count, asks[job.id]) for job, count in zip(found, counts, strict=True)]


def _row(listed: _Listed) -> list[str]:
    job = listed.job
    counts = [str(count) if count else "" for count in (listed.children, listed.asks)]
    return [job.id, job.status, job.agent, str(job.leg), *counts, local_time(job.created_ms), preview(job.summary, 60)]
