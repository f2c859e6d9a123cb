"""What servers keep to be read: one tool for models, to rules each server's own."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import ToolError
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.workers.mcp.agents import AgentServers
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import Listing
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.resources import readers_joined
from ekiden.workers.mcp.toolbox import McpTools
from ekiden.workers.tools.base import Tool, ToolContext
from ekiden.workers.tools.running import Running
from tests.unit.mcp.test_hub import Remembered, double
from tests.unit.workers.offered import leg_of

pytestmark = pytest.mark.anyio

SERVERS = {"notes": double("library", trust=True), "wild": double("library"), "plain": double()}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    hub = Hub({}, Starter({"PATH": os.environ["PATH"]}))
    yield hub
    hub.close()


def agent(front_matter: str) -> AgentDefinition:
    fields = yaml.safe_load(f"name: a\ndescription: An agent.\n{front_matter}")
    return definition_from(fields, "You are.")


async def reader(hub: Hub, front_matter: str, servers: Mapping[str, ServerEntry] = SERVERS) -> Tool | None:
    offered = await AgentServers(McpTools(hub, Remembered()), servers).offered_to(agent(front_matter), leg_of("a"))
    return readers_joined(offered.readers) if offered.readers else None


async def read(tool: Tool | None, server: str, uri: str, context: ToolContext) -> str:
    assert tool is not None
    output: Any = await tool.function(tool.parse({"server": server, "uri": uri}), context)  # type: ignore[misc]
    return str(output.text)


async def test_resources_are_told_to_the_model_and_read(hub: Hub, tmp_path: Path) -> None:
    context = ToolContext("j", 1, "a", "c", tmp_path, tmp_path)
    tool = await reader(hub, "mcp: {servers: [notes]}")
    assert tool is not None
    assert "note://1 (first: A greeting.)" in tool.spec.description
    assert "and 20 more" in tool.spec.description
    assert await read(tool, "notes", "note://1", context) == "[resource note://1]\n你好"
    with pytest.raises(ToolError, match="there is no note://0"):
        await read(tool, "notes", "note://0", context)
    with pytest.raises(ToolError, match="not valid"):
        await read(tool, "other", "note://1", context)


async def test_what_is_no_text_is_kept_beside_the_result(hub: Hub, tmp_path: Path) -> None:
    running = Running(None)
    context = ToolContext("j", 1, "a", "c", tmp_path, tmp_path, running=running)
    text = await read(await reader(hub, "mcp: {servers: [notes]}"), "notes", "note://picture", context)
    assert "resource-1.png, image/png, 8 bytes" in text


async def test_one_tool_reads_of_several_servers_and_a_call_is_that_servers_to_rules(hub: Hub, tmp_path: Path) -> None:
    context = ToolContext("j", 1, "a", "c", tmp_path, tmp_path)
    tool = await reader(hub, "mcp: {servers: [notes, wild, plain]}")
    assert tool is not None
    assert tool.spec.parameters["properties"]["server"]["enum"] == ["notes", "wild"]
    assert (tool.risk, tool.untrusted, tool.read_only) == ("high", True, False)
    assert await read(tool, "wild", "note://1", context) == "[resource note://1]\n你好"
    for server, risk in (("notes", "safe"), ("wild", "high")):
        meant = tool.meant_by({"server": server})
        assert (meant.rule_name, meant.risk) == (f"mcp.{server}.read_mcp_resource", risk)
    assert tool.meant_by({"server": "other"}) is tool


@pytest.mark.parametrize(
    "front_matter",
    [
        "mcp: {servers: [plain]}",
        "mcp: {servers: [notes]}\ntools: [mcp.notes.echo]",
        "mcp: {servers: [notes]}\ntools: {deny: [mcp.notes.read_mcp_resource]}",
    ],
)
async def test_no_agent_reads_what_its_file_does_not_allow(hub: Hub, front_matter: str) -> None:
    assert await reader(hub, front_matter) is None


async def test_resources_that_cannot_be_listed_cost_nothing_else(hub: Hub) -> None:
    listing = await hub.listing("double", double("odd-library"))
    assert listing.tools
    assert not listing.resources


async def test_a_listing_is_read_as_it_was_written(hub: Hub) -> None:
    listing = await hub.listing("double", double("library"))
    assert [one.name for one in listing.prompts[0].arguments] == ["file", "tone"]
    assert Listing.from_json(listing.to_json()) == listing
