"""``ekiden status --watch``: the same look again and again; on a terminal in place, elsewhere block after block."""

import asyncio
import contextlib
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.live import Live
from rich.text import Text

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.status import read_status, show_status, status_json
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.terminal_text import say

__all__ = ["watch_status"]


async def watch_status(redis: str | None, data_dir: Path | None, interval_s: float, *, as_json: bool) -> None:
    """Show what there is every ``interval_s`` until somebody interrupts it; a server that is away is waited for."""
    async with connected(redis, data_dir) as client:
        with _screen(as_json=as_json) as show:
            while True:
                began = time.monotonic()
                show(await _look(client, as_json=as_json))
                await asyncio.sleep(max(0.0, interval_s - (time.monotonic() - began)))


async def _look(client: Client, *, as_json: bool) -> str:
    try:
        found = await read_status(client)
    except StoreUnavailable as error:
        return f'{{"error": "{type(error).__name__}"}}' if as_json else f"the server does not answer: {error}"
    if as_json:
        return status_json(found)
    text = io.StringIO()
    show_status(Output(text), found)
    return f"{time.strftime('%H:%M:%S')}\n{text.getvalue()}"


@contextlib.contextmanager
def _screen(*, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows a block: in place of the one before on a terminal, behind it elsewhere."""
    if as_json or not Output().is_terminal:
        yield say
        return

    with Live(auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda text: live.update(Text(text.rstrip(), no_wrap=True, overflow="ellipsis"), refresh=True)
