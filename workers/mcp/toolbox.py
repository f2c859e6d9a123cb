"""Tools of MCP servers, for the agents whose files name them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ekiden.shared.errors import DefinitionError, ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.mcp.names import model_names
from ekiden.shared.risk import Risk
from ekiden.shared.schemas import check
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput
from ekiden.workers.tools.parsing import by_schema

if TYPE_CHECKING:
    import mcp_types as types

__all__ = ["McpTools", "Offered"]

_LONGEST_DESCRIPTION = 4_000


@dataclass(frozen=True)
class Offered:
    """The tools of some servers, and what is wrong with the rest."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()
    """Servers that are not there, tools that cannot be used: sentences for people and for the model."""


class McpTools:
    """Makes tools of what servers list."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def of(self, servers: Mapping[str, ServerEntry]) -> Offered:
        """Return the tools of ``servers``: one that is not there takes none of the others along."""
        found: list[tuple[str, ServerEntry, types.Tool]] = []
        problems: list[str] = []
        for name, entry in servers.items():
            listed, wrong = await self._listed(name, entry)
            found += [(name, entry, tool) for tool in listed]
            problems += wrong
        names = model_names((server, tool.name) for server, _, tool in found)
        tools = []
        for server, entry, tool in found:
            try:
                tools.append(self._tool(names[server, tool.name], server, entry, tool))
            except DefinitionError as error:
                problems.append(f"the tool {tool.name!r} of the MCP server {server!r} is left out: {error}")
        return Offered(tuple(tools), tuple(problems))

    async def _listed(self, name: str, entry: ServerEntry) -> "tuple[list[types.Tool], list[str]]":
        from ekiden.workers.mcp.connection import NotReached

        if entry.disabled:
            return [], [f"the MCP server {name!r} is disabled in the settings"]
        try:
            listing = await self._hub.listing(name, entry)
        except NotReached as error:
            return [], [str(error)]
        wrong = [
            f"the tool {tool!r} of the MCP server {name!r} is left out: {why}" for tool, why in listing.dropped.items()
        ]
        return [tool for tool in listing.tools if entry.offers(tool.name)], wrong

    def _tool(self, name: str, server: str, entry: ServerEntry, tool: "types.Tool") -> Tool:
        check(tool.input_schema)
        spec = ToolSpec(
            name=name,
            description=(tool.description or tool.title or tool.name)[:_LONGEST_DESCRIPTION],
            parameters=tool.input_schema,
        )
        hints = tool.annotations if entry.trust else None
        return Tool(
            spec,
            by_schema(name, tool.input_schema),
            partial(self._call, server, entry, tool.name),
            read_only=bool(hints and hints.read_only_hint),
            idempotent=bool(hints and hints.idempotent_hint),
            untrusted=not entry.trust,
            package=f"MCP server {server}",
            version="",
            risk=_risk_of(hints),
            timeout_s=entry.timeout_s,
        )

    async def _call(self, server: str, entry: ServerEntry, tool: str, args: Any, context: ToolContext) -> ToolOutput:
        from ekiden.workers.mcp.connection import McpFailure

        try:
            result = await self._hub.call(server, entry, tool, args)
        except McpFailure as error:
            raise ToolError(str(error)) from None
        return _output_of(result)


def _output_of(result: Any) -> ToolOutput:
    from ekiden.workers.mcp.results import output_of

    return output_of(result, _not_kept)


def _not_kept(name: str, data: bytes, kind: str) -> str:
    return f"[{name}, {kind}, {len(data):,} bytes]"


def _risk_of(hints: "types.ToolAnnotations | None") -> Risk:
    """What a server says counts only where its user trusts it: the protocol calls it hints."""
    if hints is None:
        return "high"
    if hints.read_only_hint:
        return "safe"
    return "medium" if hints.destructive_hint is False else "high"
