"""``ekiden sessions state``: what a session knows by name, and what its newest job is about."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.shared.current_task import last_action_of, task_of
from ekiden.shared.errors import UnknownJob
from ekiden.shared.terminal_text import one_line, say

__all__ = ["state", "state_of"]


def state(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session's id, or a unique beginning of it.")],
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show a session's variables, and what its newest job is about."""
    found = asyncio.run(_read(session, redis, data_dir))
    if as_json:
        say(json.dumps(found, ensure_ascii=False))
        return

    out = Output()
    variables = found.pop("variables")
    shown = {name.replace("_", " "): value for name, value in found.items() if value}
    for name, value in shown.items():
        out.line(f"{name:<14} {one_line(value, 400)}", "dim")
    if not variables:
        out.line("no variables")
    for name, value in variables.items():
        out.line(f"{name} = {json.dumps(value, ensure_ascii=False)}")


async def state_of(client: Client, session: str) -> dict[str, Any]:
    """Return a session's variables, and the task fields of the job that runs, or else of its newest."""
    view = await client.session(session)
    task = dict.fromkeys(("job", *task_of("", "waiting", "", "")), "")
    newest = [f"{session}.{number}" for number in range(view.jobs, 0, -1)]  # a number may have been drawn in vain
    for job in [view.active, *newest] if view.active else newest:
        try:
            found = await client.job(job)
        except UnknownJob:
            continue
        done = last_action_of(entry.record for entry in reversed(await client.entries(job)))
        task = {"job": job, **task_of(found.summary, found.status, found.agent, done)}
        break
    return {"session": session, **task, "variables": await client.state(session)}


async def _read(prefix: str, redis: str | None, data_dir: Path | None) -> dict[str, Any]:
    async with connected(redis, data_dir) as client:
        return await state_of(client, await client.resolve_session(prefix))
