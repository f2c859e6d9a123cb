"""Starts what a process was asked for. OpenTelemetry is imported here, and only if there is somewhere to send to."""

import asyncio
import os
from collections.abc import Callable

import structlog

from ekiden.shared.redaction import configure_redaction
from ekiden.shared.settings import Settings, load_settings
from ekiden.shared.telemetry.base import Telemetry, install, is_installed, telemetry
from ekiden.shared.telemetry.config import telemetry_config
from ekiden.shared.telemetry.identity import new_traceparent

__all__ = ["LateTelemetry", "start_telemetry"]

log = structlog.get_logger(__name__)


def start_telemetry(service: str, settings: Settings, *, is_host: bool = False) -> Callable[[], None]:
    """Listen to this process's relay, as ``OTEL_*`` and the settings ask for; call what is returned at the end.

    Args:
        service: What the process is called, unless ``OTEL_SERVICE_NAME`` says else.
        settings: The settings in force.
        is_host: The process is ours alone: what other libraries trace in it goes along.

    Raises:
        ConfigurationError: what is asked for cannot be had.
    """
    redactor = configure_redaction(settings.redact, settings.secrets)
    config = telemetry_config(settings, os.environ)
    if config.problem:
        log.error("telemetry_off", problem=config.problem)
    if not config.is_on:
        return _nothing
    from ekiden.shared.telemetry.sdk import recorder_for

    recorder: Telemetry = recorder_for(service, config, settings.prices, redactor, is_host=is_host)
    remove = install(recorder)

    def stop() -> None:
        if remove():
            recorder.close()

    return stop


class LateTelemetry:
    """A client's: starts with the first change that it makes, since who only reads has nothing to tell."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._stop = _nothing
        self._sample_rate: float | None = None

    def started(self) -> Telemetry:
        """Return who listens; starts it unless this process has somebody already."""
        if self._sample_rate is None:
            settings = load_settings()
            self._sample_rate = telemetry_config(settings, os.environ).sample_rate
            if not is_installed():
                self._stop = start_telemetry(self._service, settings)
        return telemetry()

    def traceparent(self) -> str:
        """Draw the ids of a new job, whether anybody listens here or not: its workers may."""
        self.started()
        return new_traceparent(1.0 if self._sample_rate is None else self._sample_rate)

    async def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        await asyncio.to_thread(self._stop)


def _nothing() -> None:
    pass
