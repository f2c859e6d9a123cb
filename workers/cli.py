"""``ekiden worker``: a pool that runs agents. The command line finds it by its entry point."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import note, say

__all__ = ["worker"]


def worker(
    agents: Annotated[str | None, typer.Option(metavar="A,B", help="The agents to serve. [all]")] = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=1, help="Legs at a time. [50]")] = None,
    workspace_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="File tools never leave it; doctor says what confines bash. [no such tools]"),
    ] = None,
    redis: Annotated[
        str | None, typer.Option(metavar="URL", help="The Redis or Valkey server to use. [$EKIDEN_REDIS_URL]")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, help="Offer metrics to Prometheus there. [not at all]")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="The least that is logged.")
    ] = "warning",
    trust: Annotated[
        bool, typer.Option("--trust", help="Let the folder's settings do what they ask for, this time.")
    ] = False,
) -> None:
    """Serve the queues of agents: run their legs, hand over to the next."""
    from ekiden.shared.processes.children import watch_parent

    watch_parent()
    import asyncio

    names = _names(agents)
    root = _folder(workspace_root)
    from ekiden.shared.addresses import without_password
    from ekiden.shared.trust_prompts import settle_trust

    settle_trust(trust)
    from ekiden.shared.relay.message import queue_for
    from ekiden.shared.relay.pool_process import serve
    from ekiden.shared.server import server_url
    from ekiden.shared.settings.model import load_settings
    from ekiden.shared.trust.notices import BASH

    url = server_url(load_settings(redis_url=redis))
    for name in asyncio.run(_unknown(url, names)):
        note(f"ekiden: no agent in the catalog is named {name!r}; its queue is served all the same")
    whom = ", ".join(names) if names else "all agents of the catalog"
    files = f"files under {root}; {BASH}" if root else "no files, no bash"
    told = f"Serving {whom} at {without_password(url)}, {files}"
    options = {"redis_url": url, "concurrency": concurrency, "workspace_root": root, "metrics_port": metrics_port}
    raise typer.Exit(
        serve("ekiden.workers.app:app", options, list(map(queue_for, names)), log_level, lambda: say(told))
    )


def _names(agents: str | None) -> list[str]:
    if agents is None:
        return []
    names = [name.strip() for name in agents.split(",") if name.strip()]
    if not names:
        raise InvalidRequest("--agents names nobody: give names as in --agents debugger,reviewer, or leave it out")
    return list(dict.fromkeys(names))


def _folder(root: Path | None) -> Path | None:
    if root is None or root.is_dir():
        return root and root.resolve()
    raise InvalidRequest(f"--workspace-root {str(root)!r} is no folder: give one that exists")


async def _unknown(url: str, names: Sequence[str]) -> list[str]:
    """Return the names that the catalog in force lacks; none while there is no catalog. Nobody there: an error."""
    from ekiden.shared.stores.opening import open_stores

    stores = open_stores(url, retries=1)
    try:
        await stores.ping()
        in_force = await stores.catalogs.in_force()
        return [name for name in names if name not in in_force.manifest] if in_force else []
    finally:
        await stores.close()
