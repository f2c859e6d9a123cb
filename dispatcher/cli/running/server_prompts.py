"""Commands of a chat that are prompts of MCP servers: ``/mcp:SERVER:PROMPT ARGS``."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from ekiden.shared.plugins import fetch, offers

__all__ = ["PromptCommand", "Prompts", "prompts_here"]

_BEGINNING = "/mcp:"


class Prompts(Protocol):
    """What the worker side brings: see ``workers/mcp/prompts.py``."""

    def lines(self, project: Path) -> Coroutine[Any, Any, list[str]]:
        """Return a line for each prompt that the servers of a project have."""

    def text(self, project: Path, server: str, prompt: str, typed: str) -> Coroutine[Any, Any, str]:
        """Return the text of a prompt."""

    def close(self) -> None:
        """End the servers."""


class PromptCommand(NamedTuple):
    """What somebody has typed."""

    server: str
    prompt: str
    typed: str

    @classmethod
    def of(cls, text: str) -> "PromptCommand | None":
        """Return the command that a line is; None: it is none."""
        command, *rest = text.strip().split(maxsplit=1)
        server, colon, prompt = command.removeprefix(_BEGINNING).partition(":")
        if not (command.startswith(_BEGINNING) and server and colon and prompt):
            return None
        return cls(server, prompt, *(rest or [""]))


def prompts_here() -> Prompts | None:
    """Return what speaks to servers here; None: no worker side is installed."""
    for source in offers("mcp_prompts", "ekiden") or ():
        made, problem = fetch(source)
        if not problem:
            return cast(Prompts, made)
    return None
