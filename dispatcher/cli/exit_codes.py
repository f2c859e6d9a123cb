"""What commands end with, beside what errors say themselves (``EkidenError.exit_code``)."""

__all__ = ["INTERRUPTED", "NO_ROUTE", "UNREAD", "WAITS_FOR_PEOPLE", "exit_code_of"]

NO_ROUTE = 5
WAITS_FOR_PEOPLE = 8
"""The job is not over: all that is left of it waits for a person, and nobody could be asked."""
INTERRUPTED = 130
"""Cancelled, or ended by Ctrl-C or SIGTERM."""


UNREAD = 141
"""Nobody reads the output any more, as a shell says it of programs that SIGPIPE has ended."""


def exit_code_of(status: str, reason: str | None) -> int:
    """Return what a command ends with when its job has ended so."""
    if status == "done":
        return 0
    if status == "cancelled":
        return INTERRUPTED
    return NO_ROUTE if reason == "NO_ROUTE" else 1
