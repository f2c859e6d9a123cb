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
from ekiden.dispatcher.cli.terminal.output import Output, fitted
from ekiden.dispatcher.cli.views.status import StatusSnapshot, read_status, show_status, status_json
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.terminal_text import say

__all__ = ["block_of", "watch_status"]


async def watch_status(redis: str | None, data_dir: Path | None, interval_s: float, *, as_json: bool) -> None:
    """Show what there is every ``interval_s`` until somebody interrupts it; a server that is away is waited for."""
    async with connected(redis, data_dir) as client:
        with _screen(as_json=as_json) as show:
            while True:
                began = time.monotonic()
                show(await _look(client))
                await asyncio.sleep(max(0.0, interval_s - (time.monotonic() - began)))


async def _look(client: Client) -> StatusSnapshot | StoreUnavailable:
    try:
        return await read_status(client)
    except StoreUnavailable as error:
        return error


@contextlib.contextmanager
def _screen(*, as_json: bool) -> Iterator[Callable[[StatusSnapshot | StoreUnavailable], None]]:
    """Yield what shows a look: in place of the one before on a terminal, behind it elsewhere."""
    out = Output()
    if as_json:
        yield lambda found: say(_json_of(found))
    elif not out.is_terminal:
        yield lambda found: say(block_of(found))
    else:
        with Live(auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda found: live.update(_fitted(found, out), refresh=True)


def _fitted(found: StatusSnapshot | StoreUnavailable, out: Output) -> Text:
    """Return the block for the terminal as it is now: it may have been made smaller."""
    block = block_of(found, out.width(0), out.height - 1, out.symbols["dots"])
    return Text(block, no_wrap=True, overflow="ellipsis")


def _json_of(found: StatusSnapshot | StoreUnavailable) -> str:
    return status_json(found) if isinstance(found, StatusSnapshot) else f'{{"error": "{type(found).__name__}"}}'


def block_of(found: StatusSnapshot | StoreUnavailable, columns: int = 0, rows: int = 0, dots: str = "...") -> str:
    """Return what is shown of a look: as many ``rows`` as there are, the last of which says how many more it takes."""
    text = io.StringIO()
    out = Output(text, columns)
    out.line(time.strftime("%H:%M:%S"))
    if isinstance(found, StatusSnapshot):
        show_status(out, found)
    else:
        out.line(f"the server does not answer: {found}")
    lines = text.getvalue().rstrip().split("\n")
    if 0 < rows < len(lines):
        lines[rows - 1 :] = [fitted(f"{dots} {len(lines) - rows + 1} more lines (`ekiden status`)", columns, dots)]
    return "\n".join(lines)
