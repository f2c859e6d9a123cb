"""The line above what one agent says."""

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import NoCatalog

__all__ = ["print_header", "title_of"]


def print_header(title: str, mode: str = "") -> None:
    """Say whom one talks to."""
    out = Output()
    out.line(f"{out.symbols['agent']} {title}{mode}", "bold")


async def title_of(client: Client, agent: str) -> str:
    """Return an agent's name for people; its plain name while no catalog is published. Raises ``UnknownAgent``."""
    try:
        return (await client.definition(agent)).title
    except NoCatalog:
        return agent
