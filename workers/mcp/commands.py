"""What the commands of ``ekiden mcp`` do."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import InvalidRequest, ToolError
from ekiden.shared.mcp.configured import Configured, configured_servers
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.files import global_file
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say
from ekiden.shared.trust_prompts import settle_trust
from ekiden.workers.mcp.failures import McpFailure
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import Listing
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.toolbox import McpTools, Offered
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.tools.protected_paths import Protected

__all__ = ["called", "listed", "tested"]

T = TypeVar("T")
_FAILED = 1


def listed(*, as_json: bool, trust: bool) -> int:
    """Print the configured servers; return 1 where an entry is wrong."""
    found = _configured(trust)
    for name, entry in sorted(found.servers.items()):
        row = _row(name, entry, str(found.origins[name]))
        say(json.dumps(row, ensure_ascii=False) if as_json else _line(row))
    for problem in found.problems:
        note(f"ekiden: {problem}")
    if not (found.servers or found.problems or found.held or as_json):
        say(f"no MCP server is configured: add one to 'mcpServers' in {global_file()}")
    return _FAILED if found.problems else 0


def tested(server: str, *, as_json: bool, trust: bool) -> int:
    """Open a session and print what agents get; return 1 where something of it cannot be used."""
    entry = _entry(server, trust)

    async def look(hub: Hub) -> tuple[Listing, Offered]:
        listings = _Here()
        offered = await McpTools(hub, listings).of({server: entry})
        return listings.last, offered

    began = time.monotonic()
    listing, offered = _with_hub(look)
    took_s = round(time.monotonic() - began, 2)
    problems = [*offered.problems, *_unknown_tools(server, entry, listing)]
    rows = [{"name": tool.name, "risk": tool.risk, "description": tool.spec.description} for tool in offered.tools]
    if as_json:
        told = {"server": listing.server, "took_s": took_s, "tools": rows, "problems": problems}
        say(json.dumps(told, ensure_ascii=False))
    else:
        if rows:
            say(f"{listing.server or server}: {len(rows)} tools in {took_s:g} s")
        for row in rows:
            say(f"  {row['name']}  ({row['risk']})  {' '.join(row['description'].split())[:100]}")
        for problem in problems:
            note(f"ekiden: {problem}")
    return _FAILED if problems else 0


def called(server: str, tool: str, args: dict[str, Any], *, trust: bool) -> tuple[int, str]:
    """Call a tool; return the exit code and what to print."""
    from ekiden.workers.mcp.results import said_in

    entry = _entry(server, trust)
    try:
        return 0, said_in(_with_hub(lambda hub: hub.call(server, entry, tool, args)))
    except (McpFailure, ToolError) as error:
        return _FAILED, f"ekiden: {error}"


def _unknown_tools(server: str, entry: ServerEntry, listing: Listing) -> list[str]:
    """Say which tools the entry names and the server does not have: a slip, or a tool that has another name now."""
    has = {tool.name for tool in listing.tools} | listing.dropped.keys()
    named = {"includeTools": entry.include_tools or (), "excludeTools": entry.exclude_tools}
    return [
        f"{field!r} of the MCP server {server!r} names {name!r}, which is none of its tools: {', '.join(sorted(has))}"
        for field, names in named.items()
        for name in names
        if has and name not in has
    ]


class _Here:
    """Remembers nothing: who tests a server wants to know how it is now."""

    def __init__(self) -> None:
        self.last = Listing()

    async def get(self, server: str) -> str | None:
        return None

    async def put(self, server: str, text: str) -> None:
        self.last = Listing.from_json(text)


def _configured(trust: bool) -> Configured:
    settle_trust(trust)
    return configured_servers(project_of(Path.cwd()))


def _entry(server: str, trust: bool) -> ServerEntry:
    found = _configured(trust)
    if server in found.servers:
        return found.servers[server]
    for problem in found.problems:
        note(f"ekiden: {problem}")
    if server in found.held:
        raise InvalidRequest(
            f"the MCP server {server!r} stands in {found.held[server]}, and nobody trusts that folder: `ekiden trust` "
            "shows what it asks for, and grants it; --trust does for this once"
        )
    names = f"configured are {', '.join(sorted(found.servers))}" if found.servers else "none is configured"
    raise InvalidRequest(f"MCP server not configured: {server}. {names}; add it to 'mcpServers' in {global_file()}")


def _with_hub(use: Callable[[Hub], Awaitable[T]]) -> T:
    settings = load_settings()
    env = for_tools(os.environ, settings.tools_env)
    protected = Protected(settings.tools_read_only, settings.tools_writable)
    hub = Hub(os.environ, Starter(env, lambda: choose(settings, env), protected))

    async def used() -> T:
        return await use(hub)

    try:
        return asyncio.run(used())
    finally:
        hub.close()


def _row(name: str, entry: ServerEntry, origin: str) -> dict[str, Any]:
    command = " ".join([entry.address, *entry.args])
    return {
        "name": name,
        "transport": entry.transport,
        "address": command,
        "trust": entry.trust,
        "disabled": entry.disabled,
        "origin": origin,
    }


def _line(row: dict[str, Any]) -> str:
    marks = [mark for mark in ("disabled", "trust") if row[mark]]
    words = f" ({', '.join(marks)})" if marks else ""
    return f"{row['name']}{words}  {row['transport']}  {row['address']}  from {row['origin']}"
