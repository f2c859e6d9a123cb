"""``ekiden job …``: one job, seen from every side. Ids may be cut short where they are unique."""

import dataclasses
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dispatcher.cli.options import AsJson, DataDir, Deadline, Outage, Redis, Tail, Thoughts
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.cli.attend import Showing
    from dispatcher.client import Client
    from shared.records import Entry

__all__ = ["app"]

app = typer.Typer(help="Look at one job, cancel it, or let it go on.", no_args_is_help=True)

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
                f"job {found.id} has not ended ({found.status}): `ekiden job follow {found.id}` shows it"
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
    job: Annotated[str | None, typer.Argument(metavar="ID", help="The job's id, or a unique beginning of it.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job ends; see `job follow`.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a line of --json.")] = False,
    tail: Tail = None,
    thoughts: Thoughts = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show everything that happened in a job."""
    if schema:
        from dispatcher.cli.events import event_schema

        typer.echo(json.dumps(event_schema(), indent=2))
        return
    if job is None:
        raise InvalidRequest("ID is missing: `ekiden jobs` lists the jobs")
    from dispatcher.cli.attend import Showing

    showing = Showing(as_json, thoughts, tail, timeout)
    raise typer.Exit(_run((_follow if follow else _show)(job, redis, data_dir, showing)))


@app.command()
def follow(
    job: Id,
    tail: Tail = None,
    thoughts: Thoughts = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show a job from its start, live, until it ends; Ctrl-C asks whether to cancel it."""
    from dispatcher.cli.attend import Showing

    raise typer.Exit(_run(_follow(job, redis, data_dir, Showing(as_json, thoughts, tail, timeout))))


@app.command()
def retry(
    job: Id,
    follow: Annotated[bool, typer.Option("--follow", help="Show the job as it goes on, until it ends.")] = False,
    deadline: Deadline = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Let a job that failed or died go on behind the last step that it recorded."""
    from dispatcher.cli.attend import Showing
    from dispatcher.cli.request import deadline_of

    raise typer.Exit(_run(_retry(job, redis, data_dir, Showing(as_json), deadline_of(deadline), follow=follow)))


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


async def _show(prefix: str, redis: str | None, data_dir: Path | None, showing: "Showing") -> int:
    from dispatcher.cli.follow import show_entries
    from dispatcher.cli.show import view_for

    async with _job(prefix, redis, data_dir) as (client, job_id):
        view = view_for(job_id, as_json=showing.as_json, thoughts=showing.thoughts)
        show_entries(await client.entries(job_id), view, showing.tail)
    return 0


async def _follow(prefix: str, redis: str | None, data_dir: Path | None, showing: "Showing") -> int:
    from dispatcher.cli.attend import see_through

    async with _job(prefix, redis, data_dir) as (client, job_id):
        return await see_through(showing.follower(client, job_id), may_ask=showing.may_ask)


async def _retry(
    prefix: str, redis: str | None, data_dir: Path | None, showing: "Showing", deadline_s: float, *, follow: bool
) -> int:
    from dispatcher.cli.attend import see_through

    async with _job(prefix, redis, data_dir) as (client, job_id):
        ended = len(await client.entries(job_id))
        await client.retry(job_id, deadline_s)
        if follow:
            return await see_through(showing.follower(client, job_id, after=ended), may_ask=showing.may_ask)
    typer.echo(json.dumps({"job": job_id}) if showing.as_json else f"job {job_id} goes on")
    return 0
