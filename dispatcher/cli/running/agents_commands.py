"""``/agents …`` in a chat: the commands of ``ekiden agents``, on the chat's own server."""

import shlex
from collections.abc import Callable
from typing import ClassVar

from ekiden.dispatcher.cli.lazy import LazyGroup
from ekiden.shared.errors import EkidenError

__all__ = ["run_agents_command"]

_ON_A_SERVER = {"trace", "handoff-chain"}


class _Commands(LazyGroup):
    """The commands that a chat has besides its own."""

    lazy: ClassVar = {"agents": ("ekiden.dispatcher.cli.agents.group:app", "Make, show, change and check agents.")}


def run_agents_command(text: str, url: str, note: Callable[[str], None]) -> None:
    """Run ``agents …``; what it says of its end is shown, and ends no chat."""
    try:
        _, *words = shlex.split(text)
    except ValueError as error:
        note(f"that cannot be read: {error}")
        return
    if words[:1] == ["run"]:
        note("here `@NAME text` asks an agent, and `/agent NAME` turns to it")
        return
    if words == ["trace"]:
        words.append("show")
    server = ["--redis", url] if _ON_A_SERVER & set(words[:1]) else []
    try:
        _Commands(name="ekiden").main(["agents", *words, *server], prog_name="ekiden")
    except SystemExit:  # how each command ends
        pass
    except KeyboardInterrupt:
        note("interrupted")
    except EkidenError as error:
        note(str(error))
