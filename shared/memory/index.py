"""The notes of one namespace in memory: vectors in one block, words by stem. Brute force is quick enough for 10,000."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.embedding.single_thread import single_threaded
from ekiden.shared.embedding.stems import stems_of
from ekiden.shared.memory.base import CHECK, Note

__all__ = ["Index"]


class Index:
    """What a process knows of a namespace. Versions are the store's."""

    def __init__(self) -> None:
        self.notes: dict[str, Note] = {}
        self.versions: dict[str, int] = {}
        self.stale: set[str] = set()
        """Notes without a vector of the encoder in use."""
        self.others: dict[str, tuple[str, ...]] = {}
        """What other encoders have made of notes, as it is kept."""
        self._rows: list[str] = []
        self._places: dict[str, int] = {}
        self._block: Vectors = np.zeros((0, 0), dtype=np.float32)
        self.newest = 0
        """The greatest version that was ever there."""
        self.check = 0
        """See ``Changes``."""
        self._new: set[str] = set()
        """Notes whose words nobody has asked for yet: to take them apart costs more than all else."""
        self._stems: dict[str, frozenset[str]] = {}
        self._having: defaultdict[str, set[str]] = defaultdict(set)
        self._saying: dict[str, str] = {}
        """The notes without a key by what they say."""

    def vector(self, note_id: str) -> Vectors | None:
        """Return a note's vector, if it has one."""
        place = self._places.get(note_id)
        return None if place is None else self._block[place]

    def put(self, note: Note, version: int, vector: Vectors | None, others: tuple[str, ...] = ()) -> None:
        """Take in a note, in the place of an older version of it; ``others``: what other encoders have made of it."""
        self.pass_over(note.id, version)
        self.notes[note.id] = note
        if others:
            self.others[note.id] = others
        self._new.add(note.id)
        if not note.key:
            self._saying[_said(note.content)] = note.id
        if vector is None or (self._rows and self._block.shape[1] != len(vector)):
            self.stale.add(note.id)
        else:
            self._place(note.id, vector)

    def pass_over(self, note_id: str, version: int) -> None:
        """Know of a note that cannot be read."""
        self.remove(note_id)
        self.versions[note_id] = version
        self.newest = max(self.newest, version)
        self.check = (self.check + version) % CHECK

    def remove(self, note_id: str) -> None:
        """Forget a note, if it is there."""
        self.check = (self.check - self.versions.pop(note_id, 0)) % CHECK
        if (note := self.notes.pop(note_id, None)) is None:
            return
        if self._saying.get(said := _said(note.content)) == note_id:
            del self._saying[said]
        self.stale.discard(note_id)
        self.others.pop(note_id, None)
        self._new.discard(note_id)
        for stem in self._stems.pop(note_id, ()):
            self._having[stem].discard(note_id)
        if (place := self._places.pop(note_id, None)) is not None:
            last = self._rows.pop()
            if last != note_id:  # the last one moves to where it was
                self._rows[place], self._places[last] = last, place
                self._block[place] = self._block[len(self._rows)]

    def saying(self, content: str) -> Note | None:
        """Return a note without a key that says the same: sign for sign, but for case.

        A point or a space more can be another command, another address or another number.
        """
        note_id = self._saying.get(_said(content))
        return None if note_id is None else self.notes[note_id]

    @single_threaded()
    def by_meaning(self, vector: Vectors) -> tuple[list[str], NDArray[np.float32]]:
        """Return the notes that have vectors, and the cosine of each to ``vector``."""
        if not self._rows or self._block.shape[1] != len(vector):
            return [], np.zeros(0, dtype=np.float32)
        return self._rows, self._block[: len(self._rows)] @ vector

    def by_words(self, query: str) -> Mapping[str, float]:
        """Return the notes that have words of ``query``: what share of its words each has, rare ones weighing more."""
        for note_id in self._new:
            note = self.notes[note_id]
            self._stems[note_id] = stems = frozenset(stems_of(f"{note.key} {note.content} {' '.join(note.tags)}"))
            for stem in stems:
                self._having[stem].add(note_id)
        self._new = set()
        weights = {stem: self._rarity(stem) for stem in set(stems_of(query))}
        whole = sum(weights.values())
        found: defaultdict[str, float] = defaultdict(float)
        for stem, weight in weights.items():
            for note_id in self._having.get(stem, ()):
                found[note_id] += weight / whole
        return found

    def living(self, now_ms: int) -> Iterator[Note]:
        """Yield the notes whose time has not come."""
        return (note for note in self.notes.values() if not note.is_over(now_ms))

    def _rarity(self, stem: str) -> float:
        return math.log((1 + len(self.notes)) / (1 + len(self._having.get(stem, ())))) + 1

    def _place(self, note_id: str, vector: Vectors) -> None:
        place = len(self._rows)
        if place == len(self._block) or self._block.shape[1] != len(vector):
            block = np.zeros((max(64, 2 * place), len(vector)), dtype=np.float32)
            if place:
                block[:place] = self._block[:place]
            self._block = block
        self._block[place] = vector
        self._rows.append(note_id)
        self._places[note_id] = place


def _said(content: str) -> str:
    return content.strip().casefold()
