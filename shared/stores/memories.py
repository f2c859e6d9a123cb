"""Notes on Redis, without modules: a hash with the notes of a namespace, and in which order they were written."""

from collections.abc import Sequence

from ekiden.shared.errors import Forged
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.memory.base import MOST_NOTES, Changes, Stored, Write, Written
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["RedisMemoryStore"]

_KIND = "note"
_PAGE = 250
_COUNTERS = 2
"""Fields beside the notes: the newest version, and the sum of all."""

log = LateLogger(__name__)


class RedisMemoryStore:
    """A ``MemoryStore``; what this deployment has not signed, where it signs, is no note."""

    def __init__(self, client: Redis, signing: Signing = OFF) -> None:
        self._redis = client
        self._scripts = Scripts(client)
        self._signing = signing

    @translated
    async def changes(self, namespace: str, after: int) -> Changes:
        """See ``MemoryStore``. Read in pages: one of them is short, and the server serves others in between."""
        notes: dict[str, Stored] = {}
        while True:
            count, check, *rest = await self._scripts.run(
                "recall", memory=keys.memory(namespace), order=keys.memory_order(namespace), after=after, limit=_PAGE
            )
            for note_id, version, text in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
                after = int(version)
                notes.pop(note_id, None)
                notes[note_id] = Stored(note_id, after, self._read(namespace, note_id, text))
            if len(rest) < 3 * _PAGE:
                return Changes(list(notes.values()), int(count), int(check))

    @translated
    async def versions(self, namespace: str) -> dict[str, int]:
        """See ``MemoryStore``."""
        found = await as_any(self._redis.zrange(keys.memory_order(namespace), 0, -1, withscores=True))
        return {note_id: int(version) for note_id, version in found}

    @translated
    async def write(self, namespace: str, writes: Sequence[Write]) -> Written:
        """See ``MemoryStore``."""
        gone = [text for one in writes if one.text is None for text in (one.id, one.seen)]
        written = [
            text
            for one in writes
            if one.text is not None
            for text in (one.id, one.seen, self._signing.sign(_KIND, (namespace, one.id), one.text))
        ]
        verdict: list[Written] = await self._scripts.run(  # type: ignore[assignment]  # it answers one of these
            "remember",
            memory=keys.memory(namespace),
            order=keys.memory_order(namespace),
            most=MOST_NOTES + _COUNTERS,
            gone=gone,
            written=written,
        )
        return verdict[0]

    @translated
    async def namespaces(self) -> list[str]:
        """See ``MemoryStore``. Looks through all keys of the server: for people, not for agents."""
        prefix = keys.memory("")
        return sorted([key.removeprefix(prefix) async for key in self._redis.scan_iter(f"{prefix}*", count=1_000)])

    @translated
    async def drop(self, namespace: str) -> int:
        """See ``MemoryStore``."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.zcard(keys.memory_order(namespace))
        pipeline.delete(keys.memory(namespace), keys.memory_order(namespace))
        return int((await pipeline.execute())[0])

    def _read(self, namespace: str, note_id: str, text: str) -> str:
        """Return a note as it was written; an empty text, which is none, where somebody else has."""
        try:
            return self._signing.read(_KIND, (namespace, note_id), text)
        except Forged as error:
            log.warning("note_ignored", note=note_id, error=str(error))
            return ""
