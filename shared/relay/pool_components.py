"""What a bootstrap builds for a pool process, however that process is run."""

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ekiden.shared.hooks.base import Hook
from ekiden.shared.relay.leg import Handler
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import ToolView

__all__ = ["Bootstrap", "PoolComponents", "PoolKind", "load_bootstrap"]

PoolKind = Literal["dispatcher", "worker"]


@dataclass(frozen=True)
class PoolComponents:
    """The handler of this kind of pool, and what it can do."""

    handler: Handler
    tools: tuple[ToolView, ...] = ()
    servers: Callable[[], Mapping[str, str]] = dict
    """The MCP servers that it knows, with what is wrong with each now."""
    strategies: tuple[str, ...] = ()
    """How it can route, by name."""
    sandbox: str = ""
    """What confines commands of its tools, and what that leaves open; empty: it runs none."""
    problems: tuple[str, ...] = ()
    """What the settings ask for and could not be loaded: announced, and logged at the start."""
    begin: Callable[[], Awaitable[None]] | None = None
    """What the pool does once, before its first leg; a process that runs single legs does not."""
    follow: Callable[[Stores], Awaitable[None]] | None = None
    """What it does every second beside the legs, on another loop and with stores of that one."""
    serve: Callable[[Stores], Awaitable[None]] | None = None
    """The same, over and over: it waits by itself for something to do."""
    told: Callable[[], Mapping[str, str]] = dict
    """What else the pool says of itself just now, each time that it announces itself."""
    close: Callable[[], None] | None = None
    """What ends what it has started, when the process ends."""
    hooks: Sequence[Hook] = ()
    """Are told of all that happens in the process, and closed at its end."""


Bootstrap = Callable[[Settings, Stores], Awaitable[PoolComponents]]


def load_bootstrap(path: str) -> Bootstrap:
    """Return the bootstrap ``module:function``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]  # what make_app was told
