"""A Celery app that is what it was told to be, whatever the environment and the ``celery`` program's options say."""

from typing import Any

import click
from celery import Celery, concurrency
from celery.loaders.app import AppLoader
from click.core import ParameterSource

from ekiden.shared.errors import ConfigurationError, WrongPool
from ekiden.shared.relay.pool import AsyncPool
from ekiden.shared.relay.transport import RejectHandler, transport_to

__all__ = ["EkidenApp", "refuse_options"]

_NOT_OURS = ("broker", "result_backend", "loader", "config")
"""Options of the ``celery`` program that another app would obey."""

_ANY = "redis://"
"""What stands for an address where Celery wants one: the transport knows its own."""


class EkidenApp(Celery):
    """An app that is what it was told to be: Celery's own puts the environment first (``CELERY_BROKER_URL``, ...)."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name, loader=_Loader, fixups=(), set_as_current=False)
        self.backend_cls = "disabled"
        self._transport = transport_to(url, RejectHandler(self._bury, self._move_misplaced))

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        """Connect to our server, whatever ``url``."""
        return super().connection_for_read(_ANY, **{**options, "transport": self._transport})

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        """Connect to our server, whatever ``url``."""
        return super().connection_for_write(_ANY, **{**options, "transport": self._transport})

    def _bury(self, queue: str, reason: str, raw: bytes) -> None:
        self.relay.bury(queue, reason, raw)

    def _move_misplaced(self) -> bool:
        return bool(self.relay.move_misplaced())


class _Loader(AppLoader):
    """Reads no module that the environment names (``CELERY_CONFIG_MODULE``)."""

    def read_configuration(self, env: str = "") -> dict[str, Any]:
        """Return nothing: our settings are elsewhere."""
        return {}


def refuse_options(pool_cls: Any) -> None:
    """Refuse options of the ``celery`` program: a pool that cannot run coroutines, and another place to work at."""
    pool = concurrency.get_implementation(pool_cls)
    if not issubclass(pool, AsyncPool):
        raise WrongPool(
            f"Ekiden's legs need its own pool, not {pool.__module__!r}: start the worker without -P "
            "(CELERY_WORKER_POOL in the environment)"
        )
    if (context := click.get_current_context(silent=True)) is None:
        return
    for name in _NOT_OURS:
        if context.find_root().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise ConfigurationError(f"{option} does nothing here: leave it out, Ekiden's settings say what is used")
