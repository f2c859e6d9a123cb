"""What every view of a job can do, and how a job's end becomes an exit code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shared.records import Entry
    from shared.stores.base import LivePiece

__all__ = ["NO_ROUTE", "View", "chain_text", "exit_code_of", "view_for"]

NO_ROUTE = 5
_CANCELLED = 130


class View(Protocol):
    """Shows a job to whoever asked for it."""

    def show(self, entry: "Entry") -> None:
        """Show a journal entry; they come in order."""
        ...

    def learn(self, entry: "Entry") -> None:
        """Take note of an entry that comes before those to show."""
        ...

    def below(self, job: str) -> "View":
        """Return the view of a job that the shown one has delegated."""
        ...

    def live(self, piece: "LivePiece") -> None:
        """Show a piece of an answer whose entry has not come yet."""
        ...

    def note(self, text: str) -> None:
        """Say something that is not in the journal."""
        ...

    def tick(self) -> None:
        """Show that time goes by; called about once a second."""
        ...


def view_for(job: str, *, as_json: bool, thoughts: bool = False, verbose: bool = False) -> View:
    """Return the view that the user asked for."""
    if as_json:
        from dispatcher.cli.events import JsonView

        return JsonView(job)
    from dispatcher.cli.output import Output
    from dispatcher.cli.people import PeopleView

    return PeopleView(job, Output(), thoughts=thoughts, verbose=verbose)


def exit_code_of(status: str, reason: str | None) -> int:
    """Return what a command ends with when its job has ended so."""
    if status == "done":
        return 0
    if status == "cancelled":
        return _CANCELLED
    return NO_ROUTE if reason == "NO_ROUTE" else 1


def chain_text(agents: Sequence[str], arrow: str = "→") -> str:
    """Return a chain in one line: ``user → debugger → code-fixer``."""
    return f" {arrow} ".join(agents)
