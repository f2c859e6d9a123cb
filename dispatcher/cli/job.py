"""``ekiden job …``: one job, seen from every side. Ids may be cut short where they are unique."""

import dataclasses
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.client import Client
    from shared.records import Entry

__all__ = ["app"]

app = typer.Typer(help="Look at one job, or cancel it.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id, or a beginning of it that no other job has.")]
T = TypeVar("T")


@app.command()
def show(job: Id, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show how a job stands."""

    async def fields() -> dict[str, object]:
        async with _job(job, redis, data_dir) as (client, job_id):
            return dataclasses.asdict(await client.job(job_id))

    found = _run(fields())
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    from dispatcher.cli.jobs import local_time
    from dispatcher.cli.output import Output

    shown = {name: value for name, value in found.items() if value not in (None, "", False)}
    for name, value in shown.items():
        if isinstance(value, int) and name.endswith("_ms"):
            shown[name] = local_time(value)
    rows = [f"{name.removesuffix('_ms').replace('_', ' '):<12} {value}" for name, value in shown.items()]
    Output().line("\n".join(rows))


@app.command()
def result(job: Id, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Print the answer; the exit code says how the job ended."""

    async def view() -> dict[str, object]:
        async with _job(job, redis, data_dir) as (client, job_id):
            found = await client.job(job_id)
        if not found.is_over:
            raise InvalidRequest(
                f"job {found.id} has not ended ({found.status}): `ekiden job events {found.id} --follow` shows it"
            )
        return dataclasses.asdict(found)

    from dispatcher.cli.output import Output
    from dispatcher.cli.show import exit_code_of

    found = _run(view())
    status, reason = str(found["status"]), str(found["reason"])
    if as_json:
        typer.echo(json.dumps({name: found[name] for name in ("id", "status", "reason", "result")}, ensure_ascii=False))
    elif status == "done":
        Output().line(str(found["result"] or ""))
    else:
        typer.echo(f"ekiden: job {found['id']} {status} ({reason}): {found['result'] or ''}", err=True)
    raise typer.Exit(exit_code_of(status, reason))


@app.command()
def events(
    job: Id,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job ends.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show everything that happened in a job."""
    raise typer.Exit(_run(_events(job, redis, data_dir, follow=follow, as_json=as_json)))


@app.command()
def chain(job: Id, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show who had a job, why it was handed over, and how long each agent took."""

    async def entries() -> "list[Entry]":
        async with _job(job, redis, data_dir) as (client, job_id):
            return await client.entries(job_id)

    from dispatcher.cli.chain import hops_of, show_chain

    hops = hops_of(_run(entries()))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(hop) for hop in hops], ensure_ascii=False))
    else:
        show_chain(hops)


@app.command()
def cancel(job: Id, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Cancel a job: at once, or as soon as the worker that runs it sees it."""

    async def cancelled() -> str:
        async with _job(job, redis, data_dir) as (client, job_id):
            verdict = await client.cancel(job_id)
        texts = {"ok": "is cancelled", "flagged": "is being cancelled by its worker", "finished": "had ended before"}
        return f"job {job_id} {texts[verdict]}"

    typer.echo(_run(cancelled()))


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # 30 ms that `ekiden --help` does without

    return asyncio.run(work)


@asynccontextmanager
async def _job(prefix: str, redis: str | None, data_dir: Path | None) -> "AsyncIterator[tuple[Client, str]]":
    """Yield a client and the whole id."""
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir) as client:
        yield client, await client.resolve(prefix)


async def _events(prefix: str, redis: str | None, data_dir: Path | None, *, follow: bool, as_json: bool) -> int:
    from dispatcher.cli.follow import Interrupted, interruptible, leave_running
    from dispatcher.cli.follow import follow as follow_job
    from dispatcher.cli.show import exit_code_of, view_for

    async with _job(prefix, redis, data_dir) as (client, job_id):
        view = view_for(job_id, as_json=as_json)
        if not follow:
            for entry in await client.entries(job_id):
                view.show(entry)
            return 0
        try:
            async with interruptible():
                end = await follow_job(client, job_id, view)
        except Interrupted:
            leave_running(job_id, view)
            return 130
        return exit_code_of(end.status, end.reason)
