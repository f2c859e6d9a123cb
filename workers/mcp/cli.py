"""``ekiden mcp``: the MCP servers that the settings name, and whether they work. Found by its entry point."""

from typing import Annotated

import typer

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import say

__all__ = ["app"]

app = typer.Typer(help="MCP servers: which there are, whether they work, what they offer.", no_args_is_help=True)

_Trust = Annotated[bool, typer.Option("--trust", help="Trust the folder's settings for this once.")]
_AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output, and nothing else.")]


@app.command("list")
def list_servers(as_json: _AsJson = False, trust: _Trust = False) -> None:
    """List the servers that the settings name, and where. Nothing is started."""
    from ekiden.workers.mcp.commands import listed

    raise typer.Exit(listed(as_json=as_json, trust=trust))


@app.command("test")
def check_server(
    server: Annotated[str, typer.Argument(help="Its name in the settings.")],
    as_json: _AsJson = False,
    trust: _Trust = False,
) -> None:
    """Start a server, or connect to it, and list its tools as agents get them."""
    from ekiden.workers.mcp.commands import tested

    raise typer.Exit(tested(server, as_json=as_json, trust=trust))


@app.command("call")
def call_tool(
    server: Annotated[str, typer.Argument(help="Its name in the settings.")],
    tool: Annotated[str, typer.Argument(help="The tool's name, as the server calls it.")],
    args: Annotated[str, typer.Argument(help="Its arguments: a JSON object.")] = "{}",
    trust: _Trust = False,
) -> None:
    """Call a tool once, as yourself: nobody is asked, and no job knows of it."""
    from ekiden.shared.storable import read_json
    from ekiden.workers.mcp.commands import called

    try:
        given = read_json(args)
    except ValueError as error:
        raise InvalidRequest(f'ARGS is no JSON ({error}): give an object such as \'{{"text": "hello"}}\'') from None
    if not isinstance(given, dict):
        raise InvalidRequest(f"ARGS is a {type(given).__name__}: give a JSON object")
    code, text = called(server, tool, given, trust=trust)
    say(text, is_error=code != 0)
    raise typer.Exit(code)
