"""Calls that do not run again, because a person has said that they were done: who has said it."""

from ekiden.shared.records import Record, Retried, ToolFinished, ToolStarted

__all__ = ["ToldCalls"]


class ToldCalls:
    """Reads them off one journal. ``note`` is the only writer."""

    def __init__(self) -> None:
        self._by: dict[tuple[int, str], str] = {}

    def note(self, record: Record) -> None:
        """Take in a record, in the journal's order."""
        if isinstance(record, ToolStarted):
            self._by.pop((record.leg, record.call_id), None)
        elif isinstance(record, Retried):
            done = [one for one in record.settled if one.is_done and not one.job]
            self._by.update({(record.leg, one.call_id): record.by or "somebody" for one in done})

    def of(self, record: ToolFinished) -> str:
        """Say that a result is a person's word; empty: the call ran, or its job ended before that."""
        by = self._by.get((record.leg, record.result.call_id))
        is_word = record.is_withheld or not record.result.is_error
        return f"told by {by}, not run" if by and is_word else ""
