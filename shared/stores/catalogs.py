"""Agent definitions and catalogs on Redis: stored by digest, so that a deploy changes nothing for a running job.

One catalog is in force. Putting another one in force is compare-and-set on the one that it replaces, and noted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ekiden.shared.errors import CatalogNotReady, CatalogReplaced, Forged, NoCatalog, UnreadableDefinition
from ekiden.shared.signing import OFF, Signing, split
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["InForce", "Publication", "RedisCatalogStore"]

_MANIFEST = "manifest"
_NAMES = TypeAdapter(dict[str, str], config=ConfigDict(defer_build=True))
_NUMBER = "number"
"""Where it is signed when this catalog came into force last: the server's time in ms, or more, if that went back."""
_CATALOG, _DEFINITION, _TURN = "catalog", "agent definition", "number of a publication"
"""What signatures call them."""


class InForce(NamedTuple):
    """The catalog in force: its digest, and its map name -> definition digest."""

    digest: str
    manifest: dict[str, str]


@dataclass(frozen=True)
class Publication:
    """That a catalog came into force, and how. ``at_ms`` is the server's time, in ms since the epoch."""

    digest: str
    replaced: str
    """The digest of the one before; empty: there was none."""
    agents: int
    by: str
    """Whoever published it, as ``user@host``."""
    source: str
    """The command, and the folder of the files."""
    is_rollback: bool
    at_ms: int

    @property
    def when_and_who(self) -> str:
        """Say so in the time of this machine."""
        return f"at {datetime.fromtimestamp(self.at_ms // 1000)} by {self.by} ({self.source})"


class RedisCatalogStore:
    """Publishes and reads catalogs: the map name -> digest, and the definitions (JSON) by their digest."""

    def __init__(self, client: Redis, signing: Signing = OFF) -> None:
        self._redis = client
        self._signing = signing
        self._newest = 0
        """The highest number of a publication that this process has seen."""
        self._known: InForce | None = None
        """What was in force last, to read it once: a digest always means the same."""
        self._scripts = Scripts(client)

    @property
    def signs(self) -> bool:
        """Whether what is published is signed, and what is not signed is refused."""
        return bool(self._signing)

    @translated
    async def publish(
        self,
        digest: str,
        manifest: Mapping[str, str],
        definitions: Mapping[str, str],
        *,
        replaces: str | None,
        by: str = "",
        source: str = "",
    ) -> bool:
        """Store ``definitions`` (digest -> JSON) and the catalog, and put it in force: one step. False: it was already.

        ``replaces`` is the digest of the one in force as the caller knows it; None: none is. Raises
        ``CatalogReplaced`` when it is another one: then nothing was changed.
        """
        fields = self._fields(digest, manifest, definitions)
        return await self._put_in_force(digest, replaces, len(manifest), by, source, fields)

    @translated
    async def add(self, digest: str, manifest: Mapping[str, str], definitions: Mapping[str, str]) -> None:
        """Store a catalog beside the one in force, for jobs that are pinned to it."""
        pipeline = self._redis.pipeline(transaction=True)
        for name, text in self._fields(digest, manifest, definitions).items():
            pipeline.hset(keys.catalog(digest), name, text)
        pipeline.expire(keys.catalog(digest), keys.CATALOG_TTL_S, nx=True)
        await pipeline.execute()

    def _fields(self, digest: str, manifest: Mapping[str, str], definitions: Mapping[str, str]) -> dict[str, str]:
        fields = {one: self._signing.sign(_DEFINITION, (one,), text) for one, text in definitions.items()}
        return {**fields, _MANIFEST: self._signing.sign(_CATALOG, (digest,), json.dumps(dict(manifest)))}

    @translated
    async def roll_back(self, digest: str, *, replaces: str, by: str = "", source: str = "") -> bool:
        """Put a catalog that is stored in force again; otherwise as ``publish``. Raises ``NoCatalog`` if it is gone."""
        agents = len(await self.manifest(digest))
        return await self._put_in_force(digest, replaces, agents, by, source, {}, is_rollback=True)

    @translated
    async def current(self) -> str | None:
        """Return the digest of the catalog in force; None before one was published."""
        return cast("str | None", await as_any(self._redis.get(keys.CATALOG)))

    async def to_route_by(self) -> str | None:
        """Return ``current()``, if it is not older than what was in force before as far as this process knows.

        Raises ``Forged``, and ``CatalogNotReady`` for one that nobody with a key has put back.
        """
        digest = await self.current()
        if digest is not None and self._signing:
            number = await self._number(digest)
            if number < self._newest:
                raise CatalogNotReady(
                    f"catalog {digest[:12]} is in force again, and nobody with a key has put it back: a later one was "
                    "lost with the server, or somebody else writes to it; `ekiden catalog publish` the right one"
                )
            self._newest = number
        return digest

    async def in_force(self) -> InForce | None:
        """Return the catalog in force; None before one was published, or when it has expired.

        It is not asked who has signed it: that is for those who run its agents, and it must be possible to replace it.
        Raises ``UnreadableDefinition`` when what is stored is none.
        """
        digest = await self.current()
        if digest is None or (self._known is not None and self._known.digest == digest):
            return self._known if digest else None
        try:
            self._known = InForce(digest, _manifest(digest, split(await self._field(digest, _MANIFEST))[1]))
        except NoCatalog:
            return None
        return self._known

    async def to_replace(self) -> InForce | None:
        """Return the catalog in force for another to replace: without any agents when what is stored is none."""
        try:
            return await self.in_force()
        except UnreadableDefinition:
            digest = await self.current()
            return None if digest is None else InForce(digest, {})

    @translated
    async def history(self, limit: int = keys.PUBLICATIONS_KEPT) -> list[Publication]:
        """Return the last publications, newest first."""
        rows = await as_any(self._redis.xrevrange(keys.PUBLICATIONS, count=limit))
        return [_publication(fields) for _, fields in rows]

    @translated
    async def manifest(self, digest: str) -> dict[str, str]:
        """Return a catalog's map name -> definition digest.

        Raises ``NoCatalog``, ``UnreadableDefinition``, ``Forged``.
        """
        return self._map(digest, await self._field(digest, _MANIFEST))

    @translated
    async def definition(self, catalog: str, digest: str) -> str:
        """Return a definition's JSON; raises ``NoCatalog``, ``Forged``."""
        return self._signing.read(_DEFINITION, (digest,), await self._field(catalog, digest))

    @translated
    async def definitions(self, catalog: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return a whole catalog: name -> digest, and digest -> JSON.

        Raises ``NoCatalog``, ``UnreadableDefinition``, ``Forged``.
        """
        pipeline = self._redis.pipeline(transaction=False)  # of its own: the answer may be long
        pipeline.hgetall(keys.catalog(catalog))
        fields = cast(dict[str, str], (await pipeline.execute())[0])
        if _MANIFEST not in fields:
            raise _gone(catalog)
        manifest = self._map(catalog, fields.pop(_MANIFEST))
        fields.pop(_NUMBER, None)
        if not fields.keys() >= set(manifest.values()):
            raise _unreadable(catalog)
        return manifest, {one: self._signing.read(_DEFINITION, (one,), text) for one, text in fields.items()}

    def _map(self, digest: str, text: str) -> dict[str, str]:
        return _manifest(digest, self._signing.read(_CATALOG, (digest,), text))

    @translated
    async def keep(self) -> None:
        """Let the catalog in force, and those of the last publications, live on: whoever serves jobs does so."""
        digests = {publication.digest for publication in await self.history()}
        digests |= {await self.current() or ""} - {""}
        pipeline = self._redis.pipeline(transaction=False)
        for digest in digests:
            pipeline.expire(keys.catalog(digest), keys.CATALOG_TTL_S, gt=True)
        await pipeline.execute()

    @translated
    async def _number(self, digest: str) -> int:
        return int(self._signing.read(_TURN, (digest,), await self._field(digest, _NUMBER)))

    async def _next_number(self, replaces: str | None) -> int:
        """Return a number above all that any dispatcher can have seen, whatever was put in force or deleted since."""
        seconds, micros = await self._redis.time()
        known = {publication.digest for publication in await self.history()} | {replaces or ""} - {""}
        numbers = [await self._number_if_signed(digest) for digest in known]
        return max(int(seconds) * 1000 + int(micros) // 1000, 1 + max((self._newest, *numbers)))

    async def _number_if_signed(self, digest: str) -> int:
        """Return the number of a catalog; 0 if the number is not signed: then anybody may have written it."""
        try:
            return await self._number(digest)
        except (Forged, NoCatalog):
            return 0

    async def _put_in_force(
        self,
        digest: str,
        replaces: str | None,
        agents: int,
        by: str,
        source: str,
        fields: Mapping[str, str],
        *,
        is_rollback: bool = False,
    ) -> bool:
        if self._signing:
            number = str(await self._next_number(replaces))
            fields = {**fields, _NUMBER: self._signing.sign(_TURN, (digest,), number)}
        verdict, *detail = await self._scripts.run(
            "publish",
            in_force=keys.CATALOG,
            catalog=keys.catalog(digest),
            publications=keys.PUBLICATIONS,
            digest=digest,
            replaced=replaces or "",
            ttl=keys.CATALOG_TTL_S,
            kept=keys.PUBLICATIONS_KEPT,
            agents=agents,
            by=by,
            source=source,
            rollback=int(is_rollback),
            fields=[part for field in fields.items() for part in field],
        )
        if verdict == "gone":
            raise _gone(digest)
        if verdict == "moved":
            raise await self._replaced(detail[0], replaces)
        return verdict == "ok"

    async def _replaced(self, current: str, expected: str | None) -> CatalogReplaced:
        newest = next(iter(await self.history(1)), None)
        there = f"catalog {current[:12]} is in force" if current else "no catalog is in force"
        if newest is not None and newest.digest == current:
            there += f", published {newest.when_and_who}"
        meant = f"catalog {expected[:12]} was to be replaced" if expected else "there was to be none yet"
        return CatalogReplaced(
            f"{there}; {meant}, so nothing was published. Look at `ekiden catalog show`, then decide"
        )

    async def _field(self, catalog: str, field: str) -> str:
        text = await as_any(self._redis.hget(keys.catalog(catalog), field))
        if text is None:
            raise _gone(catalog)
        return cast(str, text)


def _manifest(catalog: str, text: str) -> dict[str, str]:
    try:
        return _NAMES.validate_json(text)
    except ValidationError as error:
        raise _unreadable(catalog) from error


def _unreadable(catalog: str) -> UnreadableDefinition:
    return UnreadableDefinition(
        f"what this server has as catalog {catalog[:12]!r} cannot be read: another program has written there. "
        "Publish the agents again with `ekiden catalog publish`, or go back with `ekiden catalog rollback`"
    )


def _gone(catalog: str) -> NoCatalog:
    return NoCatalog(
        f"catalog {catalog[:12]!r} is not on this server (any more): publish agents with `ekiden catalog publish`, or "
        "start `ekiden dispatcher`"
    )


def _publication(fields: Mapping[str, str]) -> Publication:
    return Publication(
        digest=fields["digest"],
        replaced=fields["replaced"],
        agents=int(fields["agents"]),
        by=fields["by"],
        source=fields["source"],
        is_rollback=fields["rollback"] == "1",
        at_ms=int(fields["at_ms"]),
    )
