"""A server at an address: one session for many calls, with the headers of its entry."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import mcp_types as types
import pytest
import uvicorn
from mcp.server.lowlevel import Server

from ekiden.shared.mcp.entries import server_of
from ekiden.workers.mcp.connection import Connection
from ekiden.workers.mcp.programs import Starter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def listed(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="who", input_schema={"type": "object"})])


async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    said = context.request.headers.get("authorization", "nobody")
    return types.CallToolResult(content=[types.TextContent(text=said)])


@pytest.fixture
def address() -> Iterator[str]:
    server: Server[Any] = Server("web", version="1", on_list_tools=listed, on_call_tool=called)
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        program = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(program.serve([listening])), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        program.should_exit = True
        thread.join(60)


async def test_many_calls_are_one_session_and_send_the_headers_of_the_entry(address: str) -> None:
    entry = server_of("web", {"httpUrl": address, "headers": {"Authorization": "Bearer ${TOKEN}"}})
    one = Connection("web", entry, {"TOKEN": "t0ken"}, Starter({"PATH": os.environ["PATH"]}))
    try:
        for _ in range(3):
            result = await one.call("who", {})
            assert isinstance(result, types.CallToolResult)
            assert isinstance(result.content[0], types.TextContent)
            assert result.content[0].text == "Bearer t0ken"
        assert one.opened == 1
    finally:
        await one.close()
