"""Which MCP servers an agent's file names, and which it describes itself."""

from collections.abc import Iterator
from typing import Any

from ekiden.shared.definitions.fields import MCP_SERVERS
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry, server_of

__all__ = ["own_servers", "permits_tool", "servers_named", "servers_used"]


def servers_used(agent: AgentDefinition) -> tuple[str, ...]:
    """Return the names of the servers that the agent uses: named as such, or by a tool that it is allowed."""
    by_tool = [entry.split(".")[1] for entry in agent.allowed if entry.startswith("mcp.") and entry.count(".") > 1]
    return tuple(dict.fromkeys([*servers_named(agent), *(name for name in by_tool if not set(name) & set("*?["))]))


def servers_named(agent: AgentDefinition) -> tuple[str, ...]:
    """Return the names of the servers that fields for servers name, in order."""
    names: list[str] = []
    for key in filter(agent.extra.__contains__, MCP_SERVERS):
        value = agent.extra[key]
        names += _names_in(value.get("servers", []) if key == "mcp" and isinstance(value, dict) else value)
    return tuple(dict.fromkeys(names))


def own_servers(agent: AgentDefinition) -> dict[str, ServerEntry | ConfigurationError]:
    """Return the servers that the file itself describes; one that is wrong as what is wrong with it."""
    return dict(_own(agent))


def permits_tool(agent: AgentDefinition, server: str, full_name: str, *, only_reads: bool) -> bool:
    """Tell whether the agent may use a server's tool.

    A server that the file names has all its tools allowed, unless 'tools' says which of them.
    """
    entries = (*(agent.rules.allow or ()), *agent.rules.unknown)
    is_narrowed = any(entry.startswith(f"mcp.{server}.") for entry in entries)
    if server in servers_named(agent) and not is_narrowed:
        return agent.rules.model_copy(update={"allow": ("*",)}).permits(full_name)
    return agent.permits(full_name, only_reads=only_reads)


def _own(agent: AgentDefinition) -> Iterator[tuple[str, ServerEntry | ConfigurationError]]:
    for key in filter(agent.extra.__contains__, MCP_SERVERS):
        value = agent.extra[key]
        if key == "mcp" and isinstance(value, dict):
            value = value.get("servers")
        for item in value if isinstance(value, list) else [value]:
            for name, described in item.items() if isinstance(item, dict) else ():
                try:
                    yield str(name), server_of(str(name), described)
                except ConfigurationError as error:
                    yield str(name), error


def _names_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return list(map(str, value))
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [name for item in value for name in _names_in(item)] if isinstance(value, list) else []
