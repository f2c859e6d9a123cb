"""The Lua scripts: loaded from ``lua/``, each behind the prelude, called by SHA-1."""

import functools
import hashlib
import re
from pathlib import Path
from typing import Any, cast

from ekiden.shared.job_limits import BUDGETS, COUNTED, PERIODS, SHARED
from ekiden.shared.outcomes import ALL_SUCCEED, ANY_ENDS, AS_LONG_AS_THEY_CAN
from ekiden.shared.stores import keys
from ekiden.shared.stores.driver import Pipeline, exceptions
from ekiden.shared.stores.redis import Redis, as_any, ms
from ekiden.shared.stores.replication import ReplicaWait, RequireReplicas
from ekiden.shared.stores.signatures import Arg, Signature, signature_of

__all__ = ["PAGE_BYTES", "VOUCHED_MS", "Scripts", "source_of"]

_FOLDER = Path(__file__).parent / "lua"
_CHANGED = ("ok", "waiting", "exists", "flagged")
"""The verdicts of a script that has changed a job, in this call or in the one that this call repeats."""
_WORD = keys.WRITTEN
"""A script that is repeated writes nothing, and WAIT would then wait for nothing, though replicas may lack what was
written the first time: they get this word behind it."""

PAGE_BYTES = 262_144
"""How much of a journal comes with a claim; the rest is read with a command of its own."""
VOUCHED_MS = 5_000
"""Pools note every second up to when they have followed relay time. A time further ahead of that note than this may
come from a jump of the server's clock: nobody vouches for it."""

_NAMES = {
    "APPROVALS": keys.APPROVALS,
    "CATALOGS": keys.catalog(""),
    "CLOCK": keys.CLOCK,
    "DEAD_LETTERS": keys.DEAD_LETTERS,
    "DEADLINES": keys.DEADLINES,
    "ENDED": keys.ENDED,
    "INTAKE_TAKEN": keys.INTAKE_TAKEN,
    "INTAKE_TEXTS": keys.INTAKE_TEXTS,
    "JOB": keys.job("%s"),
    "JOBS": keys.JOBS,
    "JOB_IDS": keys.JOB_IDS,
    "LEASES": keys.LEASES,
    "LIMITED": keys.LIMITED,
    "POOL": keys.pool(""),
    "POOLS": keys.POOLS,
    "MISPLACED": keys.MISPLACED,
    "QUEUED": keys.queued(""),
    "QUEUES": keys.QUEUES,
    "SESSIONS": keys.SESSIONS,
    "SPENT_IN": keys.budget(""),
    "STOPPED": keys.STOPPED,
    "SUSPENDED": keys.suspended(""),
    "TIMERS": keys.TIMERS,
    "UNVOUCHED": keys.UNVOUCHED,
    "USAGE": keys.usage(""),
}
_FIELDS = {
    "BUDGET": (*(f"{of}_{name}" for name in COUNTED for of in ("max", "spent")), *(f"max_{name}" for name in BUDGETS)),
    "COUNTED": COUNTED,
    "FINISHED": ("queue", "cause", "need", "parent", "said", "kept_ms", "waits"),
    "MODEL_LIMIT": (
        *("rpm", "tpm", "concurrent", "calls", "tokens", "oldest", "paced_ms", "calls_left", "tokens_left"),
        *("blocked_ms", "refusals", "beyond", "lasts_ms", "turn"),
    ),
    "NUMBERED": ("created_ms", "jobs"),
    "FENCED": ("status", "leg", "fence", "owner", "seq", "cancel", "agent"),
    "PUSHED": ("status", "queue", "sends", "cause"),
    "SHARED": SHARED,
    "SPENT": tuple(f"spent_{name}" for name in COUNTED),
}
"""Which fields of a job the functions of the prelude go by: ``spending``, ``finish``, ``refusal``, ``push``; of a
session: ``reserve``; or of a limit of a model: ``limit_at``."""
_CONSTANTS = {
    **{name: ", ".join(f"'{field}'" for field in fields) for name, fields in _FIELDS.items()},
    **{name: f"'{key}'" for name, key in _NAMES.items()},
    "DAY_MS": str(keys.DAY_S * 1000),
    "ALL_SUCCEED": str(ALL_SUCCEED),
    "ANY_ENDS": str(ANY_ENDS),
    "AS_LONG_AS_THEY_CAN": str(AS_LONG_AS_THEY_CAN),
    "CIRCUIT_LONGEST_MS": str(keys.CIRCUIT_LONGEST_S * 1000),
    "CIRCUITS_TTL_S": str(keys.CIRCUITS_TTL_S),
    "DEAD_LETTERS_TTL_S": str(keys.DEAD_LETTERS_TTL_S),
    **{f"{period.upper()}_S": str(seconds) for period, seconds in PERIODS.items()},
    "INDEXES": "{" + ", ".join(f"['{key}'] = '{kind}'" for key, kind in keys.KINDS.items()) + "}",
    "LESSONS_TTL_S": str(keys.LESSONS_TTL_S),
    "LIMIT_TTL_S": str(keys.LIMIT_TTL_S),
    "KEEP_EVERY_MS": str(keys.KEEP_EVERY_S * 1000),
    "MAX_USAGE_FIELDS": str(keys.MAX_USAGE_FIELDS),
    "MAX_USAGE_ROWS": str(keys.MAX_USAGE_ROWS),
    "MAX_DEAD_LETTERS": str(keys.MAX_DEAD_LETTERS),
    "PAGE": "500",
    "PAGE_BYTES": str(PAGE_BYTES),
    "POOL_TTL_S": str(keys.POOL_TTL_S),
    "SLOT_MS": "5000",  # how long a slot is believed to be taken before it is looked at who holds the lease
    "SLOT_FREES_MS": "250",  # when it is worth looking again, where all are taken
    "TTL_S": str(keys.SESSION_TTL_S),
    "USAGE_TTL_S": str(keys.USAGE_TTL_S),
    "VOUCHED_MS": str(VOUCHED_MS),
}
"""What is no session's own, and how long things live: scripts know it by these names."""
_COMMENT = re.compile(r"--.*")
_DEFINES = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)
_WORD_OF_LUA = re.compile(r"\w+")


@functools.cache
def source_of(name: str) -> str:
    """Return the text of script ``name`` behind what it uses of the prelude, and its arguments' names."""
    body = signature(name).locals + _text(name)
    return _with_constants(_used(_text("_prelude"), body) + body)


@functools.cache
def _sha1_of(source: str) -> str:
    """Return what the server knows a script by."""
    return hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


@functools.cache
def signature(name: str) -> Signature:
    """Return what script ``name`` takes."""
    return signature_of(name, _text(name), _text("_prelude"))


def _used(prelude: str, body: str) -> str:
    """Return the paragraphs of the prelude that ``body`` needs, directly or not.

    All of them would cost each call more than most scripts do: Lua makes its functions anew every time.
    """
    kept: list[str] = []
    needed = _words_of(body)
    for paragraph in reversed(prelude.split("\n\n")):
        names = {name for names in _DEFINES.findall(paragraph) for name in names.split(", ")}
        if names & needed:
            kept.insert(0, paragraph)
            needed |= _words_of(paragraph)
    return "\n\n".join(kept) + "\n\n"


def _words_of(text: str) -> set[str]:
    return set(_WORD_OF_LUA.findall(_COMMENT.sub("", text)))


def _with_constants(text: str) -> str:
    """Put the names of the indexes and the like where the scripts name them."""
    return _WORD_OF_LUA.sub(lambda word: _CONSTANTS.get(word[0], word[0]), text)


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text()


class Scripts:
    """Runs scripts on one client. A server that lost them (a restart) gets them again by itself."""

    def __init__(self, client: Redis, confirming: ReplicaWait | None = None) -> None:
        self._client = client
        self._confirming = confirming or RequireReplicas()

    async def run(self, name: str, /, *, changes: str = "", **given: Any) -> list[str]:
        """Run ``name`` atomically; every script answers a list of strings.

        Args:
            name: Which script.
            changes: The job whose change must not be lost, so that replicas are waited for where that is wanted.
            given: What the script's head declares, by name: a text or a number; for a list a sequence of them.
        """
        keys, args = signature(name).lay_out(given)
        if not (changes and self._confirming.wanted):
            return await self._run(name, keys, args)
        verdict, had = await self._run_and_wait(name, keys, args)
        if verdict[0] in _CHANGED:
            self._confirming.heard(changes, *((0, str(had)) if isinstance(had, Exception) else (had, "")))
        return verdict

    async def _run(self, name: str, keys: list[str], args: list[Arg]) -> list[str]:
        """Run a script by its SHA-1: a script object of redis-py's costs half as much again as what it sends."""
        send = as_any(self._client).execute_command
        words = ("EVALSHA", _sha1_of(source_of(name)), len(keys), *keys, *args)
        try:
            return cast(list[str], await send(*words))
        except exceptions.NoScriptError:
            await self._client.script_load(source_of(name))
            return cast(list[str], await send(*words))

    async def _run_and_wait(self, name: str, keys: list[str], args: list[Arg]) -> tuple[list[str], int | Exception]:
        """Run a script, then wait for replicas; return its verdict, and how many have what it wrote, or an error.

        All on one connection that nobody else uses meanwhile: WAIT counts what its own connection has written, and
        keeps it busy. After a lost connection all of it is repeated.
        """
        while True:
            pipeline = _ScriptAndWait(self._client)
            pipeline.evalsha(_sha1_of(source_of(name)), len(keys), *keys, *args)
            pipeline.publish(_WORD, "")
            pipeline.wait(self._confirming.wanted, ms(self._confirming.wait_s))
            try:
                verdict, _, had = await pipeline.execute()
            except exceptions.NoScriptError:
                await self._client.script_load(source_of(name))
            else:
                return verdict, had


class _ScriptAndWait(Pipeline):
    """A script, and what is to be waited for behind it: only the script's own failure is one."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction=False, shard_hint=None)

    def raise_first_error(self, commands: Any, response: Any) -> None:
        """Raise the script's error, if there is one: it has changed nothing then."""
        super().raise_first_error(commands, response[:1])
