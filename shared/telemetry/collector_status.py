"""Whether the collector is there: said when it changes, and not for every batch."""

import logging

__all__ = ["CollectorStatus"]

log = logging.getLogger(__name__)  # not structlog's: where logs are not set up, as in commands, that prints to stdout


class CollectorStatus:
    """Says once that the collector is away, and once that it is back."""

    def __init__(self, meanwhile: str) -> None:
        """Begin with a collector that is there; ``meanwhile``: what happens while it is not."""
        self._meanwhile = meanwhile
        self._is_away = False

    def note(self, *, is_away: bool) -> None:
        """Take note of how an export ended."""
        if is_away and not self._is_away:
            log.warning("collector_away: %s until it is back; jobs go on as ever", self._meanwhile)
        elif self._is_away and not is_away:
            log.warning("collector_back")
        self._is_away = is_away
