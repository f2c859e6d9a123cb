"""``ekiden job …``: one job, seen from every side. Ids may be cut short where they are unique."""

import asyncio  # 30 ms that `ekiden --help` does without
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ekiden.dispatcher.cli.commands.job_fork import fork
from ekiden.dispatcher.cli.commands.job_rerun import rerun_job
from ekiden.dispatcher.cli.commands.job_retry import retry
from ekiden.dispatcher.cli.connection import configured, connected, job_named
from ekiden.dispatcher.cli.exit_codes import exit_code_of
from ekiden.dispatcher.cli.options import AsJson, DataDir, Outage, Redis, Tail, Thoughts, Verbose
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.approvals import approval_row
from ekiden.dispatcher.cli.views.chain import chain_json, show_chain
from ekiden.dispatcher.cli.views.jobs import fields_of, rows_of, work_json, work_rows
from ekiden.dispatcher.cli.views.json_lines import event_schema
from ekiden.dispatcher.cli.views.mermaid import flowchart
from ekiden.dispatcher.cli.views.select import view_for
from ekiden.dispatcher.cli.views.story_view import read_story
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.actors import Actors
from ekiden.dispatcher.journal.call_states import CallStates
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.tree import in_order
from ekiden.dispatcher.unknown_calls import UnknownCall
from ekiden.shared.approvals import ApprovalView, approval_json
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.messages import Artifact
from ekiden.shared.records import Entry, Record, ToolFinished
from ekiden.shared.stores.views import JobView
from ekiden.shared.terminal_text import note, say, say_json

__all__ = ["app"]

app = typer.Typer(help="Look at one job, cancel it, let it go on, or fork it.", no_args_is_help=True)

app.command()(fork)

Id = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="The job's id, or a beginning of it that no other job has. [the newest job]"),
]
Named = Annotated[str, typer.Argument(metavar="ID", help="The job's id, or a beginning of it that no other job has.")]
T = TypeVar("T")


@app.command()
def show(job: Id = None, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show how a job stands."""

    async def views() -> tuple[JobView, list[JobView], list[Record], list[ApprovalView], Sequence[UnknownCall]]:
        async with _job(job, redis, data_dir) as (client, job_id):
            records = [entry.record for entry in await client.entries(job_id)]
            asked = await client.approvals(job=job_id, waiting=False)
            unknown = await client.unknown_calls(job_id)
            return await client.job(job_id), await client.children(job_id), records, asked, unknown

    view, children, records, asked, unknown = _run(views())
    calls, actors = CallStates(records).last_turn, Actors()
    for record in records:
        actors.note(record)
    if as_json:
        nodes = {job: actor.node for job, actor in actors.below.items()}
        below = [
            {"id": one.id, "agent": one.agent, "node": nodes.get(one.id, ""), "status": one.status} for one in children
        ]
        made = [{"id": one.call.id, "name": one.call.name, "state": one.state} for one in calls]
        approvals = [json.loads(approval_json(one)) for one in asked]
        found = {
            **fields_of(view),
            "node": actors.of(view.leg).node,
            "children": below,
            "calls": made,
            "unknown_calls": [
                {"id": one.id, "name": one.call.name, "node": one.node, "remedy": one.remedy} for one in unknown
            ],
            "approvals": approvals,
            **work_json(records),
        }
        say(json.dumps(found, ensure_ascii=False))
        return

    rows = [*rows_of(view, children, calls, actors), *work_rows(records), *map(approval_row, asked)]
    Output().fields([*rows, *(("outcome unknown", f"{one.name}: {one.remedy}") for one in unknown)])


@app.command()
def artifacts(
    job: Id = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Write this one to standard output.")] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the files that a job's tools made, or write one of them out."""

    async def read() -> tuple[list[Artifact], str | bytes | None]:
        async with _job(job, redis, data_dir) as (client, job_id):
            found = _artifacts_in(await client.entries(job_id))
            wanted = [one for one in found if one.name == name]
            return found, await client.artifact(job_id, wanted[-1].ref) if wanted else None

    found, content = _run(read())
    if name is None:
        if as_json:
            for one in found:
                say_json(one.model_dump(mode="json"))
        else:
            Output().table(("SIZE", "TYPE", "NAME"), [(f"{one.size:,}", one.mime, one.name) for one in found])
    elif content is None:
        raise InvalidRequest(f"job has no artifact {name!r}: it has {', '.join(one.name for one in found) or 'none'}")
    else:
        _write_out(content)


@app.command()
def result(job: Id = None, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Print the answer; the exit code says how the job ended."""

    async def view() -> dict[str, object]:
        async with _job(job, redis, data_dir) as (client, job_id):
            found = await client.job(job_id)
            end = await client.end_of(found)
        if not found.is_over:
            raise InvalidRequest(
                f"job {found.id} has not ended ({found.status}): `ekiden job follow {found.id}` shows it"
            )
        return {**asdict(found), "output": end.output if end else None}

    found = _run(view())
    status, reason = str(found["status"]), str(found["reason"])
    if as_json:
        say(
            json.dumps(
                {name: found[name] for name in ("id", "status", "reason", "result", "output")}, ensure_ascii=False
            )
        )
    elif status in ("done", "unfinished"):
        Output().line(str(found["result"] or ""))
        if status == "unfinished":
            note(f"ekiden: job {found['id']} unfinished: this says why")
    else:
        note(f"ekiden: job {found['id']} {status} ({reason}): {found['result'] or ''}")
    raise typer.Exit(exit_code_of(status, reason))


@app.command()
def events(
    job: Id = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job ends; see `job follow`.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a line of --json.")] = False,
    tail: Tail = None,
    thoughts: Thoughts = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show everything that happened in a job, and in those that it delegated."""
    if schema:
        say(json.dumps(event_schema(), indent=2))
        return

    display = DisplayOptions(as_json, thoughts, tail, timeout, verbose=True)
    raise typer.Exit(_run((_follow if follow else _show)(job, redis, data_dir, display)))


@app.command()
def follow(
    job: Id = None,
    tail: Tail = None,
    thoughts: Thoughts = False,
    verbose: Verbose = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show a job from its start, live, until it ends; Ctrl-C asks whether to cancel it."""
    display = DisplayOptions(as_json, thoughts, tail, timeout, verbose=verbose)
    raise typer.Exit(_run(_follow(job, redis, data_dir, display)))


app.command()(retry)


@app.command()
def chain(
    job: Id = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart that Mermaid draws.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show who had a job and why, what each agent took, whom it was refused and whom it called."""

    async def read() -> Story:
        async with _job(job, redis, data_dir) as (client, job_id):
            return read_story(job_id, await client.journals(job_id), await client.now_ms())

    if mermaid and as_json:
        raise InvalidRequest("--mermaid and --json exclude each other: leave one out")
    story = _run(read())
    if as_json:
        say(json.dumps(chain_json(story), ensure_ascii=False))
    elif mermaid:
        say(flowchart(story))
    else:
        show_chain(story)


app.command("rerun")(rerun_job)


@app.command()
def cancel(job: Named, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Cancel a job: at once, or as soon as the worker that runs it sees it."""

    async def cancelled() -> str:
        async with _job(job, redis, data_dir) as (client, job_id):
            below = sum(not child.is_over for child in await client.children(job_id))
            verdict = await client.cancel(job_id)
        texts = {"ok": "is cancelled", "flagged": "is being cancelled by its worker", "finished": "had ended before"}
        also = f"; its {below} child job{'s end' if below > 1 else ' ends'} with it" if below else ""
        return f"job {job_id} {texts[verdict]}{also if verdict != 'finished' else ''}"

    Output().line(_run(cancelled()))


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def _job(prefix: str | None, redis: str | None, data_dir: Path | None) -> AsyncIterator[tuple[Client, str]]:
    """Yield a client and the whole id."""
    async with connected(redis, data_dir) as client:
        yield client, await job_named(client, prefix)


def _write_out(content: str | bytes) -> None:
    """Write a file's content as it is; to a terminal only what cannot steer it."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(content.encode() if isinstance(content, str) else content)
    elif isinstance(content, str):
        say(content)
    else:
        raise InvalidRequest("it is no text: write it to a file, as in `ekiden job artifacts JOB NAME > FILE`")


def _artifacts_in(entries: list[Entry]) -> list[Artifact]:
    finished = [entry.record.result for entry in entries if isinstance(entry.record, ToolFinished)]
    return [one for result in finished for one in result.artifacts]


async def _show(prefix: str | None, redis: str | None, data_dir: Path | None, display: DisplayOptions) -> int:
    async with _job(prefix, redis, data_dir) as (client, job_id):
        view = view_for(job_id, as_json=display.as_json, thoughts=display.thoughts, verbose=display.verbose)
        show_job_tree(job_id, in_order(await client.journals(job_id)), view, display.tail)
    return 0


async def _follow(prefix: str | None, redis: str | None, data_dir: Path | None, display: DisplayOptions) -> int:
    display = replace(display, is_local=configured(redis, data_dir)[0] is None)
    async with _job(prefix, redis, data_dir) as (client, job_id):
        return await watch_to_end(display.follower(client, job_id), display)
