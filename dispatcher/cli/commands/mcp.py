"""``ekiden mcp``: servers whose tools agents use, and the fleet as a server."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import DataDir, Redis, Trust, User
from ekiden.dispatcher.cli.running.request import user_name
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.plugins import fetch, offers
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.terminal_text import note
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["app"]

_LOCAL = ("127.0.0.1", "::1", "localhost")

app = typer.Typer(
    name="mcp", help="MCP: servers whose tools agents use, and your agents as a server.", no_args_is_help=True
)
for _source in offers("mcp", "ekiden") or ():  # of the worker side: dispatcher never imports workers
    _commands, _problem = fetch(_source)
    if not _problem:
        app.add_typer(_commands)


@app.command()
def serve(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="[HOST:]PORT", help="Serve at http://HOST:PORT/mcp. [stdin and stdout]"),
    ] = None,
    answer_within: Annotated[
        float, typer.Option(metavar="S", min=0, max=3_600, help="After so long a call is answered with its job's id.")
    ] = 50.0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PORT]", help="A name that this server is called by (may be repeated)."),
    ] = None,
    user: User = None,
    redis: Redis = None,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    """Serve the agents of the catalog in force as tools to MCP clients; each call is a job.

    At an address that others can reach, `ekiden.mcp_token` must be set: clients send it as a bearer token. On a machine
    that others use, or that runs what you do not trust, set it at 127.0.0.1, too. Replicas
    that share `ekiden.mcp_keys` go on with each other's questions.
    """
    settle_trust(trust)
    settings = load_settings(redis_url=redis)
    host, port = _address(http) if http is not None else ("", 0)
    if http is not None and host not in _LOCAL and not _token_of(settings):
        raise ConfigurationError(
            f"whoever reaches {host} could run your agents: set EKIDEN_MCP_TOKEN, which clients then send, or serve at "
            "127.0.0.1"
        )
    if http is not None and not _token_of(settings):
        note(
            "ekiden: every program and every user of this machine can run your agents through this: set "
            "EKIDEN_MCP_TOKEN, which clients then send"
        )
    asyncio.run(_serve(settings, host, port, answer_within, allow_host or (), user_name(user), redis, data_dir))


async def _serve(
    settings: Settings,
    host: str,
    port: int,
    answer_within_s: float,
    hosts: Sequence[str],
    user: str,
    redis: str | None,
    data_dir: Path | None,
) -> None:
    from ekiden.dispatcher.mcp.fleet import NOBODY_SERVES, Fleet
    from ekiden.dispatcher.mcp.server import serve_at, serve_stdio

    def ready(at: int) -> None:
        note(f"Serving agents at http://{host}:{at}/mcp")

    keys = [key.get_secret_value().encode() for key in settings.mcp_keys]
    async with connected(redis, data_dir) as client:
        if not any(pool.kind == "worker" for pool in await client.pools()):
            note(f"ekiden: {NOBODY_SERVES}")
        fleet = Fleet(client, answer_within_s=answer_within_s, user=user)
        if host:
            await serve_at(fleet, host, port, keys, _token_of(settings), hosts, ready)
        elif sys.stdin.isatty():
            raise InvalidRequest(
                "an MCP client starts this and speaks JSON to it: name it in its settings, or give --http"
            )
        else:
            await serve_stdio(fleet, keys)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidRequest(f"--http {text!r} is no address: give PORT, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _token_of(settings: Settings) -> str:
    return settings.mcp_token.get_secret_value() if settings.mcp_token else ""
