"""Prompts of the configured servers, for people who chat: listed, and filled in with what they type."""

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.settings.model import load_settings
from ekiden.workers.mcp.failures import McpFailure, NotReached
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.listing import ListedPrompt
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.tools.protected_paths import Protected

__all__ = ["ServerPrompts"]

LIST_S = 10.0
"""How long servers may take to say which prompts they have."""


class ServerPrompts:
    """Found by its entry point: a chat knows no servers itself. Its servers run until it is closed."""

    async def lines(self, project: Path) -> list[str]:
        """Return a line for each prompt, and for each server that does not say which it has."""
        servers = self._servers(project)
        found = await asyncio.gather(*(self._lines(name, entry) for name, entry in servers.items()))
        return [line for lines in found for line in lines]

    async def text(self, project: Path, server: str, prompt: str, typed: str) -> str:
        """Return the text of a prompt.

        Args:
            project: Whose servers may be used, beside the user's.
            server: One of them.
            prompt: Which of its prompts.
            typed: Its arguments, as a person types them: in order, or NAME=VALUE.

        Raises:
            InvalidRequest: there is no such server or prompt, or an argument is missing.
        """
        from ekiden.workers.mcp.results import prompt_text

        servers = self._servers(project)
        if server not in servers:
            there = ", ".join(servers) or "none"
            raise InvalidRequest(f"MCP server not configured: {server} (configured are {there})")
        entry = servers[server]
        try:
            prompts = {one.name: one for one in (await self._hub.listing(server, entry)).prompts}
            if prompt not in prompts:
                names = ", ".join(prompts) or "none"
                raise InvalidRequest(f"the MCP server {server!r} has no prompt {prompt!r}: its prompts are {names}")
            args = arguments_of(prompts[prompt], typed, _usage(server, prompts[prompt]))
            return prompt_text(await self._hub.prompt(server, entry, prompt, args))
        except McpFailure as error:
            raise InvalidRequest(str(error)) from None

    def close(self) -> None:
        """End the servers."""
        self._hub.close()

    @cached_property
    def _hub(self) -> Hub:
        settings = load_settings()
        env = for_tools(os.environ, settings.tools_env)
        protected = Protected(settings.tools_read_only, settings.tools_writable)
        return Hub(os.environ, Starter(env, lambda: choose(settings, env), protected))

    def _servers(self, project: Path) -> Mapping[str, ServerEntry]:
        return {name: entry for name, entry in configured_servers(project).servers.items() if not entry.disabled}

    async def _lines(self, server: str, entry: ServerEntry) -> list[str]:
        try:
            async with asyncio.timeout(LIST_S):
                listing = await self._hub.listing(server, entry)
        except NotReached as error:
            return [str(error)]
        except TimeoutError:
            return [f"the MCP server {server!r} does not say which prompts it has"]
        return [f"{_usage(server, one)}  {one.told}".rstrip() for one in listing.prompts]


def arguments_of(prompt: ListedPrompt, typed: str, usage: str) -> dict[str, str]:
    """Return a prompt's arguments: what is not NAME=VALUE fills them in order, and the last one takes the rest.

    Raises:
        InvalidRequest: too few or too many, or a quotation that does not end.
    """
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise InvalidRequest(f"{error} in {typed!r}: quote a value as in a shell") from None
    names = [one.name for one in prompt.arguments]
    named = dict(word.split("=", 1) for word in words if word.partition("=")[0] in names and "=" in word)
    free = [word for word in words if not (word.partition("=")[0] in named and "=" in word)]
    args = named | _in_order([name for name in names if name not in named], free)
    missing = [one.name for one in prompt.arguments if one.is_required and one.name not in args]
    if missing or (free and len(named) == len(names)):
        why = f"it needs {', '.join(missing)}" if missing else f"it takes no {' '.join(free)!r}"
        raise InvalidRequest(f"prompt {prompt.name!r}: {why}. Type {usage}")
    return args


def _in_order(names: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    if not names:
        return {}
    filled = dict(zip(names[:-1], words, strict=False))
    rest = words[len(names) - 1 :]
    return {**filled, **({names[-1]: " ".join(rest)} if rest else {})}


def _usage(server: str, prompt: ListedPrompt) -> str:
    taken = [one.name.upper() if one.is_required else f"[{one.name.upper()}]" for one in prompt.arguments]
    return " ".join([f"/mcp:{server}:{prompt.name}", *taken])
