"""Guardrails: what an agent's file wants judged of what goes in and out, and what becomes of what does not pass."""

import operator
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.bounds import NUMBER, between
from ekiden.shared.definitions.rules import is_none, matches

__all__ = ["BUILT_IN", "GUARDED_PLACES", "GuardedPlace", "Guardrail", "GuardrailPolicy"]

GuardedPlace = Literal["input", "output", "handoff", "tool_input", "tool_output", "delegation"]
"""Where a guardrail may stand: at what an agent is asked, what it answers and hands over, at arguments and results of
calls, and at what agents give back that it has called."""
GUARDED_PLACES: tuple[GuardedPlace, ...] = get_args(GuardedPlace)

GuardrailPolicy = Literal["reject", "repair", "ask", "warn"]
"""What becomes of what does not pass: it is kept from going on, a model repairs it first, a person decides, or it goes
on and is told."""

BUILT_IN = frozenset({"json", "no_secrets", "no_pii", "no_prompt_injection", "max_length"})
"""Validators that workers ship with."""
_OF_VALUES = frozenset({"json"})
"""Those that ask for what only a value has."""


class Guardrail(BaseModel):
    """One guardrail; what it checks has to hold together. One of a newer version is unreadable: none is passed over."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", serialize_by_alias=True, validate_by_name=True, defer_build=True
    )

    name: str = Field(min_length=1, max_length=100)
    on: tuple[GuardedPlace, ...] = Field(default=("output",), min_length=1)
    policy: GuardrailPolicy = "reject"
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", exclude_if=is_none)
    """A JSON Schema of the value; its ``format`` is checked."""
    validator: str = Field(default="", exclude_if=operator.not_)
    """One of ``BUILT_IN``, or of a plug-in; empty: none."""
    prompt: str = Field(default="", max_length=4_000, exclude_if=operator.not_)
    """A sentence that has to be true of the value: a model judges by it; empty: none."""
    max_length: Annotated[int, between(1, 1_000_000), NUMBER] | None = Field(default=None, exclude_if=is_none)
    """Characters."""
    tools: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Of which calls arguments and results are judged, and of which agents' results: names and patterns; empty: all."""
    stream: bool = Field(default=False, exclude_if=operator.not_)
    """Whether an answer is shown while it grows, before it was judged."""

    def is_for(self, name: str) -> bool:
        """Tell whether calls of a tool, or the results of an agent, of this name are judged."""
        return not self.tools or matches(name, self.tools)

    def for_words(self) -> Self:
        """Return what of it holds of the word that there is no value, as of an error: what is said, not its form."""
        validator = "" if self.validator in _OF_VALUES else self.validator
        return self.model_copy(update={"schema_": None, "validator": validator})

    @property
    def is_own(self) -> bool:
        """Whether neither a model nor somebody else's code is asked: it says the same of the same at any time."""
        return not self.prompt and not self.is_foreign

    @property
    def says_something_alone(self) -> bool:
        """Whether something of it can be asked without a model, and without a validator of a plug-in."""
        has_own = bool(self.validator) and not self.is_foreign
        return has_own or self.schema_ is not None or self.max_length is not None

    @property
    def is_foreign(self) -> bool:
        """Whether a validator of a plug-in is asked."""
        return bool(self.validator) and self.validator not in BUILT_IN
