"""What is wrong with an agent file, as a value (``Problem``) or on its way there (``AgentFileError``)."""

from dataclasses import dataclass
from typing import Literal

from ekiden.shared.errors import DefinitionError

__all__ = ["AgentFileError", "Aspect", "Problem", "Severity"]

Severity = Literal["error", "warning"]
Aspect = Literal[
    "file", "front matter", "fields", "values", "tools", "instructions", "handoffs", "subagents", "graph", "name"
]


@dataclass(frozen=True)
class Problem:
    """One thing to mend in one agent file. An ``error`` costs the agent (or the edge), a ``warning`` nothing."""

    file: str
    line: int | None
    """Counted from 1; None when the problem has no place in the file."""
    severity: Severity
    message: str
    aspect: Aspect = "file"
    """Which part of the agent it is about."""
    place: tuple[str | int, ...] = ()
    """Keys and numbers that lead to it in the front matter; empty: nobody knows."""

    @property
    def where(self) -> str:
        """The place as editors and terminals understand it: ``file:line``."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.message}"


class AgentFileError(DefinitionError):
    """A definition error that knows its place: a line of the file, or a field that the loader finds the line of."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        field: str | None = None,
        within: tuple[str | int, ...] = (),
        is_missing: bool = False,
    ) -> None:
        """Keep the ``line`` (from 1), or the top-level ``field``, beside the text; and whether a field is not there.

        Args:
            message: What is wrong, and what to do.
            line: From 1.
            field: On the top level of the front matter.
            within: Keys and numbers, from the field on to what is wrong.
            is_missing: A field that is needed is not there.
        """
        super().__init__(message)
        self.within = within
        self.is_missing = is_missing
        self.line = line
        self.field = field
