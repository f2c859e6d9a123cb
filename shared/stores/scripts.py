"""The Lua scripts: loaded from ``lua/``, each behind the prelude, called by SHA-1."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from redis.commands.core import AsyncScript

from shared.stores import keys
from shared.stores.redis import Redis

__all__ = ["VOUCHED_MS", "Scripts", "source_of"]

_FOLDER = Path(__file__).parent / "lua"


_NAMES = {
    "CATALOGS": keys.catalog(""),
    "CLOCK": keys.CLOCK,
    "DEADLINES": keys.DEADLINES,
    "JOBS": keys.JOBS,
    "JOB_IDS": keys.JOB_IDS,
    "LEASES": keys.LEASES,
    "POOL": keys.pool(""),
    "POOLS": keys.POOLS,
    "QUEUED": keys.queued(""),
    "QUEUES": keys.QUEUES,
    "SESSIONS": keys.SESSIONS,
    "STOPPED": keys.STOPPED,
    "SUSPENDED": keys.suspended(""),
    "TIMERS": keys.TIMERS,
    "UNVOUCHED": keys.UNVOUCHED,
}
"""The indexes and the like, which are no session's own: scripts know them by these names."""
VOUCHED_MS = 5_000
"""How far relay time may be ahead of what pools have followed before nobody vouches for it: they look every second."""


@functools.cache
def source_of(name: str) -> str:
    """Return the text of script ``name`` behind the names of the indexes and the prelude."""
    names = "".join(f"local {name} = '{key}'\n" for name, key in _NAMES.items())
    names += f"local TTL_S, POOL_TTL_S, VOUCHED_MS = {keys.SESSION_TTL_S}, {keys.POOL_TTL_S}, {VOUCHED_MS}\n"
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
