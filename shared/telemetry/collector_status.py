"""Whether the collector is there: said when it changes, and not for every batch."""

import logging

from ekiden.shared.once import StateChange

__all__ = ["CollectorStatus"]

log = logging.getLogger(__name__)  # not structlog's: where logs are not set up, as in commands, that prints to stdout


class CollectorStatus:
    """Says once that the collector is away, and once that it is back."""

    def __init__(self, meanwhile: str) -> None:
        """Begin with a collector that is there; ``meanwhile``: what happens while it is not."""
        self._meanwhile = meanwhile
        self._collector = StateChange()

    def note(self, *, is_away: bool) -> None:
        """Take note of how an export ended."""
        if not self._collector.note(is_well=not is_away):
            return
        if is_away:
            log.warning("collector_away: %s until it is back; jobs go on as ever", self._meanwhile)
        else:
            log.warning("collector_back")
