"""Tools that take their time: each is said once to run still, where nothing else shows that time goes by."""

import time

from ekiden.shared.records import Ended, LegStarted, LegSuspended, Record, ToolFinished, ToolStarted

__all__ = ["SlowTools"]

SLOW_S = 3.0


class SlowTools:
    """The calls that run now."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, ToolStarted]] = {}

    def note(self, record: Record) -> None:
        """Take note of what begins and ends a call."""
        match record:
            case ToolStarted():
                self._since[record.call_id] = time.monotonic(), record
            case ToolFinished(result=result):
                self._since.pop(result.call_id, None)
            case LegStarted() | LegSuspended() | Ended():
                self._since.clear()
            case _:
                pass

    def due(self) -> list[ToolStarted]:
        """Return those that have run for ``SLOW_S`` seconds, each once."""
        slow = [started for since, started in self._since.values() if time.monotonic() - since >= SLOW_S]
        for started in slow:
            del self._since[started.call_id]
        return slow
