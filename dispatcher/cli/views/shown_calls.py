"""The calls of a job as they ran, for the lines that are about them."""

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.call_text import call_text
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import Hooked, ModelReplied, Record, ToolFinished
from ekiden.shared.told_calls import ToldCalls

__all__ = ["ShownCalls"]

_LINE, _ROOM, _LEAST = 110, 20, 40
"""Cells of a line where there is no terminal; for what stands round a call in it; that a call has anyway."""


class ShownCalls:
    """Those that were noted, by leg and id."""

    def __init__(self, output: Output, *, is_whole: bool = False) -> None:
        """``is_whole``: all of their arguments are shown."""
        self._out = output
        self._is_whole = is_whole
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._told = ToldCalls()

    def note(self, record: Record) -> None:
        """Keep the calls of a reply, and of one that hooks have changed what runs in its place."""
        self._told.note(record)
        if isinstance(record, ModelReplied):
            self._calls.update({(record.leg, call.id): call for call in record.message.calls})
        elif isinstance(record, Hooked) and "args" in record.changed:
            place = record.leg, record.call_id
            if (call := self._calls.get(place)) is not None:
                self._calls[place] = call.model_copy(update={"args": record.value})

    def result(self, record: ToolFinished) -> str:
        """Return a call's line, with how long it took; or with who has told what it gave, and that it did not run."""
        result = record.result
        about = self.about(record.leg, result.call_id, result.name)
        if told := self._told.of(record):
            return f"{about}: {told}"
        # One that was broken off, or never began, was not measured.
        return about if result.is_error and not record.duration_ms else f"{about} ({record.duration_ms} ms)"

    def name(self, leg: int, call_id: str) -> str:
        """Return what a call that was noted calls."""
        return self._calls[leg, call_id].name

    def about(self, leg: int, call_id: str, name: str) -> str:
        """Return a call's line; ``name``: of one that nobody noted."""
        call = self._calls.get((leg, call_id))
        width = max(self._out.width(_LINE) - _ROOM, _LEAST)
        return call_text(name, call.args if call else {}, width, self._out.symbols["dots"], is_whole=self._is_whole)
