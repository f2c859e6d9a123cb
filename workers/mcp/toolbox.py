"""Tools of MCP servers, for the agents whose files name them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from mimetypes import guess_extension
from typing import Any, Protocol

from ekiden.shared.errors import DefinitionError, StoreUnavailable, ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.mcp.entries import ServerEntry, identity_of
from ekiden.shared.mcp.names import full_name, model_names
from ekiden.shared.risk import Risk
from ekiden.shared.schemas import check
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import ListedTool, Listing
from ekiden.workers.tools.base import Answered, Tool, ToolContext, ToolOutput
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


class McpTools:
    """Makes tools of what servers list."""

    def __init__(self, hub: Hub, listings: Listings) -> None:
        self._hub = hub
        self._listings = listings

    async def of(self, servers: Mapping[str, ServerEntry]) -> Offered:
        """Return the tools of ``servers``: one that is not there takes none of the others along."""
        found: list[tuple[str, ServerEntry, ListedTool]] = []
        problems: list[str] = []
        for name, entry in servers.items():
            listing, wrong = await self._listed(name, entry)
            problems += wrong
            found += [(name, entry, tool) for tool in listing.tools if entry.offers(tool.name)]
        names = model_names(((server, tool.name) for server, _, tool in found), servers)
        tools = []
        for server, entry, tool in found:
            try:
                tools.append(self._tool(names[server, tool.name], server, entry, tool))
            except DefinitionError as error:
                problems.append(_left_out(tool.name, server, str(error)))
        return Offered(tuple(tools), tuple(problems))

    async def _listed(self, name: str, entry: ServerEntry) -> tuple[Listing, list[str]]:
        from ekiden.workers.mcp.connection import NotReached

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
        from ekiden.workers.mcp.connection import McpFailure, StateRefused

        try:
            try:
                result = await self._hub.call(
                    server, entry, tool, args, progress=_shown_by(context), **_answers(context.answered)
                )
            except StateRefused:  # it has forgotten what it asked: it is to ask anew
                result = await self._hub.call(server, entry, tool, args, progress=_shown_by(context))
        except McpFailure as error:
            raise ToolError(str(error)) from None
        return _output_of(server, result, context)


def _shown_by(context: ToolContext) -> Callable[[float, float | None, str | None], None]:
    """Return what shows those who follow the job how far a server says that it is."""

    def show(done: float, total: float | None, message: str | None) -> None:
        if total:
            context.progress(min(1.0, max(0.0, done / total)), message or "")
        elif message:
            context.write(f"{message}\n")

    return show


def _answers(answered: Answered | None) -> dict[str, Any]:
    """Return what a call goes on with."""
    if answered is None:
        return {}
    from ekiden.workers.mcp.questions import answers_of

    answers, state = answers_of(answered)
    return {"answers": answers, "state": state}


def _output_of(server: str, result: Any, context: ToolContext) -> ToolOutput:
    from ekiden.workers.mcp.questions import question_of
    from ekiden.workers.mcp.results import is_question, output_of

    if is_question(result):
        raise question_of(server, result)

    def keep(name: str, data: bytes, kind: str) -> str:
        file = f"{name}{guess_extension(kind) or ''}"
        context.artifact(file, data, kind)
        return f"[{file}, {kind}, {len(data):,} bytes]"

    return output_of(result, keep)


def _left_out(tool: str, server: str, why: str) -> str:
    return f"the tool {tool!r} of the MCP server {server!r} is left out: {why}"


def _risk_of(tool: ListedTool, *, is_trusted: bool) -> Risk:
    """What a server says counts only where its user trusts it: the protocol calls it hints."""
    if not is_trusted:
        return "high"
    if tool.only_reads:
        return "safe"
    return "medium" if tool.only_adds else "high"
