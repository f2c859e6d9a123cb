"""``ekiden catalog …``: put agents in force, see which are, and go back to those before."""

import asyncio
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ekiden.dispatcher.cli.agents.catalog_files import catalog_of_files
from ekiden.dispatcher.cli.commands.catalog_diff import diff
from ekiden.dispatcher.cli.connection import server_address
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Trust
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.catalog_changes import CatalogChange, publish_files, read_catalog, roll_back
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.catalogs import Publication
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.terminal_text import one_line, say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["app"]

app = typer.Typer(help="Put agents in force, see which are, go back to those before.", no_args_is_help=True)

app.command()(diff)

T = TypeVar("T")

_NONE = "none"
_SHORT = 12
Digest = Annotated[str | None, typer.Argument(metavar="[DIGEST]", help="A catalog's digest, or a beginning of it.")]


@app.command()
def publish(
    agents_dir: Annotated[
        list[Path] | None,
        typer.Option("--agents-dir", metavar="DIR", help="A further folder of agent files (may be repeated)."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Only if this catalog is in force, or `none`. [whichever is]"),
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Check the agent files that count here, and put them in force.

    Jobs that run keep the agents that they began with. With errors in any file, nothing is published.
    """
    settle_trust(trust)
    if expect is not None and expect != _NONE:
        _require_digest(expect, "--expect")
    catalog = catalog_of_files(agents_dir, "nothing was published")
    expected = "" if expect == _NONE else expect
    change = _asked(redis, data_dir, lambda stores: publish_files(stores.catalogs, catalog, expected))
    _tell(change, as_json=as_json)


@app.command()
def show(digest: Digest = None, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show the agents of the catalog in force, or of another one that is still stored."""
    if digest is not None:
        _require_digest(digest, "DIGEST")
    seen = _asked(redis, data_dir, lambda stores: read_catalog(stores.catalogs, digest))
    if as_json:
        say(json.dumps(seen.as_json(), ensure_ascii=False))
        return

    out = Output()
    state = "in force" if seen.is_in_force else "not in force"
    published = f", published {seen.publication.when_and_who}" if seen.publication else ""
    out.line(f"catalog {seen.digest[:_SHORT]}, {len(seen.agents)} agents, {state}{published}", "bold")
    rows = [[one.name, one.definition[:_SHORT], one.model or "inherit", one_line(one.title, 60)] for one in seen.agents]
    out.table(["AGENT", "DEFINITION", "MODEL", "TITLE"], rows)


@app.command()
def history(
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=20, help="How many: so many are kept.")] = 20,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the last publications, newest first; their catalogs are kept, to be rolled back to."""
    found = _asked(redis, data_dir, lambda stores: stores.catalogs.history(limit))
    if as_json:
        for publication in found:
            say(json.dumps(dataclasses.asdict(publication), ensure_ascii=False))
        return

    Output().table(["PUBLISHED", "CATALOG", "AGENTS", "REPLACED", "BY", "FROM"], list(map(_row, found)))


@app.command()
def rollback(digest: Digest = None, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Put the catalog in force again that the present one has replaced, or the one named.

    A dispatcher that restarts with --publish and the files of what was rolled back does not publish them again.
    """
    if digest is not None:
        _require_digest(digest, "DIGEST")
    _tell(_asked(redis, data_dir, lambda stores: roll_back(stores.catalogs, digest)), as_json=as_json)


def _asked(redis: str | None, data_dir: Path | None, ask: Callable[[Stores], Awaitable[T]]) -> T:
    """Return the answer of the configured server, or of the data folder's."""

    async def answer(url: str) -> T:
        stores = open_stores(url, retries=1, signing=load_settings().signing)
        try:
            await stores.ping()
            return await ask(stores)
        finally:
            await stores.close()

    with server_address(redis, data_dir) as url:
        return asyncio.run(answer(url))


def _require_digest(text: str, what: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{6,64}", text):
        raise InvalidRequest(f"{what} {text!r} is no digest: give at least its first 6 characters, of 0-9 and a-f")


def _tell(change: CatalogChange, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(change.as_json(), ensure_ascii=False))
        return

    out = Output()
    name, count = change.digest[:_SHORT], f"{change.agents} agents"
    if not change.is_new:
        out.line(f"Catalog {name} is in force already, {count}: nothing was changed")
        return
    out.line(f"{change.replaced[:_SHORT] or '(none)'} {out.symbols['arrow']} {name}: {change.differs}")
    for agent, tools in change.lost.items():
        out.line(f"{out.symbols['note']} agent {agent!r} loses {', '.join(tools)}", "yellow")
    out.line(f"{out.symbols['ok']} Catalog {name} is in force, {count}")


def _row(publication: Publication) -> list[Any]:
    return [
        local_time(publication.at_ms),
        publication.digest[:_SHORT],
        str(publication.agents),
        publication.replaced[:_SHORT] or "-",
        publication.by,
        publication.source,
    ]
