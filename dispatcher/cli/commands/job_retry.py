"""``ekiden job retry``: a job that failed goes on, with what a person says of calls that nobody knows of."""

import asyncio  # 30 ms that `ekiden --help` does without
import json
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import configured, connected, job_named, tell_if_unserved
from ekiden.dispatcher.cli.options import AsJson, DataDir, Deadline, Redis
from ekiden.dispatcher.cli.running.request import deadline_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.unknown_calls import UnknownCall
from ekiden.shared.errors import InvalidRequest, NotConfirmed
from ekiden.shared.terminal_text import note, say

__all__ = ["retry"]

_SAID = re.compile(r"(.+?)=(?:done(?::(.*))?|(undone))", re.DOTALL)


def retry(
    job: Annotated[str, typer.Argument(metavar="ID", help="The job's id, or a beginning of it that no other job has.")],
    call: Annotated[
        list[str] | None,
        typer.Option(
            "--call",
            metavar="CALL=done[:TEXT]|undone",
            help="Of a call of which nobody knows whether it was done (`job show` lists them): it was, and gave TEXT; "
            "or it was not, and runs again. May be repeated.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show the job as it goes on, until it ends.")] = False,
    deadline: Deadline = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Let a job that failed or died go on behind the last step that it recorded."""
    done, undone = _said_of(call or ())
    is_local = configured(redis, data_dir)[0] is None
    display = DisplayOptions(as_json, leaves=True, is_local=is_local)

    async def retried() -> int:
        async with connected(redis, data_dir) as client:
            job_id = await job_named(client, job)
            ended = len(await client.entries(job_id))
            unknown = await client.unknown_calls(job_id)
            await _confirmed(client, job_id, deadline_of(deadline), done, undone, as_json=as_json)
            _tell_unsaid([one for one in unknown if not {one.id, one.call.id, one.node} & {*done, *undone}])
            if follow:
                return await watch_to_end(display.follower(client, job_id, after=ended), display)
            await tell_if_unserved(client, redis, data_dir)
        say(json.dumps({"job": job_id}) if as_json else f"job {job_id} goes on")
        return 0

    raise typer.Exit(asyncio.run(retried()))


def _said_of(given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return what calls gave that were done, and those that were not. Raises ``InvalidRequest``."""
    done, undone = dict[str, str](), list[str]()
    for text in given:
        if (found := _SAID.fullmatch(text)) is None:
            raise InvalidRequest(f"--call {text!r}: give CALL=done, CALL=done:TEXT or CALL=undone")
        name, gave, not_done = found.groups()
        if name in done or name in undone:
            raise InvalidRequest(f"--call names {name!r} twice: it was done, or it was not")
        if not_done:
            undone.append(name)
        else:
            done[name] = gave or ""
    return done, undone


async def _confirmed(
    client: Client, job: str, deadline_s: float, done: dict[str, str], undone: list[str], *, as_json: bool
) -> None:
    try:
        await client.retry(job, deadline_s, done=done, undone=undone)
    except NotConfirmed:
        if as_json:
            say(json.dumps({"job": job, "confirmed": False}))
        raise


def _tell_unsaid(unknown: Sequence[UnknownCall]) -> None:
    for one in unknown:
        note(f"ekiden: nobody knows whether {one.name} was done ({one.id}), and nobody has said it (--call)")
