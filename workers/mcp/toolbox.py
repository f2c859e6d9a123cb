"""Tools of MCP servers, for the agents whose files name them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ekiden.shared.errors import DefinitionError, StoreUnavailable
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.mcp.entries import ServerEntry, identity_of
from ekiden.shared.mcp.names import full_name, model_names
from ekiden.shared.risk import Risk
from ekiden.shared.schemas import check
from ekiden.workers.mcp.calls import carried_out, shown_by
from ekiden.workers.mcp.failures import NotReached
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import ListedTool, Listing
from ekiden.workers.mcp.resources import reader_of
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput
from ekiden.workers.tools.parsing import by_schema

__all__ = ["Listings", "McpTools", "Offered"]


class Listings(Protocol):
    """Where workers leave each other what servers offer."""

    async def get(self, server: str) -> str | None:
        """Return what was last put for a server, if it is not too old."""

    async def put(self, server: str, text: str) -> None:
        """Keep it."""


@dataclass(frozen=True)
class Offered:
    """The tools of some servers, and what is wrong with the rest."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()
    """Servers that are not there, tools that cannot be used: sentences for people and for the model."""
    readers: Mapping[str, Tool] = field(default_factory=dict)
    """What reads the resources of each server that has some."""


class McpTools:
    """Makes tools of what servers list."""

    def __init__(self, hub: Hub, listings: Listings) -> None:
        self._hub = hub
        self._listings = listings

    async def of(self, servers: Mapping[str, ServerEntry]) -> Offered:
        """Return the tools of ``servers``: one that is not there takes none of the others along."""
        found: list[tuple[str, ServerEntry, ListedTool]] = []
        problems: list[str] = []
        readers: dict[str, Tool] = {}
        for name, entry in servers.items():
            listing, wrong = await self._listed(name, entry)
            problems += wrong
            if listing.resources:
                readers[name] = reader_of(self._hub, name, entry, listing)
            found += [(name, entry, tool) for tool in listing.tools if entry.offers(tool.name)]
        names = model_names(((server, tool.name) for server, _, tool in found), servers)
        tools = []
        for server, entry, tool in found:
            try:
                tools.append(self._tool(names[server, tool.name], server, entry, tool))
            except DefinitionError as error:
                problems.append(_left_out(tool.name, server, str(error)))
        return Offered(tuple(tools), tuple(problems), readers)

    async def _listed(self, name: str, entry: ServerEntry) -> tuple[Listing, list[str]]:
        if entry.disabled:
            return Listing(), [f"the MCP server {name!r} is disabled in the settings"]
        try:
            listing = await self._remembered(name, entry)
        except NotReached as error:
            return Listing(), [str(error)]
        return listing, [_left_out(tool, name, why) for tool, why in listing.dropped.items()]

    async def _remembered(self, name: str, entry: ServerEntry) -> Listing:
        """Return what some worker was told lately, or ask the server, which starts it."""
        key = identity_of(name, entry)
        with suppress(StoreUnavailable, ValueError, TypeError, KeyError):
            if (text := await self._listings.get(key)) is not None:
                return Listing.from_json(text)
        listing = await self._hub.listing(name, entry)
        with suppress(StoreUnavailable):
            await self._listings.put(key, listing.to_json())
        return listing

    def _tool(self, name: str, server: str, entry: ServerEntry, tool: ListedTool) -> Tool:
        check(tool.schema)
        return Tool(
            ToolSpec(name=name, description=tool.description, parameters=dict(tool.schema)),
            by_schema(name, tool.schema),
            partial(self._call, server, entry, tool.name),
            read_only=entry.trust and tool.only_reads,
            idempotent=entry.trust and tool.idempotent,
            untrusted=not entry.trust,
            package=f"MCP server {server}",
            version="",
            risk=_risk_of(tool, is_trusted=entry.trust),
            timeout_s=entry.timeout_s,
            full_name=full_name(server, tool.name),
        )

    async def _call(self, server: str, entry: ServerEntry, tool: str, args: Any, context: ToolContext) -> ToolOutput:
        ask = partial(self._hub.call, server, entry, tool, args, progress=shown_by(context))
        return await carried_out(server, ask, context)


def _left_out(tool: str, server: str, why: str) -> str:
    return f"the tool {tool!r} of the MCP server {server!r} is left out: {why}"


def _risk_of(tool: ListedTool, *, is_trusted: bool) -> Risk:
    """What a server says counts only where its user trusts it: the protocol calls it hints."""
    if not is_trusted:
        return "high"
    if tool.only_reads:
        return "safe"
    return "medium" if tool.only_adds else "high"
