"""Which servers' tools an agent gets: those that its file names, as far as it, and the agents above it, allow them."""

from collections.abc import Mapping
from dataclasses import replace

from ekiden.shared.definitions.mcp_use import own_servers, permits_tool, servers_used
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.relay.leg import Leg
from ekiden.shared.settings.files import global_file
from ekiden.workers.mcp.toolbox import McpTools, Offered
from ekiden.workers.tools.base import Tool

__all__ = ["AgentServers", "allowed_of"]


class AgentServers:
    """The servers of one worker."""

    def __init__(self, tools: McpTools, configured: Mapping[str, ServerEntry]) -> None:
        self._tools = tools
        self._configured = configured

    def unknown(self, agent: AgentDefinition) -> tuple[str, ...]:
        """Return the servers that the agent uses and nobody has told this worker of."""
        if not (used := servers_used(agent)):
            return ()
        own = {} if agent.untrusted else own_servers(agent)
        return tuple(name for name in used if name not in self._configured and name not in own)

    async def offered_to(self, agent: AgentDefinition, leg: Leg) -> Offered:
        """Return the tools that the agent gets, as far as those that delegated the job allow them."""
        if not (used := servers_used(agent)):
            return Offered()
        found: dict[str, ServerEntry] = {}
        problems = [
            f"MCP server not configured: {name}. Add it to 'mcpServers' in {global_file()} of the worker"
            for name in self.unknown(agent)
        ]
        own = {} if agent.untrusted else own_servers(agent)
        for name in used:
            entry = own.get(name, self._configured.get(name))
            if isinstance(entry, ConfigurationError):
                problems.append(str(entry))
            elif entry is not None:
                found[name] = entry
        if not found:
            return Offered((), tuple(problems))
        offered = await self._tools.of(found)
        return allowed_of(replace(offered, problems=(*problems, *offered.problems)), agent, leg)


def allowed_of(offered: Offered, agent: AgentDefinition, leg: Leg) -> Offered:
    """Return what of ``offered`` the agent may use, and those that delegated the job to it."""

    def is_allowed(tool: Tool) -> bool:
        name, reads = tool.rule_name, tool.read_only and not tool.untrusted
        own = permits_tool(agent, name.split(".")[1], name, only_reads=reads)
        return own and all(rules.permits(name, only_reads=reads) for rules in leg.request.bounds)

    readers = {server: tool for server, tool in offered.readers.items() if is_allowed(tool)}
    return replace(offered, tools=tuple(filter(is_allowed, offered.tools)), readers=readers)
