"""``ekiden jobs``: the newest jobs."""

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis
from shared.visible import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.stores.base import JobView

__all__ = ["fields_of", "jobs", "local_time", "rows_of"]

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

    found, children = asyncio.run(_newest(redis, data_dir, limit, status))
    if as_json:
        for job, count in zip(found, children, strict=True):
            say(json.dumps({**fields_of(job), "child_count": count}, ensure_ascii=False))
        return
    from dispatcher.cli.output import Output

    rows = [_row(job, count) for job, count in zip(found, children, strict=True)]
    columns = ["JOB", "STATUS", "AGENT", "LEG", "CHILDREN", "CREATED", "REQUEST"]
    if not any(children):
        columns, rows = [name for name in columns if name != "CHILDREN"], [[*row[:4], *row[5:]] for row in rows]
    Output().table(columns, rows)


def fields_of(job: "JobView") -> dict[str, object]:
    """Return a job as programs read it."""
    from shared.ids import parent_of

    fields = dataclasses.asdict(job)
    return {**fields, "spent": fields["spent"]._asdict(), "parent": parent_of(job.id)}


def rows_of(job: "JobView", children: "Iterable[JobView]") -> list[str]:
    """Return a job as people read it, a line for each field that says something, and one for each child."""
    fields = {name: value for name, value in fields_of(job).items() if value not in (None, "", False)}
    fields["spent"] = f"{job.spent.tokens} tokens, ${job.spent.micro_usd / 1e6:.4f}" if any(job.spent) else ""
    for name, value in fields.items():
        if isinstance(value, int) and name.endswith("_ms"):
            fields[name] = local_time(value)
    rows = [(name.removesuffix("_ms").replace("_", " "), value) for name, value in fields.items() if value]
    rows += [("child", f"{child.id} {child.agent} {child.status}") for child in children]
    return [f"{name:<12} {value}" for name, value in rows]


def local_time(at_ms: int) -> str:
    """Return a server's time for people."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def _newest(
    redis: str | None, data_dir: Path | None, limit: int, status: Status | None
) -> "tuple[list[JobView], list[int]]":
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir) as client:
        found = await client.jobs(limit, status)
        return found, await client.count_children(job.id for job in found)


def _row(job: "JobView", children: int) -> list[str]:
    from dispatcher.cli.output import glimpse

    created = local_time(job.created_ms)
    count = str(children) if children else ""
    return [job.id, job.status, job.agent, str(job.leg), count, created, glimpse(job.summary, 60)]
