"""What is wrong with an agent file, as a value (``Problem``) or on its way there (``AgentFileError``)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ekiden.shared.errors import DefinitionError

__all__ = ["AgentFileError", "Aspect", "Problem", "Severity", "all_read", "together"]

T = TypeVar("T")

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
        self.others: tuple[AgentFileError, ...] = ()
        """What else is wrong, where more than the first was looked for."""
        self.line = line
        self.field = field


def all_read(reads: Iterable[Callable[[], T]]) -> list[T]:
    """Do all of ``reads``, also behind one that fails. Raises the first ``AgentFileError``, with the others."""
    done: list[T] = []
    faults: list[AgentFileError] = []
    for read in reads:
        try:
            done.append(read())
        except AgentFileError as error:
            faults.append(error)
    if faults:
        raise together(faults)
    return done


def together(faults: Iterable[AgentFileError]) -> AgentFileError:
    """Return the first of some faults, which has the others."""
    first, *others = (one for fault in faults for one in (fault, *fault.others))
    first.others = tuple(others)
    return first
