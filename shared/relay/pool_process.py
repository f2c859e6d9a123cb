"""Runs a pool process in the foreground: what ``ekiden dispatcher`` and ``ekiden worker`` do."""

import asyncio
import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence

from celery import signals

from ekiden.shared.relay.celery_environment import refuse_what_breaks
from ekiden.shared.server import server_url
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import open_stores

__all__ = ["serve"]


def serve(
    app: str, options: Mapping[str, object | None], queues: Sequence[str], log_level: str, on_ready: Callable[[], None]
) -> int:
    """Serve ``queues`` with the Celery app ``module:name`` until stopped; return the exit code.

    ``on_ready`` is called once the pool has announced itself and takes messages.
    ``options`` are settings given on the command line, by their names; None: as the environment says. They become
    environment variables, since a Celery app is made when its module is imported. Raises what keeps the pool from
    starting: ``StoreUnavailable``, ``ConfigurationError``, ``DefinitionError``.
    """
    refuse_what_breaks(os.environ)
    os.environ.update({f"EKIDEN_{name.upper()}": str(value) for name, value in options.items() if value is not None})
    os.environ["EKIDEN_LOG_LEVEL"] = log_level  # for the processes of the quarantine
    url = server_url(load_settings())
    asyncio.run(_ping(url))
    warnings.filterwarnings("ignore", message=".*superuser privileges.*")  # containers run as root; nothing is pickled
    module, _, name = app.partition(":")
    celery = getattr(importlib.import_module(module), name)
    worker = celery.Worker(queues=list(queues) or None, loglevel=log_level.upper(), quiet=True)

    def ready(**_: object) -> None:
        on_ready()

    signals.worker_ready.connect(ready)
    worker.start()
    if (error := getattr(celery, "ekiden_error", None)) is not None:
        raise error
    return int(worker.exitcode or 0)


async def _ping(url: str) -> None:
    stores = open_stores(url, retries=1)
    try:
        await stores.ping()
    finally:
        await stores.close()
