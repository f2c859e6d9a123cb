"""``ekiden adopt``: take over the data that an earlier version of Ekiden kept in a folder."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import configured
from ekiden.dispatcher.cli.options import DataDir
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.local.legacy_data import copy_data, legacy_data_in
from ekiden.dispatcher.local.locks import RunningCommands
from ekiden.dispatcher.local.unfinished import listed_jobs
from ekiden.shared.embedded import attach, peek
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.project_folders import private_folder
from ekiden.shared.stores.job_reader import Unfinished
from ekiden.shared.terminal_text import say

__all__ = ["adopt"]


def adopt(
    path: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder of the data. [.ekiden in this folder]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="They are yours, do not ask.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Copy the jobs that lie in a folder to where Ekiden keeps those of this project. Unfinished ones do not go on."""
    _, target = configured(None, data_dir)
    source = path or legacy_data_in(target)
    if source is None or not peek(source):
        raise InvalidRequest(f"there are no data in {str(path or Path.cwd())!r}: give the folder that holds them")
    _require_agreement(source, yes=yes)
    with RunningCommands(private_folder(target)) as running_commands:
        if not running_commands.is_alone:
            raise InvalidRequest(f"an Ekiden runs in {str(target)!r}: stop it first")
        copy_data(source, target)
        with attach(target) as server:
            left = asyncio.run(_unfinished(server.url))
    out = Output()
    out.line(f"{out.symbols['ok']} The jobs are in {target} now; {source} is not used and may be deleted")
    if left:
        out.line("Unfinished, and asked about before anything runs on:")
        for line in listed_jobs(left):
            out.line(line)


def _require_agreement(source: Path, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"nobody is there to be asked: give --yes if the data in {str(source)!r} are yours")
    say(
        f"{str(source)!r} holds journals of jobs: what agents were asked, said and did, and what they do next. "
        "Copied is what Ekiden keeps (jobs, sessions, the catalog of agents, queues), nothing else."
    )
    typer.confirm("Are they yours, and not from where you got this folder?", default=False, abort=True)


async def _unfinished(url: str) -> list[Unfinished]:
    async with client_of(url) as client:
        return await client.unfinished()
