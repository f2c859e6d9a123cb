"""``ekiden catalog diff``: what edited agent files would decide otherwise about the last jobs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.agents.catalog_files import catalog_in, catalog_of_files
from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Trust, seconds_of
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.catalog_replay import CatalogReplay, Comparison, compared
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.redaction import redact
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import one_line, say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["diff", "job_with", "show_changes"]

_KINDS = {"route": "routed", "handoff": "handed over", "tool": "permitted", "limit": "limited"}


def diff(
    catalog: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With the agent files of this folder before all others.")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 12h, 30d, 4w.")] = "7d",
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="The newest jobs at most.")] = 200,
    trust: Trust = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Say which of the last jobs the agent files of here would route, hand over, permit or limit otherwise.

    Costs nothing: no model is asked, nothing is published. What a model would say to another prompt is not guessed.
    """
    settle_trust(trust)
    otherwise = "nothing was compared"
    files = catalog_in(catalog, otherwise) if catalog is not None else catalog_of_files(None, otherwise)
    found = asyncio.run(_compared(files, seconds_of(since), limit, redis, data_dir))
    show_changes(found, as_json=as_json)


async def job_with(client: Client, job: str, folder: Path) -> CatalogReplay:
    """Return what the agent files of a folder, before all others, would decide otherwise about one job."""
    files = await asyncio.to_thread(catalog_in, folder, "nothing was compared")
    settings, found = load_settings(), CatalogReplay()
    found.add(await Comparison(client, files, settings, operators_policy(settings)).changes(job))
    return found


def show_changes(found: CatalogReplay, *, as_json: bool) -> None:
    """Show what came out."""
    if as_json:
        say(json.dumps(found.as_json(), ensure_ascii=False))
        return
    out = Output()
    if rows := list(_rows(found)):
        out.table(("JOB", "STEP", "AGENT", "WAS", "WOULD BE", "WHY"), rows)
        out.line()
    for line in _summary(found):
        out.line(line)


async def _compared(
    files: Catalog, since_s: float, limit: int, redis: str | None, data_dir: Path | None
) -> CatalogReplay:
    settings = load_settings()
    async with connected(redis, data_dir) as client:
        comparison = Comparison(client, files, settings, operators_policy(settings))
        return await compared(comparison, client, since_s=since_s, limit=limit)


def _rows(found: CatalogReplay) -> Iterator[tuple[str, ...]]:
    for one in found.found:
        for change in one.changes:
            times = f" ({change.count} times)" if change.count > 1 else ""
            said = (change.was + times, change.would_be, change.why)
            yield change.job, str(change.seq), change.agent, *(one_line(redact(text), 100) for text in said)


def _summary(found: CatalogReplay) -> Iterator[str]:
    kinds = ", ".join(f"{count} {_KINDS[kind]}" for kind, count in sorted(found.by_kind.items()))
    cut = " (the newest; --limit reads more)" if found.is_cut else ""
    yield f"{len(found.found)} of {_jobs(found.jobs)}{cut} would be decided otherwise{f': {kinds}' if kinds else ''}"
    yield (
        f"{found.replies} answer{'s' * (found.replies != 1)} of models taken as they were; of {found.other_prompts} "
        "the prompt differs: what would be said to that is not known"
    )
    if found.unknown:
        yield f"{_jobs(found.unknown)}: the agents of then are not stored any more; compared is what happened"
    if found.unread:
        yield f"{_jobs(found.unread)}: what the journal says cannot be read"


def _jobs(count: int) -> str:
    return f"{count} job{'s' * (count != 1)}"
