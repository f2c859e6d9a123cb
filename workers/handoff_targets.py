"""Where an agent can hand over to, and how that is put to its model: a tool for each target, or one for all."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ekiden.shared.definitions.model import AgentDefinition, HandoffRule
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.records import HandedOff, JobRequested
from ekiden.shared.relay.leg import Leg
from ekiden.shared.storable import read_json
from ekiden.shared.subschemas import SchemaEmbedder

__all__ = [
    "AGENT_NAME",
    "MOST_TOOLS",
    "SINGLE",
    "Target",
    "instruction_for",
    "payload_of",
    "shares_a_tool",
    "single_tool",
    "targets_of",
    "tool_for",
]

SINGLE = "transfer_to_agent"
"""The tool of the single style."""
AGENT_NAME = "agent_name"
"""Its argument that names the target."""
MOST_TOOLS = 20
"""Targets above which they share one tool, unless the agent's file says otherwise."""

MOST_JSON = 1_000_000
"""Characters of a payload that a model gives as text; a longer one is no JSON here."""

_TEXTS: dict[str, Any] = {
    "reason": {"type": "string", "description": "Why this agent should go on."},
    "context": {"type": "string", "description": "What it must know: files, lines, findings, constraints."},
    "summary": {"type": "string", "description": "What has been done so far, in a few sentences."},
}
_RESERVED = {*_TEXTS, "payload", AGENT_NAME}
_SPREAD = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema", "$comment"}
"""The keywords of a schema whose fields can stand beside the texts."""
_SHARED = ("$defs", "definitions")
"""The keywords that references into a schema lead to."""


@dataclass(frozen=True)
class Target:
    """An agent that control can go to."""

    rule: HandoffRule
    tool: str
    """The name of its own tool, also where the single one is offered."""
    about: str
    """What the agent is for."""


def shares_a_tool(agent: AgentDefinition, targets: int) -> bool:
    """Tell whether so many targets (or sub-agents) have one tool: as the file says, else where they are many."""
    return agent.transfer == "single" or (agent.transfer is None and targets > MOST_TOOLS)


def max_depth_for(agent: AgentDefinition, request: JobRequested) -> int:
    """Return how deep the chain may get by a move of ``agent``: it widens nothing of what the agents above allow."""
    own, above = agent.limits.max_handoff_depth, request.max_depth
    return own if above is None else min(own, above)


def targets_of(agent: AgentDefinition, leg: Leg) -> list[HandoffRule]:
    """Return the edges that the agent's model may choose in this leg where their conditions hold, its file's first."""
    rules = [rule for rule in agent.handoffs if rule.when == "manual"]
    parent = leg.context.from_agent
    if agent.transfer_to_parent and parent not in agent.targets and _can_take_back(parent, leg):
        rules.append(HandoffRule(to=parent, description="Hand back to the agent that gave you control."))
    return rules


def _can_take_back(parent: str, leg: Leg) -> bool:
    """Whether ``parent`` has had this very job, and does not wait for its result anyway, as a graph does."""
    if leg.context.begins_node:
        return False
    moves = (entry.record for entry in leg.entries if isinstance(entry.record, HandedOff))
    has_had_it = parent in {move.context.to_agent for move in moves}  # a caller in another job has not, nor the user
    return has_had_it and parent not in {frame.agent for frame in leg.context.calls}


def tool_for(target: Target) -> ToolSpec:
    """Return the target's own tool: the fields of its payload stand beside the texts where they can."""
    schema = target.rule.payload
    if schema is None:
        return _plain_tool(target.tool, _described(target))
    within = SchemaEmbedder()
    if not _can_spread(schema):
        properties, required = {"payload": within.taken(schema, schema)}, ["payload"] if schema.get("required") else []
    else:
        properties = {name: within.taken(one, schema) for name, one in schema["properties"].items()}
        required = schema.get("required", [])
    return _tool(target.tool, _described(target), properties, required, within.shared)


@lru_cache(maxsize=1_024)
def _plain_tool(name: str, description: str) -> ToolSpec:
    """Return a tool that takes the texts of every handoff, and no more: the same one in each leg."""
    return _tool(name, description, {}, [])


def single_tool(targets: Iterable[Target]) -> ToolSpec:
    """Return the one tool for all; what the agents are for, and what they take, is in ``instruction_for``."""
    targets = list(targets)
    name = {"type": "string", "enum": [target.rule.to for target in targets], "description": "Who should go on."}
    properties = {AGENT_NAME: name}
    if any(target.rule.payload for target in targets):
        said = "Data for the agent, as its entry in the list of agents declares it."
        properties["payload"] = {"type": "object", "description": said}
    return _tool(SINGLE, "Hand over to another agent of the list in your instructions.", properties, [AGENT_NAME])


def instruction_for(targets: Iterable[Target]) -> str:
    """Return what the agent's instructions say of the single tool: who is there, and when to call it."""
    entries = "\n".join(_entry(target) for target in targets)
    return f"{_AGENTS}\n{entries}\n{_RULE}" if entries else ""


_AGENTS = f"These agents can take over from you, each by its name in a call of {SINGLE}:"
_RULE = f"""\
Go by the descriptions. Where you are the right one for the task, do it and answer. Where one of these agents is the \
better one for what is left, call {SINGLE} with its name exactly as it stands here. Only the call hands over: to write \
of it does nothing."""


def _entry(target: Target) -> str:
    described = " ".join(_described(target, lead="").split())  # one line: no description can pass for another entry
    takes = target.rule.payload
    payload = f"\n  payload: {json.dumps(takes, ensure_ascii=False, separators=(',', ':'))}" if takes else ""
    return f"- {target.rule.to}: {described}{payload}"


def payload_of(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Return the payload of a call, however the model put it: under ``payload``, beside the texts, or as JSON text.

    A null where nothing is demanded counts as nothing.
    """
    known, needed = _mapping(schema.get("properties")), schema.get("required", ())
    beside = {
        name: value
        for name, value in arguments.items()
        if name in known and name not in _RESERVED and (value is not None or name in needed)
    }
    given = _from_json(arguments.get("payload"))
    if given is None:
        return beside
    return {**beside, **given} if isinstance(given, Mapping) else given


def _can_spread(schema: Mapping[str, Any]) -> bool:
    known = _mapping(schema.get("properties"))
    return bool(known) and not known.keys() & _RESERVED and schema.keys() <= _SPREAD | {*_SHARED}


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: Iterable[str],
    shared: Mapping[str, Any] | None = None,
) -> ToolSpec:
    """Return a tool that takes ``properties`` and the texts of every handoff."""
    first = {key: value for key, value in properties.items() if key == AGENT_NAME}
    parameters = {
        "type": "object",
        "properties": {**first, **_TEXTS, **properties},
        "required": [*first, "reason", *(one for one in required if one not in first)],
        **(shared or {}),
    }
    return ToolSpec(name=name, description=description, parameters=parameters)


def _described(target: Target, lead: str = "Agent {to}: ") -> str:
    rule = target.rule
    back = "Control comes back to you with its result." if rule.returns else ""
    return "\n".join(part for part in (rule.description, lead.format(to=rule.to) + target.about, back) if part)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _from_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_json(value or "null") if len(value) <= MOST_JSON else value
    except ValueError:
        return value
