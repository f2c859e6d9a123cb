"""Where a program's hooks are put together: the only module that knows telemetry, and that telemetry is a hook."""

import asyncio
import os
from collections.abc import Iterable

from ekiden.shared.environments import for_tools
from ekiden.shared.hooks.base import Hook, Hooks
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.notifications import CommandNotifier
from ekiden.shared.plugins import load
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.relay.message import queue_of_leg
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.telemetry.config import telemetry_config
from ekiden.shared.tracing.trace_ids import new_traceparent

__all__ = ["LateHooks", "hooks_for", "pool_hooks"]

log = LateLogger(__name__)


def hooks_for(
    service: str, settings: Settings, further: Iterable[Hook] = (), *, is_host: bool = False
) -> tuple[Hook, ...]:
    """Return the hooks of a process in their order: telemetry as ``OTEL_*`` and the settings ask for, then ``further``.

    A pool tells the user's command of approvals, too.

    OpenTelemetry is imported here, and only if there is somewhere to send to.

    Args:
        service: What the process is called, unless ``OTEL_SERVICE_NAME`` says else.
        settings: The settings in force.
        further: Hooks from elsewhere, as of plug-ins.
        is_host: The process is ours alone: what other libraries trace in it goes along.

    Raises:
        ConfigurationError: what is asked for cannot be had.
    """
    redactor = configure_redaction(settings.redact, settings.secrets)
    config = telemetry_config(settings, os.environ)
    if config.problem:
        log.error("telemetry_off", problem=config.problem)
    if is_host and settings.notify_command:
        further = (CommandNotifier(settings.notify_command, for_tools(os.environ, settings.tools_env)), *further)
    if not config.is_on:
        return tuple(further)
    from ekiden.shared.telemetry.sdk import hooks_of

    return (*hooks_of(service, config, settings.prices, redactor, queue_of_leg, is_host=is_host), *further)


def pool_hooks(service: str, settings: Settings) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Return the hooks of a pool, those of plug-ins and of the settings last, and what is wrong with those left out.

    Raises:
        ConfigurationError: what is asked for cannot be had.
    """
    from ekiden.shared.hooks.asking import HookAsking  # here: clients do without them
    from ekiden.shared.hooks.commands import command_hooks, refusing_hooks
    from ekiden.shared.hooks.observers import Observers
    from ekiden.shared.settings.hooks import hooks_in_force

    loaded = load("hooks", settings.allowed("hooks"), Hook)
    named = hooks_in_force(settings)
    env = for_tools(os.environ, settings.tools_env)
    commands = [hook for folder, entries in named.entries for hook in command_hooks(entries, env, folder)]
    asked = (*commands, *loaded.made.values(), *refusing_hooks(named.refused))
    hooks = hooks_for(service, settings, (*asked, Observers(HookAsking(asked))), is_host=True)
    return hooks, (*loaded.problems, *named.problems)


class LateHooks:
    """A client's hooks: put together with the first change that it makes, since who only reads has nothing to tell."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._hooks: Hooks | None = None
        self._sample_rate = 1.0

    def started(self) -> Hooks:
        """Return the hooks."""
        if self._hooks is None:
            settings = load_settings()
            self._sample_rate = telemetry_config(settings, os.environ).sample_rate
            without_port = settings.model_copy(update={"metrics_port": None})  # that is the pools'
            self._hooks = Hooks(*hooks_for(self._service, without_port))
        return self._hooks

    def traceparent(self) -> str:
        """Draw the ids of a new job, whether anybody listens here or not: its workers may."""
        self.started()
        return new_traceparent(self._sample_rate)

    async def close(self) -> None:
        """Let them send what is left, for a few seconds at most."""
        if self._hooks is not None:
            await asyncio.to_thread(self._hooks.close)
