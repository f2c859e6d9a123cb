"""``read_mcp_resource``: what servers keep to be read, for the agents that may use those servers.

To models it is one tool. To rules, files and approvals a call of it is ``mcp.<server>.read_mcp_resource``, with the
risk and the trust of that server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.mcp.names import full_name
from ekiden.shared.risk import RISKS
from ekiden.workers.mcp.calls import carried_out
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import ListedResource, Listing
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput
from ekiden.workers.tools.parsing import by_schema

__all__ = ["READER", "reader_of", "readers_joined"]

READER = "read_mcp_resource"
_MOST_SHOWN = 20
"""Resources of one server that a model is told of; it may name others."""
_MOST_CHARS = 160
_DOES = (
    "Read a resource that an MCP server keeps, by its URI: one of these, one that a result has named, or one made of a "
    "template by replacing what stands in braces."
)


def reader_of(hub: Hub, server: str, entry: ServerEntry, listing: Listing) -> Tool:
    """Return the tool that reads one server's resources."""
    return Tool(
        _spec({server: _shown(listing.resources)}),
        by_schema(READER, _schema([server])),
        partial(_read, hub, server, entry),
        read_only=entry.trust,
        untrusted=not entry.trust,
        package=f"MCP server {server}",
        version="",
        risk="safe" if entry.trust else "high",
        timeout_s=entry.timeout_s,
        full_name=full_name(server, READER),
    )


def readers_joined(readers: Mapping[str, Tool]) -> Tool:
    """Return the one tool that stands for those of several servers, by name; what it is not sure of is the worst."""
    first, *others = readers.values()
    if not others:
        return first
    told = {server: tool.spec.description.removeprefix(f"{_DOES}\n") for server, tool in readers.items()}

    async def read(args: Any, context: ToolContext) -> ToolOutput:
        output = await readers[args["server"]].function(args, context)  # type: ignore[misc]  # of ours, all are async
        assert isinstance(output, ToolOutput)
        return output

    tools = readers.values()
    return replace(
        first,
        spec=ToolSpec(name=READER, description="\n".join([_DOES, *told.values()]), parameters=_schema(list(readers))),
        parse=by_schema(READER, _schema(list(readers))),
        function=read,
        read_only=all(tool.read_only for tool in tools),
        untrusted=any(tool.untrusted for tool in tools),
        package="MCP servers",
        risk=max((tool.risk for tool in tools), key=RISKS.index),
        timeout_s=max(tool.timeout_s or 0.0 for tool in tools),
        full_name=READER,
        stands_for=lambda args: readers.get(str(args.get("server"))),
    )


async def _read(hub: Hub, server: str, entry: ServerEntry, args: Any, context: ToolContext) -> ToolOutput:
    return await carried_out(server, partial(hub.read, server, entry, args["uri"]), context)


def _spec(told: Mapping[str, str]) -> ToolSpec:
    lines = [f"Server {server!r}:\n{text}" for server, text in told.items()]
    return ToolSpec(name=READER, description="\n".join([_DOES, *lines]), parameters=_schema(list(told)))


def _schema(servers: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "server": {"type": "string", "enum": list(servers), "description": "Which server keeps it."},
            "uri": {"type": "string", "description": "The resource's URI."},
        },
        "required": ["server", "uri"],
    }


def _shown(resources: Sequence[ListedResource]) -> str:
    lines = [f"- {one.uri} ({one.told})"[:_MOST_CHARS] for one in resources[:_MOST_SHOWN]]
    if (more := len(resources) - _MOST_SHOWN) > 0:
        lines.append(f"- and {more:,} more")
    return "\n".join(lines)
