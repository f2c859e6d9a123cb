"""How far a journal was read, by a reader who notices when the server goes back in time."""

from collections.abc import Iterable

from shared.records import Entry

__all__ = ["Place"]


class Place:
    """The last entry of one journal that was read. A server that comes back with less may have another there."""

    def __init__(self) -> None:
        self._read: list[tuple[int, int]] = []

    @property
    def seq(self) -> int:
        """The entry's number; 0 at the beginning."""
        return self._read[-1][0] if self._read else 0

    @property
    def seen_ms(self) -> int | None:
        """When the entry was written; None at the beginning."""
        return self._read[-1][1] if self._read else None

    def note(self, entry: Entry) -> None:
        """Come to the next entry."""
        self._read.append((entry.seq, entry.at_ms))

    def go_back(self, entries: Iterable[Entry]) -> int:
        """Go back to the last entry that the whole journal as it is now still has; return how many it lost."""
        has = {(entry.seq, entry.at_ms) for entry in entries}
        before = len(self._read)
        while self._read and self._read[-1] not in has:
            self._read.pop()
        return before - len(self._read)
