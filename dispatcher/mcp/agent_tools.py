"""The tools that the fleet offers: one for each agent of the catalog in force, and three that look after jobs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.mcp.names import plain_names

__all__ = ["JOB_TOOLS", "AgentTool", "agent_tools", "prompt_of"]

_JOB = {
    "type": "object",
    "properties": {"job": {"type": "string", "description": "The job's id, as a call has returned it."}},
    "required": ["job"],
}


def _job_tool(name: str, description: str, *, only_reads: bool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=only_reads, destructive_hint=not only_reads, idempotent_hint=True)
    return types.Tool(name=name, description=description, input_schema=_JOB, annotations=hints)


JOB_TOOLS = (
    _job_tool("job_status", "Tell how a job stands: what it does now, who has it, what it waits for.", only_reads=True),
    _job_tool("job_result", "Wait a while for a job's end, and return its answer.", only_reads=True),
    _job_tool("job_cancel", "Stop a job.", only_reads=False),
)


@dataclass(frozen=True)
class AgentTool:
    """An agent as others may call it."""

    tool: types.Tool
    agent: AgentDefinition


def agent_tools(agents: Iterable[AgentDefinition]) -> dict[str, AgentTool]:
    """Return the tools of the agents, by the names that clients call."""
    ordered = sorted(agents, key=lambda agent: agent.name)
    names = plain_names((agent.name for agent in ordered), taken=(tool.name for tool in JOB_TOOLS))
    return {names[agent.name]: AgentTool(_tool(names[agent.name], agent), agent) for agent in ordered}


def prompt_of(args: Mapping[str, Any]) -> str:
    """Return what the job is asked for: the objective alone, or each input on a line."""
    if args.keys() == {"objective"}:
        return str(args["objective"])
    return "\n".join(f"{name}: {_plain(value)}" for name, value in args.items()) or "Do your task."


def _tool(name: str, agent: AgentDefinition) -> types.Tool:
    return types.Tool(
        name=name, title=agent.title, description=agent.description, input_schema=dict(agent.inputs_schema)
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
