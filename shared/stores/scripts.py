"""The Lua scripts: loaded from ``lua/``, each behind the prelude, called by SHA-1."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from redis import exceptions
from redis.asyncio.client import Pipeline
from redis.commands.core import AsyncScript

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, ms
from ekiden.shared.stores.replication import ReplicaWait, RequireReplicas

__all__ = ["VOUCHED_MS", "Scripts", "source_of"]

_Arg = str | int | float
_FOLDER = Path(__file__).parent / "lua"
_CHANGED = ("ok", "waiting", "exists", "flagged")
"""What a script says that has changed a job, now or when it ran before."""
_WORD = keys.WRITTEN
"""A script that is repeated writes nothing, and WAIT would then wait for nothing, though replicas may lack what was
written the first time: they get this word behind it."""

_NAMES = {
    "CATALOGS": keys.catalog(""),
    "CLOCK": keys.CLOCK,
    "DEAD_LETTERS": keys.DEAD_LETTERS,
    "DEADLINES": keys.DEADLINES,
    "ENDED": keys.ENDED,
    "INTAKE_TAKEN": keys.INTAKE_TAKEN,
    "INTAKE_TEXTS": keys.INTAKE_TEXTS,
    "JOBS": keys.JOBS,
    "JOB_IDS": keys.JOB_IDS,
    "LEASES": keys.LEASES,
    "POOL": keys.pool(""),
    "POOLS": keys.POOLS,
    "MISPLACED": keys.MISPLACED,
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
    names += f"local DEAD_LETTERS_TTL_S, MAX_DEAD_LETTERS = {keys.DEAD_LETTERS_TTL_S}, {keys.MAX_DEAD_LETTERS}\n"
    indexes = ", ".join(f"['{key}'] = '{kind}'" for key, kind in keys.KINDS.items())
    names += f"local INDEXES = {{{indexes}}}\n"
    return names + "\n".join((_FOLDER / f"{part}.lua").read_text() for part in ("_prelude", name))


class Scripts:
    """Runs scripts on one client. A server that lost them (a restart) gets them again by itself."""

    def __init__(self, client: Redis, confirming: ReplicaWait | None = None) -> None:
        self._client = client
        self._confirming = confirming or RequireReplicas()
        self._scripts: dict[str, AsyncScript] = {}

    async def run(self, name: str, keys: Sequence[str], args: Sequence[_Arg], *, changes: str = "") -> list[str]:
        """Run ``name`` atomically; every script answers a list of strings.

        ``changes``: the job whose change must not be lost, so that replicas are waited for where that is wanted.
        """
        if not (changes and self._confirming.wanted):
            return cast(list[str], await self._script(name)(keys=list(keys), args=list(args)))
        verdict, had = await self._run_and_wait(self._script(name), keys, args)
        if verdict[0] in _CHANGED:
            self._confirming.heard(changes, *((0, str(had)) if isinstance(had, Exception) else (had, "")))
        return verdict

    def _script(self, name: str) -> AsyncScript:
        if name not in self._scripts:
            self._scripts[name] = self._client.register_script(source_of(name))
        return self._scripts[name]

    async def _run_and_wait(
        self, script: AsyncScript, keys: Sequence[str], args: Sequence[_Arg]
    ) -> tuple[list[str], int | Exception]:
        """Run ``script``, then wait for replicas; return its verdict, and how many have what it wrote, or an error.

        All on one connection that nobody else uses meanwhile: WAIT counts what its own connection has written, and
        keeps it busy. After a lost connection all of it is repeated.
        """
        while True:
            pipeline = _ScriptAndWait(self._client)
            pipeline.evalsha(script.sha, len(keys), *keys, *args)
            pipeline.publish(_WORD, "")
            pipeline.wait(self._confirming.wanted, ms(self._confirming.wait_s))
            try:
                verdict, _, had = await pipeline.execute()
            except exceptions.NoScriptError:
                await self._client.script_load(script.script)
            else:
                return verdict, had


class _ScriptAndWait(Pipeline):
    """A script, and what is to be waited for behind it: only the script's own failure is one."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction=False, shard_hint=None)

    def raise_first_error(self, commands: Any, response: Any) -> None:
        """Raise the script's error, if there is one: it has changed nothing then."""
        super().raise_first_error(commands, response[:1])
