"""The Lua scripts: loaded from ``lua/``, each behind the prelude, called by SHA-1."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from redis.commands.core import AsyncScript

from shared.stores.redis import Redis

__all__ = ["Scripts", "source_of"]

_FOLDER = Path(__file__).parent / "lua"


@functools.cache
def source_of(name: str) -> str:
    """Return the text of script ``name`` with the prelude before it."""
    return f"{(_FOLDER / '_prelude.lua').read_text()}\n{(_FOLDER / f'{name}.lua').read_text()}"


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
