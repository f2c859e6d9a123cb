"""How an agent ends beside a plain answer: ``complete_task``, ``exit``, and what is said to one that only says so."""

import json
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition, Output
from ekiden.shared.errors import ToolError
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import ToolCall
from ekiden.shared.outcomes import Answer, Unfinished
from ekiden.shared.schemas import problems
from ekiden.shared.subschemas import SchemaEmbedder
from ekiden.shared.variables import value_at

__all__ = ["COMPLETE_TASK", "CONTROLS", "EXIT", "Completion", "says_it_hands_over"]

COMPLETE_TASK = "complete_task"
EXIT = "exit"
COMPLETED = "Task completed successfully."
"""The answer of an agent whose file declares no output, and that gives none."""
CONTROLS = frozenset({COMPLETE_TASK, EXIT})
"""Tools that no registry has: they end the leg, and are offered by what the agent's file says elsewhere."""

_HANDING_OVER = re.compile(
    r"\b(hand(ing|ed)?\s+(\w+\s+){0,3}(over|off)|transfer(r(ing|ed))?|pass(ing)?\s+(\w+\s+){0,3}to|defer(ring)? to)\b"
    r"|转交|移交|交接|交给|转给|转接",
    re.IGNORECASE,
)
_MOST_SAID = 2_000
"""Characters: a longer text is an answer, whatever it says of others."""


class Completion:
    """The ending tools of one agent in one leg."""

    def __init__(self, agent: AgentDefinition, context: HandoffContext) -> None:
        self._agent = agent
        self._output = agent.output or (Output() if agent.complete_task else None)
        named = agent.tools is not None and EXIT in (agent.tools.allow or ())
        self._may_exit = bool(context.calls) or any(rule.when == "auto" for rule in agent.handoffs) or named

    @property
    def must_complete(self) -> bool:
        """Whether a plain answer is no end."""
        return self._agent.complete_task

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """``complete_task`` where the file declares an output, ``exit`` where an answer would not end the job."""
        specs = []
        if self._output is not None:
            specs.append(ToolSpec(name=COMPLETE_TASK, description=self._why_complete(), parameters=self._schema))
        if self._may_exit:
            specs.append(ToolSpec(name=EXIT, description=_WHY_EXIT, parameters=_ANSWER))
        return tuple(specs)

    def is_ending(self, call: ToolCall) -> bool:
        """Tell whether the call means to end the leg."""
        return call.name in CONTROLS and any(spec.name == call.name for spec in self.specs)

    def check(self, call: ToolCall) -> None:
        """Raise ``ToolError`` with a list of what is wrong with the call's arguments; see ``schemas.problems``."""
        schema = _ANSWER if call.name == EXIT else self._accepted(call)
        if found := problems(dict(call.args), schema):
            raise ToolError(
                "\n".join([f"not accepted, mend the arguments of {call.name}:", *(f"- {p}" for p in found)])
            )

    def answer(self, call: ToolCall) -> Answer | Unfinished:
        """Return the answer that a call gives which has passed the ``check``."""
        if call.name == EXIT:
            return Answer(str(call.args["answer"]), is_final=True)
        if self._gives_up(call):
            return Unfinished(str(call.args[_WHY]))
        if self._output is None or self._output.name not in call.args:
            return Answer(COMPLETED)
        output = call.args[self._output.name]
        return Answer(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False), output=output)

    def variables(self, output: Any) -> dict[str, Any]:
        """Return the session variables that ``output`` sets, as the agent's file maps them."""
        mapped = self._output.state if self._output else {}
        found = {name: value_at(output, path) for name, path in mapped.items()}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def _schema(self) -> dict[str, Any]:
        assert self._output is not None
        value = self._output.schema_ or {"type": "string", "description": "The result of the task."}
        within = SchemaEmbedder()
        properties = {self._output.name: within.taken(value, value)}
        if self._may_give_up:
            properties |= _GIVING_UP
        required = [self._output.name] if self._agent.output is not None else []
        return {"type": "object", "properties": properties, "required": required, **within.shared}

    def _accepted(self, call: ToolCall) -> dict[str, Any]:
        """Return what the call's arguments must be: nobody has a result of what could not be done."""
        if not self._gives_up(call):
            return self._schema
        return {"type": "object", "properties": _GIVING_UP, "required": [_STATUS, _WHY]}

    def _gives_up(self, call: ToolCall) -> bool:
        return self._may_give_up and call.args.get(_STATUS) == "unfinished"

    @property
    def _may_give_up(self) -> bool:
        """Whether the call's status is ours: the file may call its output so."""
        return self._output is not None and self._output.name not in _GIVING_UP

    def _why_complete(self) -> str:
        said = self._output.description if self._output else ""
        lead = "End the task with its result; the only way to end it."
        if self._may_give_up:
            lead += f" Where it could not be done, say so: {_STATUS} 'unfinished', and {_WHY}."
        return f"{lead} {said}".strip()


_STATUS, _WHY = "status", "why"
_GIVING_UP: dict[str, Any] = {
    _STATUS: {
        "type": "string",
        "enum": ["finished", "unfinished"],
        "description": "'unfinished': what was asked could not be done. Default: 'finished'.",
    },
    _WHY: {"type": "string", "minLength": 1, "description": "With 'unfinished': what is not done, and why."},
}
_WHY_EXIT = (
    "End the whole job with this answer to the user: nobody else takes a turn. Use it when nothing is left to do."
)
_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "The final answer to the user."}},
    "required": ["answer"],
}


def says_it_hands_over(text: str, targets: Iterable[str]) -> bool:
    """Tell whether a reply without a call only says that another agent, which it names, will go on."""
    if len(text) > _MOST_SAID or not _HANDING_OVER.search(text):
        return False
    said = _plain(text)
    return any(_plain(target) in said for target in targets)


def _plain(text: str) -> str:
    return re.sub(r"[-_\s]+", " ", text).casefold()
