"""The last turn of a leg that has reached a limit: it may end its task with what it has."""

from dataclasses import replace

from ekiden.shared.outcomes import Answer, Failed, Outcome
from ekiden.shared.records import LastTurn

__all__ = ["outcome_of"]


def outcome_of(granted: LastTurn, found: Outcome | None) -> Outcome:
    """Return how a leg ends by its last turn, which was ``found`` to end it so, or not to.

    An answer is taken, with the reason that had ended the leg; so is a transfer. Whatever else the turn did, the leg
    ends as it would have without it.
    """
    match found:
        case Answer():
            return replace(found, reason=granted.reason, recovered=True)
        case Failed() | None:
            return Failed(granted.reason, granted.error)
        case _:
            return found
