"""What a process knows of namespaces: each is read once, then only what was written since."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from ekiden.shared.late_logger import LateLogger
from ekiden.shared.memory.base import MemoryStore, Stored
from ekiden.shared.memory.index import Index
from ekiden.shared.memory.packing import unpacked

__all__ = ["Known"]

_NAMESPACES = 1_000
"""That a process keeps at hand, those used last."""
_KEPT = 50_000
"""Notes that it keeps at hand, of all namespaces: some 150 MB."""

log = LateLogger(__name__)


class Known:
    """The indexes of the namespaces used last."""

    def __init__(self, store: MemoryStore, encoder: str) -> None:
        """``encoder``: whose vectors can be used."""
        self._store = store
        self._encoder = encoder
        self._indexes: OrderedDict[str, Index] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def index(self, namespace: str) -> Index:
        """Return what there is in a namespace, read as far as it was not known."""
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            index = self._indexes.setdefault(namespace, Index())
            self._indexes.move_to_end(namespace)
            changes = await self._store.changes(namespace, index.newest)
            await self._take_in(index, changes.notes)
            if (len(index.versions), index.check) != (changes.count, changes.check):
                await self._mend(namespace, index)
            self._keep_few()
            return index

    def _keep_few(self) -> None:
        """Let go of the namespaces that were used the longest ago; whoever wants one reads it again."""
        kept = sum(len(index.versions) for index in self._indexes.values())
        while len(self._indexes) > 1 and (len(self._indexes) > _NAMESPACES or kept > _KEPT):
            namespace, index = self._indexes.popitem(last=False)
            self._locks.pop(namespace, None)
            kept -= len(index.versions)

    async def _mend(self, namespace: str, index: Index) -> None:
        """Drop what is gone; where more has changed, as after the server went back in time, read all of it anew."""
        versions = await self._store.versions(namespace)
        for note_id in [one for one, version in index.versions.items() if versions.get(one) != version]:
            index.remove(note_id)
        index.newest = max(index.versions.values(), default=0)
        if index.versions != versions:
            await self._take_in(index, (await self._store.changes(namespace, 0)).notes)

    async def _take_in(self, index: Index, notes: Sequence[Stored]) -> None:
        for count, (note_id, version, text) in enumerate(notes, 1):
            try:
                note, vector, others = unpacked(text, self._encoder)
            except ValueError:
                log.warning("note_ignored", note=note_id, error="it cannot be read: a later version wrote it")
                index.pass_over(note_id, version)
            else:
                index.put(note.model_copy(update={"id": note_id}), version, vector, others)
            if count % 200 == 0:
                await asyncio.sleep(0)  # others want to run
