"""Which tools of a worker an agent gets, and which of those that its file names the worker lacks."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from ekiden.shared.definitions.mcp_use import servers_used
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.mcp.names import announced_as
from ekiden.shared.relay.leg import Leg
from ekiden.workers.completion import CONTROLS
from ekiden.workers.lacking import Lacking, Pools, lacking_folder, lacking_tools, nobody_else, why_not_here
from ekiden.workers.mcp.resources import readers_joined
from ekiden.workers.mcp.served import Keep, note_served
from ekiden.workers.mcp.toolbox import Offered
from ekiden.workers.permissions import permits
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.kept import read_output
from ekiden.workers.tools.registry import Registry

__all__ = ["OwnTools", "Servers"]


class Servers(Protocol):
    """The MCP servers of a worker."""

    def unknown(self, agent: AgentDefinition) -> tuple[str, ...]:
        """Return the servers that the agent uses and nobody has told this worker of."""
        ...

    async def offered_to(self, agent: AgentDefinition, leg: Leg) -> Offered:
        """Return the tools that the agent gets, and what reads resources."""
        ...


class OwnTools:
    """The tools of one worker, built in and brought, and those of its MCP servers."""

    def __init__(
        self,
        registry: Registry,
        *,
        root: Path | None,
        servers: Servers | None = None,
        keep: Keep | None = None,
        pools: Pools = nobody_else,
    ) -> None:
        """Put it together.

        Args:
            registry: The tools.
            root: Where file tools may work; None: nowhere.
            servers: The MCP servers; None: there are none.
            keep: Keeps what they offer, for those who run jobs again; None: nobody will.
            pools: Tells which pools there are, and so what other workers have.
        """
        self._registry = registry
        self._root = root
        self._servers = servers
        self._keep = keep
        self._pools = pools
        self._offered_by_digest: dict[str, tuple[Tool, ...]] = {}
        """Of what each definition permits."""
        self._missing_by_digest: dict[str, list[str]] = {}
        """Of what each definition names."""
        self._with_servers: dict[str, bool] = {}
        """Whether each definition, by its digest, names a server."""

    def offered_to(self, agent: AgentDefinition, leg: Leg) -> tuple[Tool, ...]:
        """Return the tools that the agent gets: the same ones in each leg that nobody else bounds."""
        known = {} if leg.request.bounds else self._offered_by_digest
        if agent.digest not in known:
            known[agent.digest] = self._registry.offered_to(permits(agent, leg, self._registry))
        return known[agent.digest]

    async def of_servers(self, agent: AgentDefinition, leg: Leg) -> Offered:
        """Return what MCP servers offer the agent, which is recorded for those who run the job again."""
        if self._servers is None or not self._uses_servers(agent):
            return Offered()
        offered = await self._servers.offered_to(agent, leg)
        await note_served(leg, offered, self._keep)
        readers = (readers_joined(offered.readers),) if offered.readers else ()
        return Offered((*offered.tools, *readers), offered.problems)

    async def lacking(self, agent: AgentDefinition, leg: Leg) -> tuple[Collection[str], Lacking | None]:
        """Return the tools that the agent goes without, and what this worker lacks that is worth waiting for.

        What the toolbox of servers tells the agent about itself is not among the former.
        """
        without: Collection[str] = ()
        if missing := self._missing(agent, leg):
            without, lacking = lacking_tools(missing, leg, await self._pools(), has_root=self._root is not None)
            if lacking is not None:
                return without, lacking
        told = [name for name in without if not self._is_of_server(name)]
        needs_folder = any(tool.needs_workspace for tool in self.offered_to(agent, leg))
        if not (leg.cwd and self._root and needs_folder) or not (why := why_not_here(leg, self._root)):
            return told, None
        return told, lacking_folder(leg, why, await self._pools())

    def _uses_servers(self, agent: AgentDefinition) -> bool:
        if agent.digest not in self._with_servers:
            self._with_servers[agent.digest] = bool(servers_used(agent))
        return self._with_servers[agent.digest]

    def _missing(self, agent: AgentDefinition, leg: Leg) -> list[str]:
        """Return the entries of the agent's file that no tool of this worker answers to; see ``offered_to``."""
        known = {} if leg.request.bounds else self._missing_by_digest
        if agent.digest not in known:
            known[agent.digest] = self._looked_for(agent, leg)
        return known[agent.digest]

    def _looked_for(self, agent: AgentDefinition, leg: Leg) -> list[str]:
        may = permits(agent, leg, self._registry)
        own = (*CONTROLS, read_output.name)
        lacking = [name for name in self._registry.missing(_named(agent)) if may(name) and name not in own]
        if self._servers is None:
            return lacking
        tools = [name for name in lacking if not self._is_of_server(name)]
        return [*tools, *map(announced_as, self._servers.unknown(agent))]

    def _is_of_server(self, entry: str) -> bool:
        """Tell whether the toolbox of servers tells about an entry that is missing."""
        return self._servers is not None and entry.startswith("mcp.")


def _named(definition: AgentDefinition) -> Sequence[str]:
    """Return the tools that the file names; where it names none, what this worker has is enough."""
    return (definition.tools.allow if definition.tools else None) or ()
