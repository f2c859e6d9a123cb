"""Serves the fleet over MCP: on standard input and output, or at an address."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ekiden.dispatcher.mcp.fleet import REQUEST_ID, Fleet, Result
from ekiden.shared.version import VERSION

__all__ = ["serve_at", "serve_stdio"]

NAME = "ekiden"
MOST_BODY = 1_000_000
"""Bytes of one request."""
STATE_TTL_S = 30 * 86_400.0
"""How long a question may wait for the client's user."""

_App = Callable[[Any, Any, Any], Awaitable[None]]


def fleet_server(fleet: Fleet, keys: Sequence[bytes] = ()) -> Server[Any]:
    """Return the server. ``keys`` seal what a client carries between two requests: the same for all replicas."""

    async def list_tools(context: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await fleet.tools())

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Result:
        async def progress(done: float, text: str) -> None:
            await context.session.report_progress(done, message=text)

        meta = dict(params.meta or {})
        request_id = meta.get(REQUEST_ID)
        return await fleet.call(
            params.name,
            params.arguments or {},
            progress,
            request_id=request_id if isinstance(request_id, str) else None,
            answers=params.input_responses,
            state=params.request_state,
            may_ask=context.protocol_version in MODERN_PROTOCOL_VERSIONS,
        )

    server: Server[Any] = Server(NAME, version=VERSION, on_list_tools=list_tools, on_call_tool=call_tool)
    security = RequestStateSecurity(keys=list(keys), ttl=STATE_TTL_S) if keys else RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


async def serve_stdio(fleet: Fleet, keys: Sequence[bytes]) -> None:
    """Serve whoever started this process, until its input ends."""
    server = fleet_server(fleet, keys)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_at(
    fleet: Fleet,
    host: str,
    port: int,
    keys: Sequence[bytes],
    token: str,
    hosts: Sequence[str],
    on_ready: Callable[[int], None],
) -> None:
    """Serve streamable HTTP at ``/mcp`` until interrupted.

    Args:
        fleet: What is served.
        host: The address to listen at.
        port: 0: a free one.
        keys: As ``fleet_server`` takes them.
        token: What clients must send as ``Authorization: Bearer …``; empty: nothing.
        hosts: Names, with ports, that a request's ``Host`` may say beside this machine's own.
        on_ready: Told the port, once it listens.
    """
    local = ["127.0.0.1:*", "localhost:*", "[::1]:*", *hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=local,
        allowed_origins=[f"{scheme}://{one}" for one in local for scheme in ("http", "https")],
    )
    app = fleet_server(fleet, keys).streamable_http_app(
        stateless_http=True, max_request_body_size=MOST_BODY, transport_security=security, host=host
    )
    config = uvicorn.Config(
        _guarded(app, token), host=host, port=port, log_level="warning", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    original = server.startup

    async def startup(*args: Any, **kwargs: Any) -> None:
        await original(*args, **kwargs)
        on_ready(server.servers[0].sockets[0].getsockname()[1])

    server.startup = startup  # type: ignore[method-assign]
    await server.serve()


def _guarded(app: _App, token: str) -> _App:
    """Let nobody in without the token."""
    if not token:
        return app
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, expected):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer ...\n"})
            return
        await app(scope, receive, send)

    return guarded
