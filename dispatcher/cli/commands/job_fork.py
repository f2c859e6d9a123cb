"""``ekiden job fork``: a new job behind the steps of another one."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.agents.catalog_files import catalog_in
from ekiden.dispatcher.cli.connection import configured, connected, job_named
from ekiden.dispatcher.cli.options import Approve, AsJson, DataDir, Deadline, NonInteractive, Redis, Trust
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.request import deadline_of
from ekiden.dispatcher.cli.running.variables import variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.forking.client_part import ForkedJob
from ekiden.shared.errors import InvalidRequest, NotConfirmed
from ekiden.shared.terminal_text import note, say
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
    follow: Annotated[bool, typer.Option("--follow", help="Show the job as it goes on, until it ends.")] = False,
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
    if at is None:
        if given := [name for name, value in changes.items() if value is not None]:
            raise InvalidRequest(f"{given[0]} is for a fork: name its step by --at; `ekiden job fork {job}` lists them")
        asyncio.run(_list(job, redis, data_dir, as_json=as_json))
        return
    if prompt is not None and not prompt.strip():
        raise InvalidRequest("--prompt is empty: say something, or leave it out")
    settle_trust(trust)
    preapproval = Preapproval.of(approve, non_interactive)
    asked: dict[str, Any] = {
        "prompt": prompt or "",
        "state": variables_of(list(map(_variable, sets or ()))),
        "agent": agent,
        "catalog": catalog_in(catalog, "the job was not forked") if catalog is not None else None,
        "approve": preapproval.risks,
        "when_asked": preapproval.when_asked if non_interactive else None,
        "deadline_s": deadline_of(deadline),
        "request_id": request_id,
    }
    display = DisplayOptions(
        as_json,
        asks_people=non_interactive is None,
        leaves=True,
        is_local=configured(redis, data_dir)[0] is None,
    )
    raise typer.Exit(asyncio.run(_fork(job, at, asked, display, redis, data_dir, follow=follow)))


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


async def _fork(
    prefix: str,
    at: int,
    asked: dict[str, Any],
    display: DisplayOptions,
    redis: str | None,
    data_dir: Path | None,
    *,
    follow: bool,
) -> int:
    async with connected(redis, data_dir, may_start=False) as client:
        job = await job_named(client, prefix)
        try:
            forked = await client.fork(job, at, **asked)
        except NotConfirmed as error:
            if display.as_json:
                say(json.dumps({"job": error.job, "confirmed": False, "request_id": error.request_id}))
            raise
        if forked.has_same_agents:
            note("--catalog changes nothing: the agent files that count here are those that the job has already")
        if follow:
            note(_told(forked))
            return await watch_to_end(display.follower(client, forked.job, after=forked.point.seq), display)
    say(json.dumps(_fields(forked)) if display.as_json else _told(forked))
    return 0


def _told(forked: ForkedJob) -> str:
    """Say what there is now, and what is not rewound."""
    count = forked.point.replies
    reused = f"{count} answer{'s' * (count != 1)} of models reused"
    state = f"commit {forked.commit[:12]} is checked out there" if forked.commit else "no commit is known"
    where = f"the files in {forked.cwd} stay" if forked.cwd else "files stay"
    begun = "forked from" if forked.is_new else "was forked before, by the same request id, from"
    which = f"job {forked.job} {begun} {forked.origin} at {forked.point.seq}"
    return f"{which}: {reused}; {where} as they are now ({state})"


def _fields(forked: ForkedJob) -> dict[str, Any]:
    about = {"job": forked.job, "origin": forked.origin, "seq": forked.point.seq, "replies": forked.point.replies}
    return {**about, "new": forked.is_new, "cwd": forked.cwd, "commit": forked.commit}
