"""``--trace``: another view, and the waterfall once the job has ended."""

from typing import TYPE_CHECKING

from dispatcher.cli.show import View
from dispatcher.cli.trace import draw, told
from shared.records import Ended, Entry

if TYPE_CHECKING:
    from shared.stores.base import LivePiece

__all__ = ["TracedView"]


class TracedView:
    """Keeps what it shows, to draw it at the end."""

    def __init__(self, job: str, view: View) -> None:
        self._job = job
        self._view = view
        self._entries: list[Entry] = []

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.show(entry)
        self._entries.append(entry)
        if isinstance(entry.record, Ended):
            draw(told(self._job, self._entries))

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.learn(entry)
        self._entries.append(entry)

    def live(self, piece: "LivePiece") -> None:
        """See ``View``."""
        self._view.live(piece)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._view.note(text)

    def tick(self) -> None:
        """See ``View``."""
        self._view.tick()
