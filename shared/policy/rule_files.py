"""What was read of one file or setting: its rules, and what became of those that nobody can read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from ekiden.shared.faults import fault_in
from ekiden.shared.policy.rules import Rule

__all__ = ["Loaded", "PlaceOf", "first_problem", "in_place_of", "shown_path"]

PlaceOf = Callable[[Sequence[str | int]], str]
"""Returns file and line of what stands at keys and numbers within a value; the source alone where it has no lines."""


@dataclass(frozen=True)
class Loaded:
    """The rules of one source.

    Attributes:
        rules: Those that count.
        problems: What is wrong, with the place and what to do; for people.
        notes: What else was not taken as it is written, likewise.
    """

    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def permissions(self) -> tuple[Rule, ...]:
        """The rules that allow something."""
        return tuple(rule for rule in self.rules if rule.verdict == "allow")

    def without_permissions(self) -> "Loaded":
        """Return what restricts."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.verdict != "allow"))

    @property
    def safe(self) -> "Loaded":
        """What counts of it: of a source with a fault, nothing that allows."""
        return self.without_permissions() if self.problems else self


def in_place_of(source: str, name: str, problem: str, tools: tuple[str, ...] = ("*",)) -> Rule:
    """Return the rule that stands for one that cannot be read: what that might have restricted is asked about."""
    return Rule("ask", source, name, tools, reason=f"it cannot be read, and might restrict this ({problem})")


def first_problem(error: ValidationError) -> str:
    """Say what is wrong with a rule, by its first fault."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = fault_in(first)
    if first["type"] == "extra_forbidden":
        return f"{place!r} is no field of a rule"
    return f"{place!r}: {message}" if place else message


def shown_path(path: Path) -> str:
    """Return a path as people write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
