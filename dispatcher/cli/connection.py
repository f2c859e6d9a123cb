"""Which server a command talks to."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import StoreUnavailable

if TYPE_CHECKING:
    from dispatcher.client import Client

__all__ = ["connected", "server_address"]


@asynccontextmanager
async def connected(redis: str | None, data_dir: Path, *, may_start: bool = True) -> "AsyncIterator[Client]":
    """Yield a client of the configured server, else of the data folder's; see ``server_address``."""
    from dispatcher.client import Client

    with server_address(redis, data_dir, may_start=may_start) as url:
        async with Client(url) as client:
            yield client


@contextmanager
def server_address(redis: str | None, data_dir: Path, *, may_start: bool = True) -> Iterator[str]:
    """Yield the address of the configured server, else of the embedded one, which runs until the block ends.

    Args:
        redis: The configured address, if any.
        data_dir: The folder of the embedded server.
        may_start: Whether a server that does not run is started when the folder holds data: enough to read them, but
            nobody would serve a new job.

    Raises:
        StoreUnavailable: there is no server; what to do is in the message.
    """
    if redis:
        yield redis
        return
    from shared.embedded import attach, is_running, peek

    if not is_running(data_dir) and not (may_start and peek(data_dir)):
        raise StoreUnavailable(
            f"no server here: none runs in {str(data_dir)!r}. Start one with `ekiden up`, do it all at once with "
            "`ekiden run`, or set EKIDEN_REDIS_URL"
        )
    with attach(data_dir) as attachment:
        yield attachment.url
