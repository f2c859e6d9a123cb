"""What every view of a job can do: whoever reads a journal shows it through one."""

from typing import Protocol

from ekiden.shared.records import Entry
from ekiden.shared.stores.views import LivePiece

__all__ = ["View"]


class View(Protocol):
    """Shows a job to whoever asked for it."""

    def show(self, entry: Entry) -> None:
        """Show a journal entry; they come in order."""
        ...

    def learn(self, entry: Entry) -> None:
        """Take note of an entry that comes before those to show."""
        ...

    def below(self, job: str) -> "View":
        """Return the view of a job that the shown one has delegated."""
        ...

    def live(self, piece: LivePiece) -> None:
        """Show a piece of an answer whose entry has not come yet."""
        ...

    def note(self, text: str) -> None:
        """Say something that is not in the journal."""
        ...

    def tick(self) -> None:
        """Show that time goes by; called about once a second."""
        ...
