"""Keeps the pools of ``ekiden up`` running."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.terminal_text import note, say

__all__ = ["Supervisor"]

_MOST_DEATHS, _WITHIN_S = 3, 10.0
_LOOK_S = 0.2


class Supervisor:
    """Starts a pool again when it ends by itself, and gives up when that does not help."""

    def __init__(self, stack: Stack, beside: Callable[[Client], Awaitable[None]]) -> None:
        """``beside``: what goes on meanwhile, and ends with it."""
        self._stack = stack
        self._beside = beside
        self._deaths: dict[str, list[float]] = defaultdict(list)

    async def run(self) -> None:
        """Return never."""
        async with client_of(self._stack.url) as client:
            ready = asyncio.create_task(self._stack.ready(client))
            ready.add_done_callback(_say_ready)
            beside = asyncio.ensure_future(self._beside(client))
            try:
                while True:
                    self._stack.tell_problems(note)
                    if (kind := self._stack.ended()) is not None:
                        self._revive(kind)
                    if beside.done():
                        beside.result()
                    await asyncio.sleep(_LOOK_S)
            finally:
                beside.cancel()

    def _revive(self, kind: str) -> None:
        why = self._stack.why_ended(kind)
        now = time.monotonic()
        self._deaths[kind] = [death for death in (*self._deaths[kind], now) if now - death < _WITHIN_S]
        if len(self._deaths[kind]) >= _MOST_DEATHS:
            raise ConfigurationError(f"the {kind} ended {_MOST_DEATHS} times within {_WITHIN_S:.0f} s: {why}")
        note(f"the {kind} ended and is started again: {why}")
        self._stack.children[kind].stop()
        self._stack.start(kind)


def _say_ready(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is None:
        say("ready")
