"""``ekiden up``: server, dispatcher and worker in the foreground, for development."""

import asyncio
import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import configured
from ekiden.dispatcher.cli.options import DataDir, Trust
from ekiden.dispatcher.cli.running.happenings import Happenings
from ekiden.dispatcher.cli.running.request import existing_folder, settle_folders
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.local.legacy_data import name_legacy_data
from ekiden.dispatcher.local.locks import RunningCommands, UpLock
from ekiden.dispatcher.local.stack import Stack
from ekiden.dispatcher.local.supervisor import Supervisor
from ekiden.dispatcher.local.unfinished import UnfinishedChoice, settle_unfinished
from ekiden.shared.embedded import attach
from ekiden.shared.server import require_no_waiting
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import say
from ekiden.shared.trust.notices import BASH

__all__ = ["up"]


def up(
    workspace_root: Annotated[
        Path,
        typer.Option(
            "--workspace-root",
            "--cwd",
            metavar="DIR",
            help="File tools never leave this folder; doctor says what confines bash.",
        ),
    ] = Path(),
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Legs at a time in the worker. [50]")
    ] = None,
    unfinished: Annotated[
        UnfinishedChoice | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    trust: Trust = False,
    data_dir: DataDir = None,
) -> None:
    """Run the embedded server, a dispatcher and a worker until Ctrl-C."""
    root = existing_folder(workspace_root, "--workspace-root")
    settle_folders(trust)
    require_no_waiting(load_settings())
    _, data = configured(None, data_dir)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with attach(data) as server, RunningCommands(data) as running_commands:
        name_legacy_data(data)
        settle_unfinished(server, running_commands, unfinished, is_elsewhere=True)
        running_commands.join()
        with UpLock(data, root):
            say(f"export EKIDEN_REDIS_URL={shlex.quote(server.url)}")
            say(f"Serving {root}; logs are in {data}; Ctrl-C stops everything\nFile tools stay there; {BASH}")
            with Stack(server.url, data, root, concurrency) as stack:
                try:
                    asyncio.run(Supervisor(stack, lambda client: Happenings(client, Output()).run()).run())
                except KeyboardInterrupt:
                    say("stopping")
