"""Which view of a job the user asked for."""

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.json_lines import JsonView
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.journal.view import View

__all__ = ["view_for"]


def view_for(job: str, *, as_json: bool, thoughts: bool = False, verbose: bool = False) -> View:
    """Return the view that the user asked for."""
    return JsonView(job) if as_json else TerminalView(job, Output(), thoughts=thoughts, verbose=verbose)
