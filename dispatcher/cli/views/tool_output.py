"""What tools say while they run, on a terminal: whole lines, as they come."""

from dataclasses import dataclass, field

from ekiden.dispatcher.cli.terminal.output import Output

__all__ = ["ToolOutput"]


@dataclass
class ToolOutput:
    """Shows the lines of each call, and keeps the last one until it is whole or the call has ended."""

    out: Output
    indent: str
    _rest: dict[str, str] = field(default_factory=dict)

    def add(self, call_id: str, text: str) -> None:
        """Show some more of what a call says."""
        *lines, self._rest[call_id] = (self._rest.get(call_id, "") + text).split("\n")
        for line in lines:
            self._show(line)

    def end(self, call_id: str) -> None:
        """Show the line that was not whole."""
        if rest := self._rest.pop(call_id, ""):
            self._show(rest)

    def _show(self, line: str) -> None:
        self.out.line(f"{self.indent}  {line}", "dim")
