"""The record of what a guardrail has said."""

import operator
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.records.base import BaseRecord, ModelCall

__all__ = ["GuardJudged", "Guarded", "Repairing"]


class Guarded(BaseRecord):
    """A guardrail has judged, in front of what follows from it: who reads it does not judge again."""

    type: Literal["guarded"] = "guarded"
    at: str
    """Where it stands; see ``GuardedPlace``."""
    rail: str
    """Its name in the agent's file."""
    policy: str
    status: Literal["passed", "failed", "warned", "repaired", "asked"]
    """``warned``: it did not pass, and goes on all the same; ``repaired``: what a model made of it does; ``asked``: a
    person decides."""
    errors: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """What is wrong, or was before it was repaired, a line each; none where it passed."""
    value: Any = None
    """What goes on in the place of what was repaired: a text, or JSON."""
    turn: int = 0
    """How many turns the leg had taken by then."""
    call_id: str = Field(default="", exclude_if=operator.not_)
    """The call that it is about; ``auto:<agent>``: a handoff that the agent's file makes; ``edge:<agent>: <edge>``:
    what goes along an edge of a graph, with whose guardrail it is; ``graph:<agent>``: a graph's answer; empty: none."""

    @property
    def where(self) -> str:
        """Where it stands, for people."""
        return _where(self.at, self.call_id)

    @property
    def key(self) -> tuple[int, str, str, str]:
        """What it is about: it is judged once."""
        return self.turn, self.at, self.call_id, self.rail

    @property
    def is_of_return(self) -> bool:
        """Whether it is about what came back with control, and had that repaired."""
        return (self.at, self.status, self.turn) == ("delegation", "repaired", 0)

    @property
    def text(self) -> str:
        """The same in one line, without a colon behind a name: what follows would look like a secret's value."""
        if self.status == "repaired":
            return f"guardrail {self.rail} has {self.where} repaired: {'; '.join(self.errors)}"
        if self.status == "passed":
            return f"guardrail {self.rail} lets pass {self.where}"
        return f"guardrail violation: {self.rail} ({self.where}, policy {self.policy}): {'; '.join(self.errors)}"


class GuardJudged(ModelCall):
    """A model was asked whether a guardrail's sentence is true of a value: who reads it does not ask again."""

    type: Literal["guard_judged"] = "guard_judged"
    at: str
    rail: str
    turn: int = 0
    call_id: str = Field(default="", exclude_if=operator.not_)
    digest: str
    """SHA-256 of the value's text."""
    confidence: float | None = None
    """How sure the model is that it is not true, 0 to 1; None: its answer could not be read."""
    text: str = ""
    """Why."""

    @property
    def key(self) -> tuple[int, str, str, str, str]:
        """What it is about: it is judged once."""
        return self.turn, self.at, self.call_id, self.rail, self.digest


class Repairing(ModelCall):
    """A model was asked to repair what did not pass a guardrail: ``Guarded`` follows, or another try."""

    type: Literal["repair"] = "repair"
    at: str
    rail: str
    turn: int = 0
    call_id: str = Field(default="", exclude_if=operator.not_)
    errors: tuple[str, ...] = ()
    """What it was to mend."""
    text: str = ""
    """What it gave; empty: nothing that could be read."""

    @property
    def key(self) -> tuple[int, str, str, str]:
        """What it is about; see ``Guarded``."""
        return self.turn, self.at, self.call_id, self.rail

    @property
    def where(self) -> str:
        """Where what it is to mend stands, for people."""
        return _where(self.at, self.call_id)


def _where(at: str, call_id: str) -> str:
    """Return a place in words: of graphs it is said by whose file, and at which edge, or of which the answer is."""
    kind, _, of = call_id.partition(":")
    if kind == "edge" and ": " in of:
        agent, _, way = of.partition(": ")
        return f"{at}, edge {way}, judged by {agent}"
    return f"{at}, graph {of}" if kind == "graph" and of else at
