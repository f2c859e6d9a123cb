"""The ``Memories`` of a process: one for each embedder that agents have chosen, in front of one store."""

from collections.abc import Callable

from ekiden.shared.memory.base import Embedder, MemoryStore
from ekiden.shared.memory.memories import Memories

__all__ = ["Recollections"]


class Recollections:
    """Makes and keeps them."""

    def __init__(self, store: MemoryStore, embedder_of: Callable[[str, int | None], Embedder]) -> None:
        """``embedder_of``: the embedder of a model's name (empty: the usual one) and a dimension."""
        self._store = store
        self._embedder_of = embedder_of
        self._made: dict[str, Memories] = {}

    def of(self, model: str = "", dimension: int | None = None) -> Memories:
        """Return what remembers by this model's vectors."""
        embedder = self._embedder_of(model, dimension)
        if embedder.name not in self._made:
            self._made[embedder.name] = Memories(self._store, embedder)
        return self._made[embedder.name]

    def close(self) -> None:
        """End what goes on in the background."""
        for memories in self._made.values():
            memories.close()
