"""Asks a server what it offers, once its session stands."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any

import mcp_types as types
from mcp import Client as McpClient
from mcp import MCPError
from pydantic import ValidationError

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import Expected
from ekiden.workers.mcp.listing import ListedArgument, ListedPrompt, ListedResource, ListedTool, Listing

__all__ = ["discovered"]

_MOST_TOOLS = 1_000
_LONGEST_NAME = 200
"""Characters of what a server calls itself."""
_MOST_OTHERS = 200
_LONGEST_DESCRIPTION = 4_000
_LONGEST_LINE = 300


async def discovered(client: McpClient, expected: Expected, dropped: dict[str, str]) -> Listing:
    """Return what the server offers; resources or prompts that cannot be listed are none.

    Args:
        client: A session with it.
        expected: Who it must be.
        dropped: The tools that the transport leaves out, with why.

    Raises:
        ConfigurationError: it says that it is another one.
    """
    info, session, can = client.server_info, client.session, client.server_capabilities
    _expect(expected, info)
    tools = await _all(session.list_tools, "tools", _MOST_TOOLS)
    resources = list[ListedResource]()
    if can.resources is not None:
        resources += map(_resource, await _some(session.list_resources, "resources"))
        resources += map(_template, await _some(session.list_resource_templates, "resource_templates"))
    prompts = await _some(session.list_prompts, "prompts") if can.prompts is not None else []
    named = f"{info.name} {info.version}"[:_LONGEST_NAME] if info else ""
    return Listing(tuple(map(_tool, tools)), dropped, named, tuple(resources), tuple(map(_prompt, prompts)))


async def _some(ask: Callable[..., Awaitable[Any]], field: str) -> list[Any]:
    try:
        return await _all(ask, field, _MOST_OTHERS)
    except (MCPError, ValidationError) as error:
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            raise
        return []


async def _all(ask: Callable[..., Awaitable[Any]], field: str, most: int) -> list[Any]:
    found, cursor = list[Any](), None
    while len(found) < most:
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        found += getattr(page, field)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:most]


def _expect(expected: Expected, info: types.Implementation | None) -> None:
    for what, wanted, found in (
        ("name", expected.name, info and info.name),
        ("version", expected.version, info and info.version),
    ):
        if wanted is not None and wanted != found:
            raise ConfigurationError(
                f"it says that its {what} is {found!r}, where 'expect' demands {wanted!r}: nothing of it is used"
            )


def _tool(tool: types.Tool) -> ListedTool:
    hints = tool.annotations or types.ToolAnnotations()
    return ListedTool(
        tool.name,
        (tool.description or tool.title or tool.name)[:_LONGEST_DESCRIPTION],
        tool.input_schema,
        only_reads=hints.read_only_hint is True,
        only_adds=hints.destructive_hint is False,
        idempotent=hints.idempotent_hint is True,
    )


def _resource(one: types.Resource) -> ListedResource:
    return ListedResource(one.uri, _line(one.title or one.name, one.description))


def _template(one: types.ResourceTemplate) -> ListedResource:
    return ListedResource(one.uri_template, _line("template", one.title or one.name, one.description))


def _prompt(one: types.Prompt) -> ListedPrompt:
    taken = [ListedArgument(arg.name, arg.required is True) for arg in one.arguments or ()]
    return ListedPrompt(one.name, _line(one.description or one.title), tuple(taken))


def _line(*parts: str | None) -> str:
    return ": ".join(islice(_plain(parts), 3))[:_LONGEST_LINE]


def _plain(parts: tuple[str | None, ...]) -> Iterator[str]:
    for part in parts:
        if text := " ".join((part or "").split()):
            yield text
