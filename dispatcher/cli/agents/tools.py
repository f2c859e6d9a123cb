"""Which tools and MCP servers there are, for who writes agent files: those of running workers, else of workers here."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ekiden.dispatcher.cli.connection import server_address
from ekiden.shared.definitions.guardrails import BUILT_IN
from ekiden.shared.definitions.model import OUTPUT_PROCESSORS
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.errors import EkidenError
from ekiden.shared.mcp.entries import ServerEntry, identity_of
from ekiden.shared.mcp.names import full_name
from ekiden.shared.plugins import sources, why_no_name
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import tool_files
from ekiden.shared.settings.model import Settings
from ekiden.shared.settings.plugins import Group
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.views import PoolView

__all__ = ["KnownTools", "known_tools", "misnamed_tools", "tools_of"]

_READER = "read_mcp_resource"
"""What rules call it to read a server's resources."""
_QUIET_WAIT_S = 2.0
"""How long a server may take to tell: files are checked without one, too."""


@dataclass(frozen=True)
class KnownTools:
    """Tools by name."""

    names: frozenset[str] = BUILTIN_TOOLS
    """What the workers have that run; where none does, what they come with, and what the settings here add."""
    is_announced: bool = False
    """Whether workers that run have told so."""
    problems: tuple[str, ...] = ()
    """What those workers were to load and could not."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """The MCP servers that those workers know: empty where one of them has met nothing wrong, else what it has met."""

    processors: frozenset[str] = OUTPUT_PROCESSORS
    """Output processors: those that workers ship with, and of plug-ins that the settings here allow."""
    validators: frozenset[str] = BUILT_IN
    """Of guardrails: likewise."""
    server_tools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What MCP servers that are configured here have lately told workers that they have, as ``mcp.<server>.<tool>``."""
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What calls of tools that workers do not ship with are given, where they, or servers, have told it."""

    @property
    def whose(self) -> str:
        """Who is without a tool that is none of these."""
        return "no worker that runs has" if self.is_announced else "no worker ships with"

    def has(self, entry: str) -> bool:
        """Tell whether a tool has this name, or one that the pattern means."""
        return any(fnmatchcase(name, entry) for name in self.names)

    def ever_has(self, entry: str) -> bool:
        """Tell whether there is such a tool, or might be in a worker that is set up otherwise."""
        return self.has(entry) or any(fnmatchcase(name, entry) for name in BUILTIN_TOOLS)


def known_tools(settings: Settings, entries: Mapping[str, ServerEntry] | None = None) -> KnownTools:
    """Ask the workers of the configured server, or of the one that runs here; where there are none, look here.

    Code of plug-ins is not loaded for it: their entry points, and the text of a project's tool files, have the names.

    Args:
        settings: Those here.
        entries: The MCP servers that are configured here; of what they have, workers leave word. None is started.
    """
    pools, listings = _told(entries or {})
    told = {name: _names(name, listing) for name, listing in listings.items()}
    schemas = {
        full_name(name, tool["name"]): tool.get("schema", {})
        for name, listing in listings.items()
        for tool in listing["tools"]
    }
    processors, validators = (
        OUTPUT_PROCESSORS | _offered("outputs", settings),
        BUILT_IN | _offered("guardrails", settings),
    )
    if any(pool.kind == "worker" for pool in pools):
        known = tools_of(pools)
        schemas |= known.schemas
        return replace(known, server_tools=told, schemas=schemas, processors=processors, validators=validators)
    added = _offered("tools", settings)
    project = project_of(Path.cwd())
    of_project = [name for file in tool_files(project) for name in file.tools if not why_no_name(name)]
    names, wrong = BUILTIN_TOOLS.union(added, of_project), tuple(misnamed_tools(project))
    return KnownTools(
        names, server_tools=told, schemas=schemas, processors=processors, validators=validators, problems=wrong
    )


def misnamed_tools(project: Path) -> Iterator[str]:
    """Say of each tool of the project's tool files that workers will not load for its name."""
    for file in tool_files(project):
        yield from (f"tools: {file.name} {why}" for name in file.tools if (why := why_no_name(name)))


def _offered(group: Group, settings: Settings) -> frozenset[str]:
    """Return what plug-ins of a group that the settings allow are called."""
    return frozenset(source.name for source in sources(group, settings.allowed(group))[0])


def tools_of(pools: Iterable[PoolView]) -> KnownTools:
    """Return what these pools have announced."""
    workers = [pool for pool in pools if pool.kind == "worker"]
    names = frozenset(tool.name for pool in workers for tool in pool.tools)
    problems = dict.fromkeys(problem for pool in workers for problem in pool.problems)
    servers: dict[str, str] = {}
    for pool in workers:
        for name, problem in pool.servers.items():
            servers[name] = problem and servers.get(name, problem)
    schemas = {tool.name: tool.parameters for pool in workers for tool in pool.tools if tool.parameters}
    return KnownTools(names, is_announced=True, problems=tuple(problems), servers=servers, schemas=schemas)


_Told = tuple[list[PoolView], dict[str, dict[str, Any]]]
"""What workers announce, and what servers have told them (``workers/mcp/listing.py``)."""


def _told(entries: Mapping[str, ServerEntry]) -> _Told:
    try:
        with server_address(None, None, may_start=False) as url:
            return asyncio.run(_asked(url, entries))
    except (EkidenError, TimeoutError):
        return [], {}


async def _asked(url: str, entries: Mapping[str, ServerEntry]) -> _Told:
    async with asyncio.timeout(_QUIET_WAIT_S):
        stores = open_stores(url, retries=0)
        try:
            listings = {name: await stores.listings.get(identity_of(name, entry)) for name, entry in entries.items()}
            return await stores.pools.pools(), {name: json.loads(text) for name, text in listings.items() if text}
        finally:
            await stores.close()


def _names(server: str, listing: Mapping[str, Any]) -> frozenset[str]:
    """Return the tools of a listing."""
    names = [*(tool["name"] for tool in listing["tools"]), *listing["dropped"], _READER]
    return frozenset(full_name(server, name) for name in names)
