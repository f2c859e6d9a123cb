"""What an agent is called with: the inputs that its file declares, completed and checked."""

from collections.abc import Iterator, Mapping
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.schemas import problems
from ekiden.shared.storable import read_json
from ekiden.shared.suggestions import nearest

__all__ = ["OBJECTIVE", "called_with", "needs_inputs", "why_not_callable"]

OBJECTIVE = "objective"
"""The input that is the request itself, where nobody says otherwise."""


def called_with(agent: AgentDefinition, given: Mapping[str, Any], request: str = "") -> dict[str, Any]:
    """Return the agent's inputs: those ``given``, the defaults of its file, and the ``request`` as its objective.

    A text for an input that is declared as something else is read as JSON: a command line has nothing but texts.
    """
    known: Mapping[str, Any] = agent.inputs_schema["properties"]
    defaults = {name: field["default"] for name, field in known.items() if "default" in field}
    if request and known.get(OBJECTIVE, {}).get("type") == "string":
        defaults[OBJECTIVE] = request
    return defaults | {name: _read(value, known.get(name)) for name, value in given.items() if value is not None}


def needs_inputs(agent: AgentDefinition) -> list[str]:
    """Return the inputs that an agent cannot do without, and that a request alone does not give it."""
    if not agent.inputs:
        return []
    given = called_with(agent, {}, "a request")
    return [name for name in agent.inputs_schema["required"] if name not in given]


def why_not_callable(agent: AgentDefinition, given: Mapping[str, Any], request: str) -> str:
    """Say why a request cannot go to the agent with these inputs, and what to do; empty: it can."""
    if not agent.inputs and not given:
        return ""
    inputs = called_with(agent, given, request)
    schema = agent.inputs_schema
    missing = [name for name in schema["required"] if name not in inputs]
    found = list(_unknown(inputs, list(schema["properties"])))
    found += problems(inputs, {**schema, "required": []})
    how = f"name the agent and give it, as by --agent {agent.name} --input"
    found += [f"the input {name!r} is missing: {how} {name}=…" for name in missing]
    return "\n".join([f"agent {agent.name!r} cannot be called so:", *(f"- {one}" for one in found)]) if found else ""


def _unknown(inputs: Mapping[str, Any], known: list[str]) -> Iterator[str]:
    for name in inputs:
        if name not in known:
            near = nearest(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"its file declares {', '.join(known)}"
            yield f"there is no input {name!r}: {hint}"


def _read(value: Any, field: Mapping[str, Any] | None) -> Any:
    if not isinstance(value, str) or field is None or field.get("type") == "string":
        return value
    try:
        return read_json(value)
    except ValueError:
        return value
