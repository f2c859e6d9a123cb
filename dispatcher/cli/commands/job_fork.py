"""``ekiden job fork``: a new job behind the steps of another one."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.agents.catalog_files import catalog_in
from ekiden.dispatcher.cli.connection import configured, connected, job_named, tell_if_unserved
from ekiden.dispatcher.cli.options import Approve, AsJson, DataDir, Deadline, NonInteractive, Redis, Trust
from ekiden.dispatcher.cli.running.fork_request import ForkRequest, told
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.remote import submit_and_follow
from ekiden.dispatcher.cli.running.request import Workspace, deadline_of, user_name
from ekiden.dispatcher.cli.running.submission import SessionChoice
from ekiden.dispatcher.cli.running.variables import variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.forking.client_part import ForkedJob
from ekiden.dispatcher.local.locks import is_command_running, root_of_up
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.shared.errors import InvalidRequest, NotConfirmed
from ekiden.shared.terminal_text import say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["fork"]

_STATE = "state."


def fork(
    job: Annotated[str, typer.Argument(metavar="ID", help="The job's id, or a beginning of it that no other job has.")],
    at: Annotated[
        int | None, typer.Option("--at", metavar="SEQ", min=1, help="Behind which step. [the steps are listed]")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What you say: instead of a request that is not routed yet, else besides."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="state.NAME=VALUE", help="A session variable; JSON, or else text; repeatable."),
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who goes on, instead of who had it.")] = None,
    catalog: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the agent files of this folder, for this job alone.")
    ] = None,
    approve: Approve = None,
    non_interactive: NonInteractive = None,
    deadline: Deadline = None,
    request_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The same id again is the same job: to repeat a lost fork.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show the job as it goes on, until it ends; run it here if nobody does.")
    ] = False,
    unfinished: Annotated[
        UnfinishedChoice | None, typer.Option(help="With --follow: what becomes of jobs that were left unfinished.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Begin a new job behind a step of another one; without --at, list where that can be.

    What stands before is neither asked nor done again. Files are not rewound: they are as they are now.
    """
    changes: dict[str, object] = {
        "--prompt": prompt,
        "--set": sets,
        "--agent": agent,
        "--catalog": catalog,
        "--approve": approve,
    }
    changes |= {"--deadline": deadline, "--request-id": request_id, "--follow": follow or None}
    changes["--unfinished"] = unfinished
    if at is None:
        if given := [name for name, value in changes.items() if value is not None]:
            raise InvalidRequest(f"{given[0]} is for a fork: name its step by --at; `ekiden job fork {job}` lists them")
        asyncio.run(_list(job, redis, data_dir, as_json=as_json))
        return
    if prompt is not None and not prompt.strip():
        raise InvalidRequest("--prompt is empty: say something, or leave it out")
    if unfinished is not None and not follow:
        raise InvalidRequest("--unfinished is for --follow: without it, nothing runs here")
    settle_trust(trust)
    preapproval = Preapproval.of(approve, non_interactive)
    how: dict[str, Any] = {
        "prompt": prompt or "",
        "state": variables_of(list(map(_variable, sets or ()))),
        "agent": agent,
        "catalog": catalog_in(catalog, "the job was not forked") if catalog is not None else None,
        "approve": preapproval.risks,
        "when_asked": preapproval.when_asked if non_interactive else None,
        "deadline_s": deadline_of(deadline),
        "request_id": request_id,
    }
    url, data = configured(redis, data_dir)
    display = DisplayOptions(as_json, asks_people=non_interactive is None, leaves=True, is_local=url is None)
    place, origin = asyncio.run(_origin(job, redis, data_dir))
    asked = ForkRequest("", SessionChoice(user_name(None)), agent, after=at, origin=origin, how=how)
    if not follow:
        asyncio.run(_begin(asked, url, data, as_json=as_json))
        return
    if url is not None:
        raise typer.Exit(asyncio.run(_follow(asked, url, data_dir, display)))
    from ekiden.dispatcher.cli.running.embedded import run_here  # what runs pools: other commands do without

    if not place.folder.is_dir():
        raise InvalidRequest(
            f"{str(place.folder)!r} is no folder any more: job {origin} works there, and so would its fork"
        )
    raise typer.Exit(run_here(asked, place, data, display, unfinished=unfinished))


async def _origin(prefix: str, redis: str | None, data_dir: Path | None) -> tuple[Workspace, str]:
    """Return the whole id of the job, and the folder that it works in; the current one where it has none."""
    async with connected(redis, data_dir) as client:
        job = await job_named(client, prefix)
        folder = Path((await client.job(job)).cwd or Path.cwd())
    return Workspace(folder, folder), job


def _variable(pair: str) -> str:
    """Return ``NAME=VALUE`` of ``state.NAME=VALUE``."""
    if not pair.startswith(_STATE):
        raise InvalidRequest(f"--set {pair!r}: session variables can be set, as in --set {_STATE}ticket=4711")
    return pair.removeprefix(_STATE)


async def _list(prefix: str, redis: str | None, data_dir: Path | None, *, as_json: bool) -> None:
    async with connected(redis, data_dir) as client:
        points = await client.fork_points(await job_named(client, prefix))
    if as_json:
        for point in points:
            say(json.dumps(asdict(point), ensure_ascii=False))
        return
    Output().table(("SEQ", "ANSWERS REUSED", "NEXT"), [(str(one.seq), str(one.replies), one.what) for one in points])


async def _begin(asked: ForkRequest, redis: str | None, data: Path, *, as_json: bool) -> None:
    async with connected(redis, data) as client:
        if redis is None:
            await _require_served(client, data)
        try:
            forked = await asked.fork(client)
        except NotConfirmed as error:
            if as_json:
                say(json.dumps({"job": error.job, "confirmed": False, "request_id": error.request_id}))
            raise
        await tell_if_unserved(client, redis, data)
    say(json.dumps(_fields(forked)) if as_json else told(forked))


async def _require_served(client: Client, data: Path) -> None:
    """Raise ``InvalidRequest`` where nobody goes on with a fork on the embedded server, or not for long."""
    if root_of_up(data) is None and (is_command_running(data) or not await client.pools()):
        raise InvalidRequest(
            "nobody goes on with a fork here: the pools of `ekiden run` end with its own job. Add --follow, and this "
            "command runs the fork to its end, or start `ekiden up`"
        )


async def _follow(asked: ForkRequest, redis: str, data_dir: Path | None, display: DisplayOptions) -> int:
    async with connected(redis, data_dir) as client:
        return await submit_and_follow(client, asked, display)


def _fields(forked: ForkedJob) -> dict[str, Any]:
    about = {"job": forked.job, "origin": forked.origin, "seq": forked.point.seq, "replies": forked.point.replies}
    return {**about, "new": forked.is_new, "cwd": forked.cwd, "commit": forked.commit}
