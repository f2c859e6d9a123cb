"""What a new agent is found by, and whom it works with: said by options, or asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from ekiden.shared.errors import InvalidRequest

__all__ = ["TeamFields"]


@dataclass(frozen=True)
class TeamFields:
    """None, or nothing: nothing was said.

    Attributes:
        keywords: Words in requests that speak for it, joined by commas.
        examples: Requests that it takes.
        patterns: RE2 expressions found in such.
        priority: Whose agent comes first of several that keywords or patterns speak for, from 0 to 100.
        handoffs: Whom it may hand over to: ``NAME``, or ``NAME=WHEN``.
        subagents: Whom it may delegate to: ``NAME``, or ``NAME=WHAT FOR``.
    """

    keywords: str | None = None
    examples: Sequence[str] = ()
    patterns: Sequence[str] = ()
    priority: int | None = None
    handoffs: Sequence[str] = ()
    subagents: Sequence[str] = ()

    def asked(self, names: Iterable[str]) -> "TeamFields":
        """Return it with what a person on a terminal says to all that was not said; ``names``: the agents there are."""
        keywords, examples = self.keywords, self.examples
        if keywords is None:
            keywords = _asked("Keywords (words in requests that speak for it, with commas)")
        if not examples:
            examples = _parts(_asked("Example requests (with semicolons)"), ";")
        known = ", ".join(names)
        handoffs = self.handoffs or _edges(f"Hands over to (of {known})", "When does it hand over to {name}?")
        subagents = self.subagents or _edges("Delegates to (of the same)", "What does it delegate to {name}?")
        return TeamFields(keywords, examples, self.patterns, self.priority, handoffs, subagents)

    def put_into(self, fields: dict[str, Any]) -> None:
        """Put it over what the fields of an agent file say. Raises ``InvalidRequest`` for an edge without a name."""
        said = {
            "keywords": None if self.keywords is None else _parts(self.keywords, ","),
            "examples": list(self.examples) or None,
            "patterns": list(self.patterns) or None,
            "priority": self.priority,
        }
        if triggers := {key: value for key, value in said.items() if value is not None}:
            fields["triggers"] = {**(fields.get("triggers") or {}), **triggers}
        if self.handoffs:
            fields["handoffs"] = [_edge("to", text, "--handoff") for text in self.handoffs]
        if self.subagents:
            fields["subagents"] = [_edge("agent", text, "--subagent") for text in self.subagents]


def _asked(question: str) -> str:
    answer = str(typer.prompt(question, default="none")).strip()
    return "" if answer == "none" else answer


def _edges(whom: str, about: str) -> list[str]:
    names = _parts(_asked(whom), ",")
    return [f"{name}={_asked(about.format(name=name))}" for name in names]


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def _edge(key: str, text: str, option: str) -> dict[str, str]:
    name, _, description = (part.strip() for part in text.partition("="))
    if not name:
        raise InvalidRequest(f"{option} {text!r} names no agent: give NAME, or NAME=DESCRIPTION")
    return {key: name, **({"description": description} if description else {})}
