"""``ekiden job rerun``: the job again with the model unplugged, and where it differs."""

import asyncio
import json
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.commands.catalog_diff import job_with, show_changes
from ekiden.dispatcher.cli.connection import connected, job_named
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Trust
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.journal.catalog_replay import CatalogReplay
from ekiden.dispatcher.journal.differences import PROMPT, Difference
from ekiden.dispatcher.local.rerun import Rerun, rerun
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.terminal_text import one_line, say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["rerun_job"]

_LINES = 20
"""Of the prompt that differs."""
_SHOWN = 300
"""Characters of a step."""
_BEFORE = 60
"""How many of them are the same in both."""


def rerun_job(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The job's id, or a beginning of it that no other job has. [the newest job]"
        ),
    ] = None,
    since: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", min=1, help="Compare from this step of its journal on.")
    ] = None,
    catalog: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run nothing: say what the agent files of this folder would decide otherwise, as `catalog diff` does.",
        ),
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Run a job again with the model unplugged, from what it recorded, and say where it goes another way.

    No model is asked and no tool runs; the job itself stays as it is. Exit codes: 0 it goes the same way, 1 it does
    not, 2 it cannot be run again; with --catalog, 1 where something would be decided otherwise.
    """
    if catalog is not None:
        if since is not None:
            raise InvalidRequest("--from compares steps of a job that runs again, and with --catalog none does")
        settle_trust(trust)
        changes = asyncio.run(_otherwise(job, catalog, redis, data_dir))
        show_changes(changes, as_json=as_json)
        raise typer.Exit(1 if changes.found else 0)
    found = asyncio.run(_again(job, since or 1, redis, data_dir))
    if as_json:
        say(json.dumps(redact_all(found.as_json()), ensure_ascii=False))
    else:
        _show(found)
    raise typer.Exit(1 if found.difference else 0)


async def _again(prefix: str | None, since: int, redis: str | None, data_dir: Path | None) -> Rerun:
    async with connected(redis, data_dir) as client:
        return await rerun(client, await job_named(client, prefix), since)


async def _otherwise(prefix: str | None, folder: Path, redis: str | None, data_dir: Path | None) -> CatalogReplay:
    async with connected(redis, data_dir) as client:
        return await job_with(client, await job_named(client, prefix), folder)


def _show(found: Rerun) -> None:
    out = Output()
    jobs = f" of {found.jobs} jobs" if found.jobs > 1 else ""
    for text in found.notes:
        out.line(f"{out.symbols['note']} {text}")
    if found.difference is None:
        out.line(f"{out.symbols['ok']} job {found.job} goes the same way again: {found.steps} steps{jobs}")
        return
    _show_difference(out, found.difference)


def _show_difference(out: Output, difference: Difference) -> None:
    step = difference.step
    who = f"{step.agent}, " if step.agent else ""
    out.line(f"{out.symbols['failed']} job {difference.job}, step {step.seq} ({who}{step.about}): {difference.what}")
    out.fields((f"   {name}", "the same" if same else "differs") for name, same in difference.digests.items())
    if difference.what == PROMPT:
        for line in difference.prompt_lines[:_LINES]:
            out.line(f"   {redact(line)}", hang=5)
        return
    was, now = ("" if one is None else redact(one.told) for one in (difference.was, difference.now))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False)))
    for name, one, told in (("was", difference.was, was), ("now", difference.now, now)):
        shown = "nothing" if one is None else f"{one.kind} {_from(told, same, out.symbols['dots'])}"
        out.line(f"   {name} {shown}", hang=7)


def _from(told: str, same: int, dots: str) -> str:
    """Return a step from shortly before the place on where it differs, on one line."""
    begin = max(0, same - _BEFORE)
    return one_line((dots if begin else "") + told[begin:], _SHOWN, dots)
