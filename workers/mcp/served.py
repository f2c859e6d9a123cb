"""What MCP servers offered an agent, as journals name it: recorded here, and made tools of again by who plays a job."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from ekiden.shared.definitions.model import canonical_json
from ekiden.shared.errors import StoreUnavailable, ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.records import Served, ServedTool, ServedTools
from ekiden.shared.relay.leg import Leg
from ekiden.workers.mcp.toolbox import Offered
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput
from ekiden.workers.tools.parsing import by_schema

__all__ = ["Keep", "note_served", "offered_of"]

Keep = Callable[[str], Awaitable[str]]
"""Keeps a text for as long as a journal may name it, and returns its digest."""


async def note_served(leg: Leg, offered: Offered, keep: Keep | None) -> None:
    """Record what the leg's agent is offered, unless the job has recorded just that of it."""
    if keep is None:
        return
    with suppress(StoreUnavailable):  # nobody will be told what was offered: the leg can do without
        digest = await keep(canonical_json(_served(offered).model_dump(mode="json")))
        records = (entry.record for entry in reversed(leg.entries))
        before = next((one for one in records if isinstance(one, Served) and one.agent == leg.agent), None)
        if before is None or before.digest != digest:
            await leg.record(Served(leg=leg.number, agent=leg.agent, digest=digest))


def offered_of(served: ServedTools) -> Offered:
    """Return the tools that were offered; they do nothing."""
    readers = {server: _tool(one) for server, one in served.readers.items()}
    return Offered(tuple(map(_tool, served.tools)), served.problems, readers)


def _served(offered: Offered) -> ServedTools:
    return ServedTools(
        tools=tuple(map(_told, offered.tools)),
        readers={server: _told(tool) for server, tool in offered.readers.items()},
        problems=offered.problems,
    )


def _told(tool: Tool) -> ServedTool:
    return ServedTool(
        name=tool.name,
        description=tool.spec.description,
        parameters=tool.spec.parameters,
        full_name=tool.full_name,
        package=tool.package,
        risk=tool.risk,
        read_only=tool.read_only,
        idempotent=tool.idempotent,
        untrusted=tool.untrusted,
    )


def _tool(served: ServedTool) -> Tool:
    return Tool(
        ToolSpec(name=served.name, description=served.description, parameters=served.parameters),
        by_schema(served.name, served.parameters),
        _not_here,
        read_only=served.read_only,
        idempotent=served.idempotent,
        untrusted=served.untrusted,
        package=served.package,
        version="",
        risk=served.risk,
        full_name=served.full_name,
    )


async def _not_here(_: object, __: ToolContext) -> ToolOutput:
    raise ToolError("its server is not there: a recorded job is played")
