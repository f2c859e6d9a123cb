"""Which server a command talks to."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.shared.errors import NotPermitted, StoreUnavailable, UnknownJob
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.terminal_text import note

__all__ = ["configured", "connected", "job_named", "server_address", "tell_if_unserved"]

_GOES_ON = {
    "embedded": "no worker runs here: `ekiden run --unfinished resume`, or `ekiden up`, goes on with the job",
    "server": "no worker runs: `ekiden worker` goes on with the job",
}
"""What is said where nobody goes on with a job yet: on an embedded server, and on one elsewhere."""


def configured(redis: str | None, data_dir: Path | None) -> tuple[str | None, Path]:
    """Return the address of the server, if one is set, and the data folder of the embedded one otherwise.

    Options win over the environment, and that over the settings files.
    """
    return _place_by(load_settings(redis_url=redis, data_dir=data_dir))


@asynccontextmanager
async def connected(redis: str | None, data_dir: Path | None, *, may_start: bool = True) -> AsyncIterator[Client]:
    """Yield a client of the configured server, else of the data folder's; see ``server_address``."""
    settings = load_settings(redis_url=redis, data_dir=data_dir)
    with _address_by(settings, may_start=may_start) as url:
        async with client_of(url, settings=settings) as client:
            yield client


async def job_named(client: Client, prefix: str | None) -> str:
    """Return the whole id of the job that ``prefix`` begins, and of the newest one without it, which is told.

    Raises:
        UnknownJob: there is none.
        InvalidRequest: several begin so.
    """
    if prefix is not None:
        return await client.resolve(prefix)
    if not (newest := await client.jobs(1)):
        raise UnknownJob("there is no job yet: `ekiden run` and `ekiden submit` begin one")
    note(f"ekiden: job {newest[0].id}, the newest")
    return newest[0].id


async def tell_if_unserved(client: Client, redis: str | None, data_dir: Path | None) -> None:
    """Say, to whoever has set a job going and does not follow it, that no worker runs, and what begins one.

    That is done by now: who may not look, or finds the server gone, is told nothing.
    """
    with suppress(NotPermitted, StoreUnavailable):
        if any(pool.kind == "worker" for pool in await client.pools()):
            return
        note(_GOES_ON["embedded" if configured(redis, data_dir)[0] is None else "server"])


@contextmanager
def server_address(redis: str | None, data_dir: Path | None, *, may_start: bool = True) -> Iterator[str]:
    """Yield the address of the configured server, else of the embedded one, which runs until the block ends.

    Args:
        redis: The address that the user gave, if any.
        data_dir: The embedded server's folder that the user gave, if any.
        may_start: Whether a server that does not run is started when the folder holds data: enough to read them, but
            nobody would serve a new job.

    Raises:
        StoreUnavailable: there is no server; what to do is in the message.
    """
    with _address_by(load_settings(redis_url=redis, data_dir=data_dir), may_start=may_start) as url:
        yield url


def _place_by(settings: Settings) -> tuple[str | None, Path]:
    return settings.redis_url or None, settings.data_dir.absolute()


@contextmanager
def _address_by(settings: Settings, *, may_start: bool) -> Iterator[str]:
    url, data = _place_by(settings)
    if url:
        yield url
        return

    from ekiden.shared.embedded import attach, is_running, peek

    if not is_running(data) and not (may_start and peek(data)):
        from ekiden.dispatcher.local.legacy_data import legacy_data_in

        found = legacy_data_in(data)
        hint = "" if found is None else f"; `ekiden adopt` takes over the jobs in {str(found)!r}, if they are yours"
        raise StoreUnavailable(
            f"no server here: none runs in {str(data)!r}. Start one with `ekiden up`, do it all at once with "
            f"`ekiden run`, or set EKIDEN_REDIS_URL{hint}"
        )
    with attach(data) as attachment:
        yield attachment.url
