"""The Lua scripts: loaded from ``lua/``, each behind the prelude, called by SHA-1."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from redis.commands.core import AsyncScript

from shared.stores import keys
from shared.stores.redis import Redis

__all__ = ["Scripts", "source_of"]

_FOLDER = Path(__file__).parent / "lua"


_NAMES = {
    "DEAD_LETTERS": keys.DEAD_LETTERS,
    "DEADLINES": keys.DEADLINES,
    "JOBS": keys.JOBS,
    "JOB_IDS": keys.JOB_IDS,
    "LEASES": keys.LEASES,
    "MISPLACED": keys.MISPLACED,
    "QUEUED": keys.queued(""),
    "QUEUES": keys.QUEUES,
    "SESSIONS": keys.SESSIONS,
    "STOPPED": keys.STOPPED,
    "SUSPENDED": keys.suspended(""),
    "TIMERS": keys.TIMERS,
}
"""The indexes, which are no session's own: scripts know them by these names."""


@functools.cache
def source_of(name: str) -> str:
    """Return the text of script ``name`` behind the names of the indexes and the prelude."""
    names = "".join(f"local {name} = '{key}'\n" for name, key in _NAMES.items())
    names += f"local TTL_S, DEAD_LETTERS_TTL_S = {keys.SESSION_TTL_S}, {keys.DEAD_LETTERS_TTL_S}\n"
    names += f"local MAX_DEAD_LETTERS = {keys.MAX_DEAD_LETTERS}\n"
    return names + "\n".join((_FOLDER / f"{part}.lua").read_text() for part in ("_prelude", name))


class Scripts:
    """Runs scripts on one client. A server that lost them (a restart) gets them again by itself."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._scripts: dict[str, AsyncScript] = {}

    async def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float]) -> list[str]:
        """Run ``name`` atomically; every script answers a list of strings."""
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self._client.register_script(source_of(name))
        return cast(list[str], await script(keys=list(keys), args=list(args)))
