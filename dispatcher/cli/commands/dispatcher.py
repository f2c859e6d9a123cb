"""``ekiden dispatcher``: a pool that routes new jobs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.options import LogLevel, Redis, Trust
from ekiden.shared.terminal_text import say

__all__ = ["dispatcher"]


def dispatcher(
    redis: Redis = None,
    agents_dir: Annotated[
        list[Path] | None, typer.Option("--agents-dir", metavar="DIR", help="A further folder of agent files.")
    ] = None,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Put the agent files in force, instead of what is. [only where nothing is]"),
    ] = False,
    project: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Another project whose agent files are read, as far as you trust it."),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=1, help="Jobs at a time. [50]")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, help="Offer metrics to Prometheus there. [not at all]")
    ] = None,
    log_level: LogLevel = "warning",
    trust: Trust = False,
) -> None:
    """Serve new jobs: route every request to its first agent, among those of the catalog in force.

    Its own agent files come into force where nothing is, or with --publish; see `ekiden catalog`.
    """
    from ekiden.shared.processes.children import watch_parent

    watch_parent()
    from ekiden.shared.addresses import without_password
    from ekiden.shared.trust_prompts import settle_trust

    settle_trust(trust, project)
    from ekiden.shared.relay.message import DISPATCH_QUEUE
    from ekiden.shared.relay.pool_process import serve
    from ekiden.shared.server import server_url
    from ekiden.shared.settings.model import load_settings

    url = server_url(load_settings(redis_url=redis))
    told = f"Serving new jobs at {without_password(url)}"
    folders = json.dumps([str(folder.absolute()) for folder in agents_dir]) if agents_dir else None
    options = {"redis_url": url, "agents_dir": folders, "concurrency": concurrency, "metrics_port": metrics_port}
    options["publish"] = publish or None
    options |= {"project": str(project.absolute())} if project else {}
    raise typer.Exit(serve("ekiden.dispatcher.app:app", options, [DISPATCH_QUEUE], log_level, lambda: say(told)))
