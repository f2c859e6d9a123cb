"""The system prompt of an agent: what its file says, filled with what it was called with, and the parts that apply.

Its order: who the agent is (its file), inputs that have no place in it, core mandates, sub-agents, workflow, transfers,
guidelines, environment, sandbox, git, the last reminder. The brief of a handoff is no part: it is the last thing that
the agent reads, in the conversation.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.instruction_parts import NOTHING_OFFERED, Situation, parts_of
from ekiden.shared.variables import value_at

__all__ = [
    "MAX_FILLED",
    "MAX_INPUT",
    "MAX_QUOTED",
    "instructions_for",
    "places_in",
    "plain",
    "shortened",
]

MAX_QUOTED = 20_000
"""Characters of one text of another agent: what it said in a turn, handed over, or came back with."""
MAX_INPUT = 100_000
"""Characters of each input of a task: nobody else has it whole."""
MAX_FILLED = 400_000
"""Characters of the inputs that stand in an agent's instructions, together: one may stand there many times."""
NOT_SET = "(not set)"

_PLACEHOLDER = re.compile(r"\$\{(?:state\.([\w.-]+)|(\w+))\}")

_STEPS = re.compile(r"^\s{0,3}1[.)]\s", re.MULTILINE)
"""The first of numbered steps."""


def instructions_for(
    agent: AgentDefinition,
    inputs: Mapping[str, Any] | None = None,
    situation: Situation = NOTHING_OFFERED,
    *,
    state: Mapping[str, Any] | None = None,
    listed: Collection[str] = (),
) -> str:
    """Return the system prompt: the agent's file with its inputs, and the parts that apply to its situation.

    Args:
        agent: Whose file it is; one without a text is introduced by its title and description.
        inputs: What it was called with: it takes the place of ``${name}``, where the file declares the input.
        situation: What it is offered, and where it works.
        state: The session's variables as they are now: they take the place of ``${state.name}``.
        listed: The inputs that the agent reads nowhere else: those that have no place in its file are listed.
    """
    filling = _Filling(agent, inputs or {}, state or {})
    own = filling.body if agent.instructions.strip() else f"You are {agent.title}. {agent.description}"
    now = replace(situation, has_steps=True) if _STEPS.search(agent.instructions) else situation
    return "\n\n".join(filter(None, [own.strip(), filling.others(listed), *parts_of(now)]))


def places_in(text: str) -> list[str]:
    """Return the names of inputs that an agent's text has places for, in order."""
    return [name for _, name in _PLACEHOLDER.findall(text) if name]


class _Filling:
    """Puts inputs and variables in their places, in one pass: what looks like a place in one of them is none."""

    def __init__(self, agent: AgentDefinition, inputs: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        self._declared: Mapping[str, Any] = agent.inputs_schema["properties"]
        self._inputs = inputs
        self._state = state
        self._room = MAX_FILLED
        self._placed: set[str] = set()
        self.body = _PLACEHOLDER.sub(self._value, agent.instructions)

    def others(self, listed: Collection[str]) -> str:
        """Tell of the ``listed`` inputs that the file has no place for."""
        names = [name for name in listed if name not in self._placed and self._inputs.get(name) is not None]
        lines = [f"{name}: {shortened(plain(self._inputs[name]), MAX_INPUT)}" for name in names]
        return "\n".join(["You were called with these inputs:", *lines]) if lines else ""

    def _value(self, found: re.Match[str]) -> str:
        variable, name = found[1], found[2]
        if variable is not None:
            value = value_at(self._state, variable)
            return NOT_SET if value is None else self._fitted(_one_line(value))
        field = self._declared.get(name)
        given = None if field is None else self._inputs.get(name, field.get("default"))
        if given is None:
            return found[0]
        self._placed.add(name)
        return self._fitted(given)

    def _fitted(self, value: Any) -> str:
        text = shortened(plain(value), min(MAX_INPUT, self._room)) if self._room > 0 else "[cut]"
        self._room -= len(text)
        return text


def shortened(text: str, most: int = MAX_QUOTED) -> str:
    """Return a text of at most ``most`` characters, and a note if it had more."""
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]} [cut: the first {most:,} of {len(text):,} characters]"


def _one_line(value: Any) -> Any:
    """Return a variable as it may stand in instructions: models set some, and several lines could be new headings."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) and len(value.splitlines()) > 1 else value


def plain(value: Any) -> str:
    """Return a value as a model reads it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
