"""What a new agent is found by, and whom it works with: said by options, or asked for."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.suggestions import nearest

__all__ = ["TeamFields", "known_agent", "parts"]


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

    def asked(self, names: Collection[str], *, briefly: bool) -> "TeamFields":
        """Return it with what a person on a terminal says to all that was not said.

        ``names``: the agents there are; ``briefly``: ``extended_questions`` asks for keywords and handoffs.
        """
        keywords, examples, handoffs = self.keywords, self.examples, self.handoffs
        if keywords is None and not briefly:
            keywords = _asked("Keywords (words in requests that speak for it, with commas)")
        if not examples:
            examples = parts(_asked("Example requests (with semicolons)"), ";")
        known = ", ".join(names)
        if not briefly:
            handoffs = handoffs or _edges(f"Hands over to (of {known})", "When does it hand over to {name}?", names)
        whom = f"Delegates to (of {known})" if briefly else "Delegates to (of the same)"
        subagents = self.subagents or _edges(whom, "What does it delegate to {name}?", names)
        return TeamFields(keywords, examples, self.patterns, self.priority, handoffs, subagents)

    @property
    def edges_said(self) -> set[str]:
        """The fields of an agent file that lead to other agents as was said."""
        return {key for key, said in (("handoffs", self.handoffs), ("subagents", self.subagents)) if said}

    def put_into(self, fields: dict[str, Any]) -> None:
        """Put it over what the fields of an agent file say. Raises ``InvalidRequest`` for an edge without a name."""
        said = {
            "keywords": None if self.keywords is None else parts(self.keywords, ","),
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


def known_agent(name: str, names: Collection[str]) -> str:
    """Return the name of an agent that there is. Raises ``InvalidRequest`` for another."""
    if name not in names:
        near = nearest(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InvalidRequest(f"there is no agent {name!r}: {hint}")
    return name


def _asked(question: str, check: Callable[[str], object] = str) -> str:
    """Return an answer that ``check`` takes; empty: none."""

    def checked(answer: str) -> str:
        answer = answer.strip()
        try:
            check("" if answer == "none" else answer)
        except InvalidRequest as error:
            raise typer.BadParameter(str(error)) from None  # which asks again
        return "" if answer == "none" else answer

    return str(typer.prompt(question, default="none", value_proc=checked))


def _edges(whom: str, about: str, names: Collection[str]) -> list[str]:
    chosen = parts(_asked(whom, lambda text: [known_agent(name, names) for name in parts(text, ",")]), ",")
    return [f"{name}={_asked(about.format(name=name))}" for name in chosen]


def parts(text: str, separator: str) -> list[str]:
    """Return what stands between separators, without blanks."""
    return [part.strip() for part in text.split(separator) if part.strip()]


def _edge(key: str, text: str, option: str) -> dict[str, str]:
    name, _, description = (part.strip() for part in text.partition("="))
    if not name:
        raise InvalidRequest(f"{option} {text!r} names no agent: give NAME, or NAME=DESCRIPTION")
    return {key: name, **({"description": description} if description else {})}
