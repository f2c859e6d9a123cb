"""Saving, recalling and forgetting: one ``Memories`` a process, in front of the store that all of them share.

What is written names the versions that it was made from: where somebody was quicker, it is made again from theirs, so
that nothing is lost.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.errors import InvalidRequest, StoreUnavailable
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.memory.base import MOST_CHARS, MOST_NOTES, Embedder, MemoryStore, Namespace, Note, Origin, Write
from ekiden.shared.memory.index import Index
from ekiden.shared.memory.known import Known
from ekiden.shared.memory.packing import packed
from ekiden.shared.memory.vectors import NoVectors, VectorMaker

__all__ = ["BY_WORDS", "Found", "Memories", "Wanted", "id_of_key"]

_AT_ONCE = 32
"""Texts that are encoded together: fewer than those whose vectors would be kept in the user's cache folder."""
_AT_LEAST_NOW = 64
"""Notes without a vector that a question waits for; more of them get theirs in the background."""
_ATTEMPTS = 20
_SPARE = 50
"""Of those found beyond what is wanted: some may be over."""

BY_WORDS = 0.2
"""How near a note must be by words, where nobody says it."""

log = LateLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """How notes are looked for."""

    by: Literal["meaning", "words"] = "meaning"
    most: int = 5
    threshold: float = 0.0
    """From 0 to 1: how near a note must be."""
    half_life_s: float | None = None
    """After so long without use a note counts half; None: its age does not matter."""


@dataclass(frozen=True)
class Found:
    """A note, and how near it is: from 0 to 1."""

    note: Note
    score: float


def id_of_key(key: str) -> str:
    """Return the id of the note under a key, or of the one that a call has saved: 16 hexadecimal digits."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:16]


class Memories:
    """The notes of all namespaces, as one process works with them. One event loop only."""

    def __init__(
        self, store: MemoryStore, embedder: Embedder, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    ) -> None:
        self._store = store
        self._known = Known(store, embedder.name)
        self._vectors = VectorMaker(embedder)
        self._now_ms = now_ms
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    @property
    def trouble(self) -> str:
        """Why notes are found by words where meaning was asked for, in words; empty: they are not."""
        return self._vectors.trouble

    async def save(
        self,
        namespace: Namespace,
        content: str,
        *,
        key: str = "",
        tags: Iterable[str] = (),
        origin: Origin,
        once: str = "",
        ttl_s: float | None = None,
        with_vector: bool = True,
    ) -> Note:
        """Keep a note: in the place of the one under its key, or of one that says the same; return what is kept.

        Args:
            namespace: Where.
            content: At most ``MOST_CHARS`` characters.
            key: Its name, if it has one.
            tags: Further words that it is found by.
            origin: Where it comes from.
            once: The id of the call that saves it: repeated, the call saves nothing more. Empty: its content's.
            ttl_s: After how long it is gone; None: never.
            with_vector: False: whoever looks for it by meaning first makes its vector, as where the encoder does not
                answer.

        Raises:
            InvalidRequest: it is empty or too long, or the namespace is full.
            StoreUnavailable: others are quicker, all the time.
        """
        namespace.check()
        text = _checked(content)
        vector = await self._vectors.one(text) if with_vector else None
        for _ in range(_ATTEMPTS):
            index = await self._known.index(namespace.id)
            now = self._now_ms()
            new = Note(
                id=id_of_key(f"key {key}" if key else f"once {once or text}"),
                content=text,
                key=key,
                tags=tuple(dict.fromkeys(tags)),
                origin=origin,
                created_ms=now,
                changed_ms=now,
                used_ms=now,
                expires_ms=now + round(ttl_s * 1000) if ttl_s else 0,
            )
            note = _joined(new, _same(index, new, now))
            over = [one.id for one in index.notes.values() if one.is_over(now) and one.id != note.id]
            own = vector if note.content == text else index.vector(note.id)
            writes = [self._write(index, note, own), *(Write(one, index.versions[one], None) for one in over)]
            match await self._store.write(namespace.id, writes):
                case "ok":
                    return note
                case "full":
                    raise InvalidRequest(
                        f"the memory is full: {MOST_NOTES:,} notes are the most ({namespace}). Forget some, or let "
                        "them expire (`ttl`)"
                    )
        raise StoreUnavailable("notes change all the time: try again")

    async def recall(self, namespace: Namespace, query: str, wanted: Wanted) -> list[Found]:
        """Return the notes that are nearest to ``query``, the nearest first. An older one counts less by its age.

        By words, too, where the encoder does not answer: ``trouble`` says so.
        """
        index = await self._known.index(namespace.id)
        if not index.notes or not query.strip():
            return []
        near, threshold = await self._near(namespace.id, index, query, wanted)
        now = self._now_ms()
        found = [
            Found(note, score * _freshness(note, now, wanted.half_life_s))
            for note_id, score in near.items()
            if score >= threshold and (note := index.notes.get(note_id)) and not note.is_over(now)
        ]
        found = sorted(found, key=lambda one: (-one.score, -one.note.changed_ms))[: wanted.most]
        if wanted.half_life_s:
            await self._used(namespace.id, index, [one.note for one in found])
        return found

    async def _near(
        self, namespace: str, index: Index, query: str, wanted: Wanted
    ) -> tuple[Mapping[str, float], float]:
        """Return how near notes are, and from what on that is near enough."""
        if wanted.by == "words":
            return index.by_words(query), wanted.threshold
        if (vector := await self._vectors.one(query)) is None:
            return index.by_words(query), min(wanted.threshold, BY_WORDS)
        await self._freshen(namespace, index)
        return self._near_to(vector, index, query, wanted), wanted.threshold

    def _near_to(self, vector: Vectors, index: Index, query: str, wanted: Wanted) -> Mapping[str, float]:
        """Return how near notes are by meaning; by words those that have no vector yet."""
        rows, cosines = index.by_meaning(vector)
        best = np.flatnonzero(cosines >= wanted.threshold)
        if not wanted.half_life_s:
            best = best[_best(cosines[best], wanted.most + _SPARE)]
        near = {rows[place]: float(cosines[place]) for place in best}
        if index.stale:
            near |= {one: score for one, score in index.by_words(query).items() if one in index.stale}
        return near

    async def all(self, namespace: Namespace) -> list[Note]:
        """Return all notes, the newest first."""
        index = await self._known.index(namespace.id)
        return sorted(index.living(self._now_ms()), key=lambda note: (-note.changed_ms, note.id))

    async def put(self, namespace: Namespace, notes: Sequence[Note]) -> None:
        """Keep notes as they are, with their ids and times, in the place of those with the same. Raises as ``save``."""
        namespace.check()
        for _ in range(_ATTEMPTS):
            index = await self._known.index(namespace.id)
            verdict = await self._store.write(namespace.id, [self._write(index, note, None) for note in notes])
            if verdict == "ok":
                return
            if verdict == "full":
                raise InvalidRequest(f"the memory would be full: {MOST_NOTES:,} notes are the most ({namespace})")
        raise StoreUnavailable("notes change all the time: try again")

    async def forget(self, namespace: Namespace, is_meant: Callable[[Note], bool]) -> list[Note]:
        """Take away the notes that are meant; return them."""
        for _ in range(_ATTEMPTS):
            index = await self._known.index(namespace.id)
            gone = [note for note in index.notes.values() if is_meant(note)]
            writes = [Write(note.id, index.versions[note.id], None) for note in gone]
            if not gone or await self._store.write(namespace.id, writes) == "ok":
                return gone
        raise StoreUnavailable("notes change all the time: try again")

    def close(self) -> None:
        """End what goes on in the background."""
        for task in self._refreshing.values():
            task.cancel()

    def _write(self, index: Index, note: Note, vector: Vectors | None) -> Write:
        known = index.notes.get(note.id)
        others = index.others.get(note.id, ()) if known and known.content == note.content else ()
        return Write(note.id, index.versions.get(note.id, 0), packed(note, vector, self._vectors.name, others))

    async def _used(self, namespace: str, index: Index, notes: Sequence[Note]) -> None:
        """Note that notes were of use; where somebody has changed one meanwhile, that was of use, too."""
        now = self._now_ms()
        writes = [self._write(index, note.model_copy(update={"used_ms": now}), index.vector(note.id)) for note in notes]
        if writes:
            await self._store.write(namespace, writes)

    async def _freshen(self, namespace: str, index: Index) -> None:
        """See that notes have vectors of this encoder: of a few at once, of many in the background."""
        if not index.stale or namespace in self._refreshing:
            return
        if len(index.stale) <= _AT_LEAST_NOW:
            with suppress(*NoVectors):  # which `trouble` says; they are found by words
                await self._refresh(namespace, index)
            return
        log.info("memory_embedded_anew", namespace=namespace, notes=len(index.stale), encoder=self._vectors.name)
        task = self._refreshing[namespace] = asyncio.create_task(self._refresh(namespace, index))
        task.add_done_callback(lambda task: self._refreshed(namespace, task))

    def _refreshed(self, namespace: str, task: asyncio.Task[None]) -> None:
        """Let whoever asks next try again where it has failed."""
        del self._refreshing[namespace]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("memory_not_embedded", namespace=namespace, error=str(error))

    async def _refresh(self, namespace: str, index: Index) -> None:
        stale = [index.notes[one] for one in index.stale if not index.notes[one].is_over(self._now_ms())]
        for first in range(0, len(stale), _AT_ONCE):
            notes = [note for note in stale[first : first + _AT_ONCE] if index.notes.get(note.id) is note]
            vectors: Iterable[Vectors] = await self._vectors.many([note.content for note in notes]) if notes else ()
            for note, vector in zip(notes, vectors, strict=True):
                if index.notes.get(note.id) is note:  # nobody has changed it meanwhile, or taken it away
                    await self._store.write(namespace, [self._write(index, note, vector)])
                if index.notes.get(note.id) is note:  # its new version has not been read yet
                    index.put(note, index.versions[note.id], vector, index.others.get(note.id, ()))


def _checked(content: str) -> str:
    text = content.strip()
    if not text:
        raise InvalidRequest("a note has a text: say what is to be remembered")
    if len(text) > MOST_CHARS:
        raise InvalidRequest(
            f"a note has {MOST_CHARS:,} characters at most, not {len(text):,}: save what matters of it"
        )
    return text


def _same(index: Index, new: Note, now_ms: int) -> Note | None:
    """Return the note that is there already: under its id, or one without a key that says the same."""
    known = index.notes.get(new.id)
    if known is None and not new.key:
        known = index.saying(new.content)
    return None if known is None or known.is_over(now_ms) else known


def _joined(new: Note, known: Note | None) -> Note:
    """Return what is kept. Of two that say the same, one that nobody has to doubt stands, with nothing of the other."""
    if known is None:
        return new
    kept: dict[str, object] = {"id": known.id, "created_ms": known.created_ms}
    if not new.key and bool(new.origin.untrusted) == bool(known.origin.untrusted):
        kept["tags"] = tuple(dict.fromkeys((*known.tags, *new.tags)))
    elif not new.key and new.origin.untrusted:
        return known.model_copy(update={"used_ms": new.used_ms})
    return new.model_copy(update=kept)


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the places of the ``count`` greatest."""
    return np.arange(len(scores)) if len(scores) <= count else np.argpartition(-scores, count)[:count]


def _freshness(note: Note, now_ms: int, half_life_s: float | None) -> float:
    return 1.0 if half_life_s is None else 0.5 ** (max(0, now_ms - note.used_ms) / 1000 / half_life_s)
